package verify

import (
	"net/http"
	"strings"
)

var payload = Section{"Get a job", []Rule{
	{"job.unknown", "A job that does not exist returns 404.", func(t *checker) {
		for _, wrong := range []string{unknownJob(), "nonsense"} {
			t.refused(t.call(getJob, t.stack(), wrong, nil), http.StatusNotFound)
		}
	}},
	{"job.other-cluster", "A job of another cluster returns 404.", func(t *checker) {
		t.refused(t.call(getJob, t.stack(), t.needOtherCluster().job, nil), http.StatusNotFound)
	}},
	{"job.payload", "A job returns 200 with id, command and env, an object of strings.", func(t *checker) {
		job := t.job()
		a := t.status(t.call(getJob, t.stack(), job, nil), http.StatusOK)
		t.has(a, "", shape{"id": uuid, "env": stringMap, "command": text})
		t.is(a, "id", job)
		t.is(a, "command", "echo verify")
	}},
	{"job.ended", "A job that has ended or was canceled returns 404.", func(t *checker) {
		jobs := t.jobs(2)
		t.call(finishJob, t.stack(), jobs[0], fields{"detail": "No machine is left"})
		t.refused(t.call(getJob, t.stack(), jobs[0], nil), http.StatusNotFound)
		a, err := t.rest(http.MethodPut, "/jobs/"+jobs[1]+"/cancel", nil)
		if err != nil {
			t.skip("the REST API of this server cannot cancel a job: status %d", a.status)
		}
		t.refused(t.call(getJob, t.stack(), jobs[1], nil), http.StatusNotFound)
	}},
}}

var states = Section{"Get the states of jobs", []Rule{
	{"states.answer", "Getting states returns 200 with states, an object of strings.", func(t *checker) {
		a := t.status(t.call(getStates, t.stack(), "", fields{"job_uuids": unknownJobs(1)}), http.StatusOK)
		t.has(a, "", shape{"states": stringMap})
	}},
	{"states.job-uuids", "job_uuids is an array of at most 1000 job UUIDs: 400 for anything else.", checkJobUUIDs(getStates)},
	{"states.scheduled", "The response maps each job to its state: scheduled for a job that waits for an agent.", func(t *checker) {
		jobs := t.jobs(2)
		a := t.call(getStates, t.stack(), "", fields{"job_uuids": jobs})
		for _, job := range jobs {
			t.is(a, "states."+job, "scheduled")
		}
	}},
	{"states.running", "The state of a job that runs on an agent is running.", func(t *checker) {
		job := t.run()
		t.is(t.call(getStates, t.stack(), "", fields{"job_uuids": []string{job}}), "states."+job, "running")
	}},
}}

var finish = Section{"Finish a job", []Rule{
	{"finish.unknown", "Finishing a job that does not exist returns 404.", func(t *checker) {
		t.refused(t.call(finishJob, t.stack(), unknownJob(), fields{"detail": "There is no such job"}), http.StatusNotFound)
	}},
	{"finish.answer", "Finishing a job returns 200.", func(t *checker) {
		t.status(t.call(finishJob, t.stack(), t.job(), fields{"detail": "No machine is left"}), http.StatusOK)
	}},
	{"finish.detail-required", "detail is required: 422 without it.", func(t *checker) {
		job := t.job()
		for _, wrong := range []fields{{}, {"detail": nil}, {"detail": ""}, {"detail": " "}, {"detail": 1}} {
			t.refused(t.call(finishJob, t.stack(), job, wrong), http.StatusUnprocessableEntity)
		}
	}},
	{"finish.detail-length", "detail has at most 4 KB: 422 for 4097 bytes.", func(t *checker) {
		job := t.job()
		t.refused(t.call(finishJob, t.stack(), job, fields{"detail": strings.Repeat("x", 4097)}), http.StatusUnprocessableEntity)
		t.status(t.call(finishJob, t.stack(), job, fields{"detail": strings.Repeat("x", 4096)}), http.StatusOK)
	}},
	{"finish.exit-status", "exit_status is an integer: 422 for anything else.", func(t *checker) {
		job := t.job()
		for _, wrong := range []any{"0", 1.5, fields{}} {
			t.refused(t.call(finishJob, t.stack(), job, fields{"detail": "x", "exit_status": wrong}), http.StatusUnprocessableEntity)
		}
	}},
	{"finish.ends", "A finished job is no longer scheduled: the list does not return it.", func(t *checker) {
		job := t.job()
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.hidden(job)
		a := t.call(getStates, t.stack(), "", fields{"job_uuids": []string{job}})
		t.is(a, "states."+job, "finished")
	}},
	{"finish.once", "A job can be finished once: the second call returns 422.", func(t *checker) {
		job := t.job()
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.refused(t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"}), http.StatusUnprocessableEntity)
	}},
	{"finish.default", "By default the exit status is -1 and the signal reason stack_error.", func(t *checker) {
		job := t.job()
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		a := t.mustREST(http.MethodGet, "/jobs/"+job, nil)
		t.is(a, "exit_status", -1)
		t.is(a, "signal_reason", "stack_error")
	}},
	{"finish.success", "Exit status 0 means that the job succeeded.", func(t *checker) {
		job := t.job()
		t.call(finishJob, t.stack(), job, fields{"detail": "It was done before", "exit_status": 0})
		a := t.mustREST(http.MethodGet, "/jobs/"+job, nil)
		t.is(a, "exit_status", 0)
		t.is(a, "state", "passed")
	}},
	{"finish.retried", "The step's automatic retry rules apply to a job that was finished with -1.", func(t *checker) {
		job := t.take(retried, 1)[0]
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.eventually("the job to be retried", func() (*response, bool) {
			a := t.mustREST(http.MethodGet, "/jobs/"+job, nil)
			return a, a.at("retried") == true
		})
	}},
	{"finish.not-retried", "A rule with exit_status -1, signal_reason stack_error and limit 0 before others keeps the job from being retried.", func(t *checker) {
		job := t.take(notRetried, 1)[0]
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		a := t.mustREST(http.MethodGet, "/jobs/"+job, nil)
		t.is(a, "signal_reason", "stack_error")
		t.is(a, "retried", false)
	}},
}}
