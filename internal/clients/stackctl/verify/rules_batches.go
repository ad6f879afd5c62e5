package verify

import (
	"net/http"
	"slices"
)

// maxJobs is the maximum number of jobs of one call.
const maxJobs = 1000

func unknownJobs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = unknownJob()
	}
	return ids
}

// checkJobUUIDs checks the rule about job_uuids that several endpoints share.
func checkJobUUIDs(e endpoint) func(*checker) {
	return func(t *checker) {
		bad := []any{
			fields{},
			fields{"job_uuids": nil},
			fields{"job_uuids": unknownJob()},
			fields{"job_uuids": fields{}},
			fields{"job_uuids": []int{1}},
			fields{"job_uuids": []string{"no UUID"}},
			fields{"job_uuids": unknownJobs(maxJobs + 1)},
		}
		for _, body := range bad {
			t.refused(t.call(e, t.stack(), "", body), http.StatusBadRequest)
		}
		a := t.call(e, t.stack(), "", fields{"job_uuids": unknownJobs(maxJobs)})
		t.want(a, a.ok(), "success for 1000 jobs", "status %d", a.status)
	}
}

// checkSeconds checks the rule about a number of seconds in a body.
func checkSeconds(e endpoint, field string, least, most int) func(*checker) {
	return func(t *checker) {
		for _, right := range []any{least, most} {
			a := t.call(e, t.stack(), "", fields{"job_uuids": []string{}, field: right})
			t.want(a, a.ok(), "success", "status %d", a.status)
		}
		for _, wrong := range []any{least - 1, -1, most + 1, "soon", 1.5} {
			t.refused(t.call(e, t.stack(), "", fields{"job_uuids": []string{}, field: wrong}), http.StatusBadRequest)
		}
	}
}

// lacks expects that a list does not contain a job.
func (t *checker) lacks(a *response, path, job string) {
	for _, id := range a.texts(path) {
		t.want(a, id != job, "the job "+job+" not to be in "+path, "%s", show(a.at(path)))
	}
}

// contains expects that a list contains a job.
func (t *checker) contains(a *response, path, job string) {
	for _, id := range a.texts(path) {
		if id == job {
			return
		}
	}
	t.fail(a, "the job "+job+" in "+path, show(a.at(path)))
}

var reservation = Section{"Reserve jobs", []Rule{
	{"reserve.answer", "Reserving returns 200 with reserved and not_reserved, arrays of job UUIDs.", func(t *checker) {
		a := t.status(t.call(batchReserve, t.stack(), "", fields{"job_uuids": unknownJobs(1)}), http.StatusOK)
		t.has(a, "", shape{"reserved": texts, "not_reserved": texts})
	}},
	{"reserve.unknown", "A job that does not exist is in not_reserved.", func(t *checker) {
		unknown := unknownJob()
		a := t.call(batchReserve, t.stack(), "", fields{"job_uuids": []string{unknown}})
		t.lacks(a, "reserved", unknown)
		t.contains(a, "not_reserved", unknown)
	}},
	{"reserve.job-uuids", "job_uuids is an array of at most 1000 job UUIDs: 400 for anything else.", checkJobUUIDs(batchReserve)},
	{"reserve.expiry", "reservation_expiry_seconds is an integer, at most 3600: 400 for anything else.", checkSeconds(batchReserve, "reservation_expiry_seconds", 1, 3600)},
	{"reserve.reserves", "A scheduled job is reserved regardless of other jobs in the same call.", func(t *checker) {
		job, unknown := t.job(), unknownJob()
		a := t.reserve(t.stack(), 60, unknown, job)
		t.contains(a, "reserved", job)
		t.lacks(a, "reserved", unknown)
		t.lacks(a, "not_reserved", job)
	}},
	{"reserve.hides", "A reserved job is not in the list.", func(t *checker) {
		t.hidden(t.reserved(t.stack(), 60))
	}},
	{"reserve.rival", "A job that another stack has reserved is in not_reserved.", func(t *checker) {
		job := t.reserved(t.stack(), 60)
		a := t.reserve(t.newStack(), 60, job)
		t.lacks(a, "reserved", job)
		t.contains(a, "not_reserved", job)
	}},
	{"reserve.expires", "After the reservation has expired, the job is in the list again.", func(t *checker) {
		job := t.reserved(t.stack(), 1)
		t.server.sleep(t.ctx, 1)
		t.eventually("the job "+job+" in the list again", func() (*response, bool) {
			a := t.listAll()
			return a, slices.Contains(listed(a), job)
		})
	}},
	{"reserve.extends", "Reserving a job again extends its expiry.", func(t *checker) {
		job := t.reserved(t.stack(), 2)
		t.contains(t.reserve(t.stack(), 60, job), "reserved", job)
		t.server.sleep(t.ctx, 4)
		t.hidden(job)
	}},
	{"reserve.not-shortened", "Reserving a job again for a shorter time does not change the expiry.", func(t *checker) {
		job := t.reserved(t.stack(), 900)
		t.contains(t.reserve(t.stack(), 60, job), "reserved", job)
		// A token expires with the reservation.
		t.near(t.issue(t.stack(), 3600, job), "job_acquisition_tokens.0.expires_at", 900)
	}},
	{"reserve.default", "A reservation lasts 900 seconds by default.", func(t *checker) {
		job := t.job()
		t.call(batchReserve, t.stack(), "", fields{"job_uuids": []string{job}})
		// A token expires with the reservation.
		t.near(t.issue(t.stack(), 3600, job), "job_acquisition_tokens.0.expires_at", 900)
	}},
	{"reserve.deregistered", "After a stack was de-registered, its reserved jobs are in the list again.", func(t *checker) {
		key := t.newStack()
		job := t.reserved(key, 600)
		t.deregister(key)
		t.eventually("the job "+job+" in the list again", func() (*response, bool) {
			a := t.listAll()
			return a, slices.Contains(listed(a), job)
		})
	}},
}}
