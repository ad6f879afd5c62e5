package verify

import "net/http"

var tokens = Section{"Job acquisition tokens", []Rule{
	{"tokens.answer", "Asking for tokens answers 201 with job_acquisition_tokens and not_issued.", func(t *trial) {
		a := t.status(t.call(issueTokens, t.stack(), "", fields{"job_uuids": unknownJobs(1)}), http.StatusCreated)
		t.has(a, "", shape{"job_acquisition_tokens": array, "not_issued": texts})
	}},
	{"tokens.unknown", "No token is issued for a job that does not exist.", func(t *trial) {
		t.notIssued(t.stack(), unknownJob())
	}},
	{"tokens.job-uuids", "job_uuids is an array of at most 1000 job UUIDs: 400 for anything else.", checkJobUUIDs(issueTokens)},
	{"tokens.lifetime", "token_lifetime_seconds is an integer from 1 to 3600: 400 for anything else.", checkSeconds(issueTokens, "token_lifetime_seconds", 1, 3600)},
}}

// notIssued wants no token to be issued for a job.
func (t *trial) notIssued(key, job string) *answer {
	a := t.call(issueTokens, key, "", fields{"job_uuids": []string{job}})
	t.want(a, len(a.list("job_acquisition_tokens")) == 0, "no token", "%s", show(a.at("job_acquisition_tokens")))
	t.contains(a, "not_issued", job)
	return a
}

var acquisition = Section{"Agents with a job acquisition token", nil}
