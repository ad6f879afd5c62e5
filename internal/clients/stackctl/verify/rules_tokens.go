package verify

import (
	"net/http"
	"slices"
	"strings"
)

var tokens = Section{"Job acquisition tokens", []Rule{
	{"tokens.answer", "Issuing tokens returns 201 with job_acquisition_tokens and not_issued.", func(t *checker) {
		a := t.status(t.call(issueTokens, t.stack(), "", fields{"job_uuids": unknownJobs(1)}), http.StatusCreated)
		t.has(a, "", shape{"job_acquisition_tokens": array, "not_issued": array})
	}},
	{"tokens.job-uuids", "job_uuids is an array of at most 1000 job UUIDs: 400 for anything else.", checkJobUUIDs(issueTokens)},
	{"tokens.lifetime", "token_lifetime_seconds is an integer from 1 to 3600: 400 for anything else.", checkSeconds(issueTokens, "token_lifetime_seconds", 1, 3600)},
	{"tokens.unknown", "No token is issued for a job that does not exist.", func(t *checker) {
		t.notIssued(t.stack(), unknownJob())
	}},
	{"tokens.entry", "A token has job_uuid and expires_at, and starts with svcjat_.", func(t *checker) {
		job := t.reserved(t.stack(), 60)
		a := t.issue(t.stack(), 60, job)
		t.has(a, "job_acquisition_tokens.0", shape{"job_uuid": uuid, "job_acquisition_token": text, "expires_at": timestamp})
		t.is(a, "job_acquisition_tokens.0.job_uuid", job)
		token := a.text("job_acquisition_tokens.0.job_acquisition_token")
		t.want(a, strings.HasPrefix(token, "svcjat_") && token != "svcjat_", "a token that begins with svcjat_", "another")
	}},
	{"tokens.partial", "A call can succeed for some jobs and not for others.", func(t *checker) {
		job, unknown := t.reserved(t.stack(), 60), unknownJob()
		a := t.status(t.issue(t.stack(), 60, unknown, job), http.StatusCreated)
		t.want(a, len(a.list("job_acquisition_tokens")) == 1, "one token", "%d", len(a.list("job_acquisition_tokens")))
		t.is(a, "job_acquisition_tokens.0.job_uuid", job)
		t.contains(a, "not_issued", unknown)
		t.lacks(a, "not_issued", job)
	}},
	{"tokens.not-reserved", "No token is issued for a job that is not reserved.", func(t *checker) {
		t.notIssued(t.stack(), t.job())
	}},
	{"tokens.rival", "No token is issued for a job that another stack has reserved.", func(t *checker) {
		job := t.reserved(t.stack(), 60)
		t.notIssued(t.newStack(), job)
	}},
	{"tokens.reservation-expired", "No token is issued after the reservation has expired.", func(t *checker) {
		job := t.reserved(t.stack(), 1)
		t.server.sleep(t.ctx, 2)
		t.notIssued(t.stack(), job)
	}},
	{"tokens.not-command", "No token is issued for a job that is not a command job.", func(t *checker) {
		t.notIssued(t.stack(), t.take(gate, 1)[0])
	}},
	{"tokens.other-cluster", "No token is issued for a job outside of the stack's cluster.", func(t *checker) {
		t.notIssued(t.stack(), t.needOtherCluster().job)
	}},
	{"tokens.reasons", "A server may explain in not_issued_reasons why there is no token, by job.", func(t *checker) {
		known := []any{"not_found", "not_reserved", "other_cluster", "reservation_expired", "not_command_job"}
		job, unknown := t.job(), unknownJob()
		a := t.issue(t.stack(), 60, job, unknown)
		if a.at("not_issued_reasons") == nil {
			t.skip("this server does not; the protocol leaves it open")
		}
		for id, want := range map[string]string{job: "not_reserved", unknown: "not_found"} {
			t.is(a, "not_issued_reasons."+id, want)
		}
		expired := t.reserved(t.stack(), 1)
		t.server.sleep(t.ctx, 2)
		t.is(t.issue(t.stack(), 60, expired), "not_issued_reasons."+expired, "reservation_expired")
		reasons, _ := a.at("not_issued_reasons").(map[string]any)
		for _, reason := range reasons {
			t.want(a, slices.Contains(known, reason), "one of "+show(known), "%s", show(reason))
		}
	}},
	{"tokens.default", "A token is valid for 900 seconds by default.", func(t *checker) {
		job := t.reserved(t.stack(), 3600)
		t.near(t.call(issueTokens, t.stack(), "", fields{"job_uuids": []string{job}}), "job_acquisition_tokens.0.expires_at", 900)
	}},
	{"tokens.lifetime-first", "A token expires after its lifetime if the reservation ends later.", func(t *checker) {
		job := t.reserved(t.stack(), 900)
		t.near(t.issue(t.stack(), 60, job), "job_acquisition_tokens.0.expires_at", 60)
	}},
	{"tokens.reservation-first", "A token expires with the reservation if its lifetime ends later.", func(t *checker) {
		job := t.reserved(t.stack(), 60)
		t.near(t.issue(t.stack(), 900, job), "job_acquisition_tokens.0.expires_at", 60)
	}},
}}

// issue requests tokens for jobs.
func (t *checker) issue(key string, lifetime int, jobs ...string) *response {
	a := t.call(issueTokens, key, "", fields{"job_uuids": jobs, "token_lifetime_seconds": lifetime})
	t.hideTokens(a)
	return a
}

// hideTokens redacts the tokens of a response.
func (t *checker) hideTokens(a *response) {
	for _, entry := range a.list("job_acquisition_tokens") {
		if e, ok := entry.(map[string]any); ok {
			token, _ := e["job_acquisition_token"].(string)
			t.server.hide(token)
		}
	}
}

// notIssued expects that no token is issued for a job.
func (t *checker) notIssued(key, job string) {
	a := t.issue(key, 60, job)
	t.want(a, len(a.list("job_acquisition_tokens")) == 0, "no token", "%s", show(a.at("job_acquisition_tokens")))
	t.contains(a, "not_issued", job)
}
