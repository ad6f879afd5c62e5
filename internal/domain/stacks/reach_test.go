package stacks_test

import (
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// Agent tokens reach only self-hosted queues: stacks and agents do not see jobs of hosted queues.
func TestStacks_DoNotReachJobsOfHostedQueues(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply(`organizations: [{slug: acme, clusters: [{name: Default, queues: [{key: big, hosted: {platform: linux}}]}]}]`)
		w.ada.Patch(hello, fields{"configuration": "steps: [{command: make, agents: {queue: big}}]"}).Want(http.StatusOK)
		id := w.ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("jobs.0.id")
		w.stack.Get(robot+"/jobs/"+id).WantMessage(http.StatusNotFound, "No job found")
		w.stack.Post(robot+"/jobs/"+id+"/finish", fields{"detail": "x"}).WantMessage(http.StatusNotFound, "No job found")
		notified := w.stack.Post(robot+"/notifications", fields{"notifications": []any{fields{"job_uuid": id, "detail": "x"}}}).Want(http.StatusOK)
		wantEqual(t, "notification", notified.At("errors.0.error"), "job not found")
		states := w.stack.Post(robot+"/jobs/get-states", fields{"job_uuids": []string{id}}).Want(http.StatusOK)
		wantEqual(t, "states", states.At("states"), fields{})
		wantEqual(t, "reserved", w.reserve(id).Want(http.StatusOK).At("reserved"), []string{})
		wantEqual(t, "token", w.issue(w.stack, id).Want(http.StatusCreated).At("not_issued_reasons."+id), "not_found")
		w.Register(t, nil).Client.Put("/v3/jobs/"+id+"/acquire", nil).WantMessage(http.StatusUnprocessableEntity, "No job found")
		wantEqual(t, "the job", w.ada.Get(acme+"/jobs/"+id).String("state"), "scheduled")
	})
}

func TestGetJob_Is404OnceTheJobIsNoLongerTheStacks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(8)
		want := func(what, id string, status int) {
			t.Helper()
			if r := w.stack.Get(robot + "/jobs/" + id); r.Status != status {
				t.Errorf("%s: %d %s, want %d", what, r.Status, r.Body, status)
			}
		}
		session := func(key, id string) *servertest.Client {
			t.Helper()
			w.Clock.Advance(time.Second)
			path := "/v3/stacks/" + key
			w.stack.Put(path+"/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{id}}).Want(http.StatusOK)
			token := w.stack.Post(path+"/job-acquisition-tokens", fields{"job_uuids": []string{id}}).Want(http.StatusCreated).String("job_acquisition_tokens.0.job_acquisition_token")
			client := w.AsAgent(t, w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusOK).String("access_token"))
			client.Put("/v3/jobs/"+id+"/acquire", nil).Want(http.StatusOK)
			return client
		}
		w.register("rival").Want(http.StatusCreated)

		w.ada.Put(acme+"/jobs/"+ids[0]+"/cancel", nil).Want(http.StatusOK)
		want("canceled", ids[0], http.StatusNotFound)
		w.stack.Post(robot+"/jobs/"+ids[1]+"/finish", fields{"detail": "No machine"}).Want(http.StatusOK)
		want("finished", ids[1], http.StatusNotFound)

		session("robot", ids[2])
		want("held by an agent with the stack's token", ids[2], http.StatusOK)
		session("rival", ids[3])
		want("held by an agent with another stack's token", ids[3], http.StatusNotFound)

		running := session("robot", ids[4])
		running.Put("/v3/jobs/"+ids[4]+"/start", fields{}).Want(http.StatusOK)
		want("running", ids[4], http.StatusOK)
		w.ada.Put(acme+"/jobs/"+ids[4]+"/cancel", nil).Want(http.StatusOK)
		want("canceling", ids[4], http.StatusNotFound)

		w.reserve(ids[5]).Want(http.StatusOK)
		w.Register(t, fields{"ignore_in_dispatches": true}).Acquire(ids[5])
		want("reserved by the stack, held by an agent with an agent token", ids[5], http.StatusOK)
		w.Clock.Advance(time.Second)
		w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": ids[6:7]}).Want(http.StatusOK)
		w.Register(t, fields{"ignore_in_dispatches": true}).Acquire(ids[6])
		want("reserved by another stack, held by an agent with an agent token", ids[6], http.StatusNotFound)

		polling := w.Register(t, fields{"meta_data": []string{"os=linux"}})
		polling.Acquire(ids[7])
		want("held by an agent that polls", ids[7], http.StatusNotFound)
	})
}

func TestFinish_RefusesADetailOfSpaces(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.stack.Post(robot+"/jobs/"+id+"/finish", fields{"detail": " \n\t"}).WantMessage(http.StatusUnprocessableEntity, "detail is required")
		wantEqual(t, "state", w.state(id), "scheduled")
	})
}
