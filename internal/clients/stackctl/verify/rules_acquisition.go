package verify

import "net/http"

var acquisition = Section{"Agents with a job acquisition token", []Rule{
	{"acquire.register", "An agent registers with the token in place of an agent token, and gets a session.", func(t *trial) {
		_, token := t.tokenOf(t.stack(), t.Token)
		a := t.agentCall(http.MethodPost, "/register", token, agentRegistration)
		t.status(a, http.StatusOK)
		t.has(a, "", shape{"id": uuid, "access_token": text})
	}},
	{"acquire.acquire", "The session can acquire the job, which is not the stack's any more then.", func(t *trial) {
		job, token := t.tokenOf(t.stack(), t.Token)
		session := t.session(token)
		t.status(t.agentCall(http.MethodPut, "/jobs/"+job+"/acquire", session, nil), http.StatusOK)
		a := t.call(getStates, t.stack(), "", fields{"job_uuids": []string{job}})
		state := a.text("states." + job)
		t.want(a, state != "scheduled" && state != "reserved", "the job not to be scheduled or reserved any more", "%q", state)
	}},
	{"acquire.only", "The session can acquire no other job, not even one that the stack has reserved.", func(t *trial) {
		_, token := t.tokenOf(t.stack(), t.Token)
		session := t.session(token)
		for _, other := range []string{t.job(), t.reserved(t.stack(), 60)} {
			a := t.agentCall(http.MethodPut, "/jobs/"+other+"/acquire", session, nil)
			t.want(a, a.status >= 400 && a.status < 500, "the other job to be refused: 4xx", "status %d", a.status)
		}
	}},
	{"acquire.no-work", "An agent with such a session is offered no work when it asks for some.", func(t *trial) {
		t.job() // there is work
		_, token := t.tokenOf(t.stack(), t.Token)
		a := t.status(t.agentCall(http.MethodGet, "/ping", t.session(token), nil), http.StatusOK)
		t.want(a, a.at("job") == nil, "no job", "%s", show(a.at("job")))
	}},
	{"acquire.expired", "Nobody registers with a token that has expired: 401.", func(t *trial) {
		job := t.reserved(t.stack(), 60)
		token := t.issue(t.stack(), 1, job).text("job_acquisition_tokens.0.job_acquisition_token")
		t.server.sleep(t.ctx, 2)
		t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.deregistered", "Nobody registers with a token of a stack that was de-registered: 401.", func(t *trial) {
		key := t.newStack()
		_, token := t.tokenOf(key, t.Token)
		t.deregister(key)
		t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.lost", "A session cannot acquire the job once another stack has reserved it.", func(t *trial) {
		key, rival := t.newStack(), t.newStack()
		job, token := t.tokenOf(key, t.Token)
		session := t.session(token)
		t.deregister(key)
		t.contains(t.reserve(rival, 60, job), "reserved", job)
		a := t.agentCall(http.MethodPut, "/jobs/"+job+"/acquire", session, nil)
		t.want(a, a.status >= 400 && a.status < 500, "the job to be refused: 4xx", "status %d", a.status)
	}},
	{"acquire.ended", "Nobody registers with the token of a job that has ended: 401.", func(t *trial) {
		job, token := t.tokenOf(t.stack(), t.Token)
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
	}},
	{"acquire.forged", "Nobody registers with a token that was not issued like that: 401.", func(t *trial) {
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
	{"acquire.revoked", "Nobody registers with it when the agent token is revoked that issued it: 401.", func(t *trial) {
		path, agentToken := t.makeToken(t.shop().clusterID)
		_, token := t.tokenOf(t.stack(), agentToken)
		t.mustREST(http.MethodDelete, path, nil)
		t.refusedSoon(token)
	}},
	{"acquire.address", "Nobody registers with it from an address that the agent token is not allowed from: 401.", func(t *trial) {
		path, agentToken := t.makeToken(t.shop().clusterID)
		_, token := t.tokenOf(t.stack(), agentToken)
		t.mustREST(http.MethodPatch, path, fields{"allowed_ip_addresses": "192.0.2.1/32"}) // nobody's
		t.refusedSoon(token)
	}},
	{"acquire.agent-token-expired", "Nobody registers with it when the agent token has expired that issued it: 401.", func(t *trial) {
		t.skip("an agent token that is made for this would live for ten minutes")
	}},
	{"acquire.not-for-stacks", "It is no agent token: the stacks API refuses it with 401.", func(t *trial) {
		_, token := t.tokenOf(t.stack(), t.Token)
		r := t.request(scheduledJobs, t.stack(), "", nil)
		r.auth = "Token " + token
		t.refused(t.send(scheduledJobs, r), http.StatusUnauthorized)
	}},
}}

// agentRegistration is what an agent says when it registers.
var agentRegistration = fields{"name": "stack-verify-%random", "hostname": "verify", "os": "any", "arch": "any", "version": "0", "ignore_in_dispatches": true}

// agentCall makes a call of the agent API.
func (t *trial) agentCall(method, path, token string, body any) *answer {
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
func (t *trial) tokenOf(key, agentToken string) (job, token string) {
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
func (t *trial) session(token string) string {
	a := t.agentCall(http.MethodPost, "/register", token, agentRegistration)
	session := a.text("access_token")
	t.want(a, session != "", "an access_token", "none")
	t.agentCall(http.MethodPost, "/connect", session, nil)
	return session
}

// refusedSoon wants nobody to be able to register with a token, at the latest a moment after the agent token
// was changed: a server may remember for that long what it knew.
func (t *trial) refusedSoon(token string) {
	t.server.sleep(t.ctx, 1)
	t.refused(t.agentCall(http.MethodPost, "/register", token, agentRegistration), http.StatusUnauthorized)
}

// run has an agent acquire and start a job, and returns the job.
func (t *trial) run() (job string) {
	job, token := t.tokenOf(t.stack(), t.Token)
	session := t.session(token)
	for _, step := range []string{"/acquire", "/start"} {
		a := t.agentCall(http.MethodPut, "/jobs/"+job+step, session, fields{})
		t.want(a, a.ok(), "the agent to have the job", "status %d", a.status)
	}
	return job
}
