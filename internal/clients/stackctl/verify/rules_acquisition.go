package verify

import "net/http"

var acquisition = Section{"Agents with a job acquisition token", []Rule{
	{"acquire.register", "An agent can register with the token instead of an agent token, and gets a session.", func(t *checker) {
		_, token := t.tokenOf(t.stack(), t.Token)
		a := t.agentCall(http.MethodPost, "/register", token, agentRegistration)
		t.status(a, http.StatusOK)
		t.has(a, "", shape{"id": uuid, "access_token": text})
	}},
	{"acquire.acquire", "The session can acquire the job. The job then no longer belongs to the stack.", func(t *checker) {
		job, token := t.tokenOf(t.stack(), t.Token)
		session := t.session(token)
		t.status(t.agentCall(http.MethodPut, "/jobs/"+job+"/acquire", session, nil), http.StatusOK)
		a := t.call(getStates, t.stack(), "", fields{"job_uuids": []string{job}})
		state := a.text("states." + job)
		t.want(a, state != "scheduled" && state != "reserved", "the job not to be scheduled or reserved any more", "%q", state)
	}},
	{"acquire.only", "The session can acquire no other job, not even one that the stack has reserved.", func(t *checker) {
		_, token := t.tokenOf(t.stack(), t.Token)
		session := t.session(token)
		for _, other := range []string{t.job(), t.reserved(t.stack(), 60)} {
			a := t.agentCall(http.MethodPut, "/jobs/"+other+"/acquire", session, nil)
			t.want(a, a.status >= 400 && a.status < 500, "the other job to be refused: 4xx", "status %d", a.status)
		}
	}},
	{"acquire.no-work", "An agent with this session gets no work when it pings.", func(t *checker) {
		t.job() // creates work
		_, token := t.tokenOf(t.stack(), t.Token)
		a := t.status(t.agentCall(http.MethodGet, "/ping", t.session(token), nil), http.StatusOK)
		t.want(a, a.at("job") == nil, "no job", "%s", show(a.at("job")))
	}},
	{"acquire.expired", "Registering with an expired token returns 401.", func(t *checker) {
		job := t.reserved(t.stack(), 60)
		token := t.issue(t.stack(), 1, job).text("job_acquisition_tokens.0.job_acquisition_token")
		t.server.sleep(t.ctx, 2)
		t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.deregistered", "Registering with a token of a de-registered stack returns 401.", func(t *checker) {
		key := t.newStack()
		_, token := t.tokenOf(key, t.Token)
		t.deregister(key)
		t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.lost", "A session cannot acquire the job once another stack has reserved it.", func(t *checker) {
		key, rival := t.newStack(), t.newStack()
		job, token := t.tokenOf(key, t.Token)
		session := t.session(token)
		t.deregister(key)
		t.contains(t.reserve(rival, 60, job), "reserved", job)
		a := t.agentCall(http.MethodPut, "/jobs/"+job+"/acquire", session, nil)
		t.want(a, a.status >= 400 && a.status < 500, "the job to be refused: 4xx", "status %d", a.status)
	}},
	{"acquire.ended", "Registering with the token of an ended job returns 401.", func(t *checker) {
		job, token := t.tokenOf(t.stack(), t.Token)
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.forged", "Registering with a modified token returns 401.", func(t *checker) {
		_, token := t.tokenOf(t.stack(), t.Token)
		forged := []byte(token)
		if middle := len(forged) / 2; forged[middle] == 'A' {
			forged[middle] = 'B'
		} else {
			forged[middle] = 'A'
		}
		t.server.hide(string(forged))
		t.refused(t.agentCall(http.MethodPost, "/register", string(forged), agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.revoked", "Registering returns 401 after the issuing agent token was revoked.", func(t *checker) {
		path, agentToken := t.makeToken(t.needFixture().clusterID)
		_, token := t.tokenOf(t.stack(), agentToken)
		t.mustREST(http.MethodDelete, path, nil)
		t.refusedSoon(token)
	}},
	{"acquire.address", "Registering returns 401 from an address that the issuing agent token does not allow.", func(t *checker) {
		path, agentToken := t.makeToken(t.needFixture().clusterID)
		_, token := t.tokenOf(t.stack(), agentToken)
		t.mustREST(http.MethodPatch, path, fields{"allowed_ip_addresses": "192.0.2.1/32"}) // a documentation address
		t.refusedSoon(token)
	}},
	{"acquire.agent-token-expired", "Registering returns 401 after the issuing agent token has expired.", func(t *checker) {
		t.skip("an agent token that is made for this would live for ten minutes")
	}},
	{"acquire.not-for-stacks", "It is not an agent token: the stacks API returns 401.", func(t *checker) {
		_, token := t.tokenOf(t.stack(), t.Token)
		r := t.request(scheduledJobs, t.stack(), "", nil)
		r.auth = "Token " + token
		t.refused(t.send(scheduledJobs, r), http.StatusUnauthorized)
	}},
}}

// agentRegistration is the body that registers an agent.
var agentRegistration = fields{"name": "stack-verify-%random", "hostname": "verify", "os": "any", "arch": "any", "version": "0", "ignore_in_dispatches": true}

// agentCall calls the agent API.
func (t *checker) agentCall(method, path, token string, body any) *response {
	a, err := t.server.send(t.ctx, request{method: method, url: t.server.agentURL + path, auth: "Token " + token, body: body})
	if err != nil {
		t.fail(nil, "an answer to "+method+" "+path, err.Error())
	}
	for _, field := range []string{"access_token", "token"} {
		t.server.hide(a.text(field))
	}
	if session := a.text("access_token"); path == "/register" && session != "" {
		t.agents = append(t.agents, session)
	}
	return a
}

// tokenOf returns a reserved job and a token for it, issued with an agent token.
func (t *checker) tokenOf(key, agentToken string) (job, token string) {
	job = t.reserved(key, 600)
	r := t.request(issueTokens, key, "", fields{"job_uuids": []string{job}})
	r.auth = "Token " + agentToken
	a := t.send(issueTokens, r)
	t.hideTokens(a)
	token = a.text("job_acquisition_tokens.0.job_acquisition_token")
	t.want(a, token != "", "a token", "none")
	return job, token
}

// session registers and connects an agent with a token.
func (t *checker) session(token string) string {
	a := t.agentCall(http.MethodPost, "/register", token, agentRegistration)
	session := a.text("access_token")
	t.want(a, session != "", "an access_token", "none")
	t.agentCall(http.MethodPost, "/connect", session, nil)
	return session
}

// refusedSoon expects that registering with a token fails, shortly after the agent token was changed at the
// latest: a server may cache that long.
func (t *checker) refusedSoon(token string) {
	t.server.sleep(t.ctx, 1)
	t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
}

// run makes an agent acquire and start a job, and returns the job.
func (t *checker) run() (job string) {
	job, token := t.tokenOf(t.stack(), t.Token)
	session := t.session(token)
	for _, step := range []string{"/acquire", "/start"} {
		a := t.agentCall(http.MethodPut, "/jobs/"+job+step, session, fields{})
		t.want(a, a.ok(), "the agent to have the job", "status %d", a.status)
	}
	return job
}
