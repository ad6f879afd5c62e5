package verify

import "net/http"

var payload = Section{"Get a job", []Rule{
	{"job.unknown", "A job that does not exist is 404.", func(t *trial) {
		for _, wrong := range []string{unknownJob(), "nonsense"} {
			t.refused(t.call(getJob, t.stack(), wrong, nil), http.StatusNotFound)
		}
	}},
}}

var states = Section{"Get the states of jobs", []Rule{
	{"states.answer", "Asking for states answers 200 with states, an object of strings.", func(t *trial) {
		a := t.status(t.call(getStates, t.stack(), "", fields{"job_uuids": unknownJobs(1)}), http.StatusOK)
		t.has(a, "", shape{"states": stringMap})
	}},
	{"states.job-uuids", "job_uuids is an array of at most 1000 job UUIDs: 400 for anything else.", checkJobUUIDs(getStates)},
}}

var finish = Section{"Finish a job", []Rule{
	{"finish.unknown", "Finishing a job that does not exist is 404.", func(t *trial) {
		t.refused(t.call(finishJob, t.stack(), unknownJob(), fields{"detail": "There is no such job"}), http.StatusNotFound)
	}},
}}
