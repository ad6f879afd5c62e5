package stacks_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const (
	acme  = "/v2/organizations/acme"
	hello = acme + "/pipelines/hello"
	robot = "/v3/stacks/robot"
)

type fields = map[string]any

// world is a server on which the stack robot is registered in acme's default cluster.
type world struct {
	*servertest.Server
	t     *testing.T
	ada   *servertest.Client
	stack *servertest.Client
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), stack: s.AsAgent(t, servertest.AcmeAgent)}
		w.register("robot").Want(http.StatusCreated)
		fn(t, w)
	})
}

func registration(key string) fields {
	return fields{"key": key, "type": "custom", "queue_key": "__default__", "metadata": fields{"version": "1"}}
}

func (w *world) register(key string) *servertest.Response {
	w.t.Helper()
	return w.stack.Post("/v3/stacks/register", registration(key))
}

// schedule creates a build with a number of jobs and returns their ids in the order of the list.
func (w *world) schedule(jobs int) []string {
	w.t.Helper()
	w.ada.Patch(hello, fields{"configuration": fmt.Sprintf("steps:\n  - command: echo hello\n    key: say\n    agents: {os: linux}\n    parallelism: %d\n", jobs)}).Want(http.StatusOK)
	made := w.ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	ids := make([]string, jobs)
	for i := range ids {
		ids[i] = made.String("jobs." + strconv.Itoa(i) + ".id")
	}
	slices.Sort(ids)
	w.Clock.Advance(time.Second)
	return ids
}

func (w *world) list(query string) *servertest.Response {
	w.t.Helper()
	w.Clock.Advance(time.Second) // within the rate limit
	return w.stack.Get(robot + "/scheduled-jobs?queue_key=default" + query)
}

// listed returns the job ids of a list.
func listed(r *servertest.Response) []string {
	ids := []string{}
	for i := range r.Want(http.StatusOK).Len("jobs") {
		ids = append(ids, r.String("jobs."+strconv.Itoa(i)+".id"))
	}
	return ids
}

func (w *world) reserve(ids ...string) *servertest.Response {
	w.t.Helper()
	w.Clock.Advance(time.Second)
	return w.stack.Put(robot+"/scheduled-jobs/batch-reserve", fields{"job_uuids": ids, "reservation_expiry_seconds": 60})
}

func (w *world) state(id string) any {
	w.t.Helper()
	w.Clock.Advance(time.Second)
	return w.stack.Post(robot+"/jobs/get-states", fields{"job_uuids": []string{id}}).Want(http.StatusOK).At("states." + id)
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestRegister_IsIdempotentAndEchoes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		again := registration("robot")
		again["queue_key"], again["metadata"] = "~", fields{}
		r := w.stack.Post("/v3/stacks/register", again).Want(http.StatusOK)
		for path, want := range map[string]any{"key": "robot", "type": "custom", "cluster_queue_key": "~", "metadata": map[string]any{}, "state": "connected"} {
			wantEqual(t, path, r.At(path), want)
		}
		wantEqual(t, "scope", r.Header.Get("RateLimit-Scope"), "default")
		wantEqual(t, "limit", r.Header.Get("RateLimit-Limit"), "10")
		w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent)
		w.stack.Post(robot+"/deregister", nil).WantMessage(http.StatusNotFound, "No stack found")
		w.list("").WantMessage(http.StatusNotFound, "No stack found")
		w.register("robot").Want(http.StatusCreated)
	})
}

func TestRegister_RefusesWhatBreaksItsRules(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		many := fields{}
		for i := range 101 {
			many[strconv.Itoa(i)] = ""
		}
		for name, test := range map[string]struct {
			field string
			value any
			want  string
		}{
			"no key":          {"key", "", "key is required"},
			"a long key":      {"key", strings.Repeat("k", 81), "key must have at most 80 bytes, not 81"},
			"a wrong key":     {"key", "a.b", "key must have only letters, digits, underscores and dashes"},
			"a key by type":   {"key", 7, "key must be a string, not a number"},
			"no type":         {"type", "", "type is required"},
			"a wrong type":    {"type", "mine", "type must be kubernetes, elastic or custom"},
			"no queue":        {"queue_key", "", "queue_key is required; __default__ is the cluster's default queue"},
			"many keys":       {"metadata", many, "metadata must have at most 100 keys, not 101"},
			"a long name":     {"metadata", fields{strings.Repeat("é", 65): ""}, "metadata has a key of more than 64 characters"},
			"a long value":    {"metadata", fields{"a": strings.Repeat("é", 257)}, "metadata.a has more than 256 characters"},
			"nested metadata": {"metadata", fields{"a": fields{}, "b": ""}, "metadata.a must be a string"},
			"a number":        {"metadata", fields{"a": "", "b": 1}, "metadata.b must be a string"},
			"a null value":    {"metadata", fields{"a": "", "b": nil}, "metadata.b must be a string"},
			"null metadata":   {"metadata", nil, "metadata is required; it may be empty"},
			"a list":          {"metadata", []string{}, "metadata must be an object"},
			"a null key":      {"key", nil, "key is required"},
		} {
			body := registration("other")
			body[test.field] = test.value
			w.Clock.Advance(time.Second)
			t.Log(name)
			w.stack.Post("/v3/stacks/register", body).WantMessage(http.StatusUnprocessableEntity, test.want)
		}
		body := registration("other")
		delete(body, "metadata")
		w.stack.Post("/v3/stacks/register", body).WantMessage(http.StatusUnprocessableEntity, "metadata is required; it may be empty")
		body = registration(strings.Repeat("k", 80))
		body["queue_key"] = "nowhere"
		w.stack.Post("/v3/stacks/register", body).WantMessage(http.StatusNotFound, "No self-hosted queue found with the key nowhere")
		w.Apply("organizations: [{slug: acme, limits: {stacks: 1}}]")
		w.register("second").WantMessage(http.StatusForbidden, "The organization has 1 active stacks, which is its limit; de-register one that is not needed")
		w.register("robot").Want(http.StatusOK)
	})
}

func TestList_ShowsUnreservedJobsOldestFirst(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		empty := w.list("").Want(http.StatusOK)
		wantEqual(t, "end of an empty list", empty.At("page_info.end_cursor"), nil)
		ids := append(w.schedule(3), w.schedule(2)...)
		r := w.list("")
		wantEqual(t, "jobs", listed(r), ids)
		wantEqual(t, "rules", r.At("jobs.0.agent_query_rules"), []any{"queue=default", "os=linux"})
		wantEqual(t, "step", r.At("jobs.0.step.key"), "say")
		wantEqual(t, "pipeline", r.At("jobs.0.pipeline.slug"), "hello")
		wantEqual(t, "build", r.At("jobs.3.build.number"), 2)
		wantEqual(t, "paused", r.At("cluster_queue.dispatch_paused"), false)

		first := w.list("&limit=2").Want(http.StatusOK)
		wantEqual(t, "more", first.At("page_info.has_next_page"), true)
		w.reserve(ids[1]).Want(http.StatusOK)
		rest := w.list("&after=" + first.String("page_info.end_cursor"))
		wantEqual(t, "after a job that left", listed(rest), ids[2:])
		wantEqual(t, "more", rest.At("page_info.has_next_page"), false)
		wantEqual(t, "without the reserved one", listed(w.list("")), append([]string{ids[0]}, ids[2:]...))
	})
}

func TestList_RefusesNonsense(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for query, want := range map[string]string{
			"&limit=0":    "limit must be an integer from 1 to 1000",
			"&limit=1001": "limit must be an integer from 1 to 1000",
			"&limit=x":    "limit must be an integer from 1 to 1000",
			"&wait=31":    "wait must be an integer from 0 to 30",
			"&after=x":    "after is not a cursor of this list",
		} {
			w.list(query).WantMessage(http.StatusBadRequest, want)
		}
		w.stack.Get(robot+"/scheduled-jobs").WantMessage(http.StatusBadRequest, "queue_key is required; __default__ is the cluster's default queue")
		w.stack.Get(robot + "/scheduled-jobs?queue_key=nowhere").Want(http.StatusNotFound)
		w.stack.Get("/v3/stacks/unknown/scheduled-jobs?queue_key=default").WantMessage(http.StatusNotFound, "No stack found")
		w.AsAgent(t, "svcct_wrong").Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusUnauthorized)
	})
}

func TestList_KeepsTheQueueConnected(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const queues = acme + "/clusters/" + servertest.AcmeClusterID + "/queues"
		w.ada.Post(queues, fields{"key": "quiet"}).Want(http.StatusCreated)
		replica := w.Replica(t).As(t, servertest.Ada)
		want := func(state string, since any) {
			t.Helper()
			for _, anybody := range []*servertest.Client{w.ada, replica} {
				list := anybody.Get(queues).Want(http.StatusOK)
				wantEqual(t, "in the list", list.At("0.connection_state"), state)
				wantEqual(t, "of the other queue", list.At("1.connection_state"), "never_connected")
				one := anybody.Get(queues + "/" + servertest.AcmeQueueID).Want(http.StatusOK)
				wantEqual(t, "state", one.At("connection_state"), state)
				wantEqual(t, "since", one.At("last_connected_at"), since)
			}
		}
		want("never_connected", nil)
		w.stack.Get("/v3/stacks/unknown/scheduled-jobs?queue_key=default").Want(http.StatusNotFound)
		w.list("&limit=0").Want(http.StatusBadRequest)
		w.due()
		want("never_connected", nil)
		for range 2 {
			w.list("").Want(http.StatusOK)
			at := w.Clock.Now().Format("2006-01-02T15:04:05.000Z")
			want("connected", at) // as soon as the poll has its response
			w.due()
			want("connected", at)
			w.Clock.Advance(5 * time.Minute)
			want("connected", at)
			w.Clock.Advance(time.Minute)
			want("disconnected", at)
		}
		w.reserve(core.NewID()).Want(http.StatusOK) // not a poll
		w.due()
		wantEqual(t, "after another call", w.ada.Get(queues).At("0.connection_state"), "disconnected")
		w.ada.Delete(queues + "/" + w.ada.Get(queues).String("1.id")).Want(http.StatusNoContent)
	})
}

func TestReserve_HoldsJobsUntilTheyExpire(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		unknown := core.NewID()
		r := w.reserve(ids[0], unknown, ids[0]).Want(http.StatusOK)
		wantEqual(t, "reserved", r.At("reserved"), []string{ids[0]})
		wantEqual(t, "not reserved", r.At("not_reserved"), []string{unknown})
		wantEqual(t, "state", w.state(ids[0]), "reserved")
		wantEqual(t, "REST", w.ada.Get(acme+"/jobs/"+ids[0]).String("state"), "scheduled")
		w.register("rival").Want(http.StatusCreated)
		theirs := w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": ids}).Want(http.StatusOK)
		wantEqual(t, "another stack's", theirs.At("reserved"), ids[1:])
		w.Clock.Advance(40 * time.Second)
		w.reserve(ids[0]).Want(http.StatusOK) // extended
		w.Clock.Advance(40 * time.Second)
		w.due()
		wantEqual(t, "state", w.state(ids[0]), "reserved")
		w.Clock.Advance(20 * time.Second)
		w.due()
		wantEqual(t, "state", w.state(ids[0]), "scheduled")
		wantEqual(t, "listed", listed(w.list("")), ids[:1])
		w.stack.Post("/v3/stacks/rival/deregister", nil).Want(http.StatusNoContent)
		wantEqual(t, "listed when the other stack has gone", listed(w.list("")), ids)
	})
}

func (w *world) due() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestReserve_TakesNoJobsOfPausedQueues(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		w.reserve(ids[0]).Want(http.StatusOK)
		cluster := w.ada.Get(acme + "/clusters").String("0.id")
		queue := w.ada.Get(acme + "/clusters/" + cluster + "/queues").String("0.id")
		w.ada.Post(acme+"/clusters/"+cluster+"/queues/"+queue+"/pause_dispatch", nil).Want(http.StatusOK)
		r := w.list("")
		wantEqual(t, "listed", listed(r), ids[1:])
		wantEqual(t, "paused", r.At("cluster_queue.paused"), true)
		again := w.reserve(ids...).Want(http.StatusOK)
		wantEqual(t, "reserved", again.At("reserved"), ids[:1])
		wantEqual(t, "not reserved", again.At("not_reserved"), ids[1:])
	})
}

func TestBatches_RefuseWhatIsNoListOfJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		long := make([]string, 1001)
		for i := range long {
			long[i] = core.NewID()
		}
		for _, path := range []string{"/scheduled-jobs/batch-reserve", "/job-acquisition-tokens", "/jobs/get-states"} {
			method := http.MethodPost
			if strings.HasSuffix(path, "reserve") {
				method = http.MethodPut
			}
			for want, value := range map[string]any{
				"job_uuids must be an array of job UUIDs":           "x",
				"job_uuids must have at most 1000 items, not 1001":  long,
				`job_uuids has an item that is not a UUID: "x"`:     []string{"x"},
				"job_uuids must be an array of job UUIDs\x00number": []int{1},
			} {
				want, _, _ = strings.Cut(want, "\x00")
				w.Clock.Advance(time.Second)
				w.stack.Do(method, robot+path, fields{"job_uuids": value}).WantMessage(http.StatusBadRequest, want)
			}
			w.Clock.Advance(time.Second)
			w.stack.Do(method, robot+path, fields{}).WantMessage(http.StatusBadRequest, "job_uuids is required")
		}
		ids := []string{core.NewID()}
		w.stack.Put(robot+"/scheduled-jobs/batch-reserve", fields{"job_uuids": ids, "reservation_expiry_seconds": 3601}).
			WantMessage(http.StatusBadRequest, "reservation_expiry_seconds must be from 1 to 3600")
		w.stack.Post(robot+"/job-acquisition-tokens", fields{"job_uuids": ids, "token_lifetime_seconds": 0}).
			WantMessage(http.StatusBadRequest, "token_lifetime_seconds must be from 1 to 3600")
	})
}

func TestTokens_AreForReservedJobsAndSayWhyNot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(3)
		w.register("rival").Want(http.StatusCreated)
		w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": ids[2:]}).Want(http.StatusOK)
		w.reserve(ids[0]).Want(http.StatusOK)
		unknown := core.NewID()
		r := w.stack.Post(robot+"/job-acquisition-tokens", fields{"job_uuids": append([]string{unknown}, ids...)}).Want(http.StatusCreated)
		wantEqual(t, "issued", r.Len("job_acquisition_tokens"), 1)
		wantEqual(t, "not issued", r.At("not_issued"), []string{unknown, ids[1], ids[2]})
		for id, want := range map[string]string{unknown: "not_found", ids[1]: "not_reserved", ids[2]: "not_reserved"} {
			wantEqual(t, "reason", r.At("not_issued_reasons."+id), want)
		}
		token := r.String("job_acquisition_tokens.0.job_acquisition_token")
		if !strings.HasPrefix(token, "svcjat_") {
			t.Errorf("the token is %s", token)
		}
		ends, err := time.Parse(time.RFC3339, r.String("job_acquisition_tokens.0.expires_at"))
		if err != nil || ends.Sub(w.Clock.Now()) > time.Minute {
			t.Errorf("the token outlives the reservation: %v, %v", ends, err)
		}

		agent := w.AsAgent(t, token)
		registered := agent.Post("/v3/register", fields{"name": "ephemeral", "ignore_in_dispatches": true}).Want(http.StatusOK)
		session := w.AsAgent(t, registered.String("access_token"))
		session.Post("/v3/connect", nil).Want(http.StatusOK)
		session.Put("/v3/jobs/"+ids[1]+"/acquire", nil).WantMessage(http.StatusUnprocessableEntity, "This agent has registered for another job")
		session.Put("/v3/jobs/"+ids[0]+"/acquire", nil).Want(http.StatusOK)
		wantEqual(t, "state", w.state(ids[0]), "accepted")
		agent.Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusUnauthorized)

		w.Clock.Advance(2 * time.Minute)
		agent.Post("/v3/register", fields{}).Want(http.StatusUnauthorized)
		w.AsAgent(t, token+"x").Post("/v3/register", fields{}).Want(http.StatusUnauthorized)
		w.reserve(ids[1]).Want(http.StatusOK)
		w.Clock.Advance(2 * time.Minute)
		late := w.stack.Post(robot+"/job-acquisition-tokens", fields{"job_uuids": ids[1:2]}).Want(http.StatusCreated)
		wantEqual(t, "reason", late.At("not_issued_reasons."+ids[1]), "reservation_expired")
	})
}

func TestGetJob_ShowsEnvironmentAndCommand(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		r := w.stack.Get(robot + "/jobs/" + id).Want(http.StatusOK)
		wantEqual(t, "command", r.String("command"), "echo hello")
		wantEqual(t, "env", r.String("env.SERVICE_JOB_ID"), id)
		wantEqual(t, "env", r.String("env.BUILDKITE_JOB_ID"), id)
		w.stack.Get(robot+"/jobs/"+core.NewID()).WantMessage(http.StatusNotFound, "No job found")
		w.stack.Get(robot+"/jobs/x").WantMessage(http.StatusNotFound, "No job found")
	})
}

func TestFinish_EndsAJobThatNoAgentHas(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(4)
		finish := func(id string, body fields) *servertest.Response {
			return w.stack.Post(robot+"/jobs/"+id+"/finish", body)
		}
		finish(ids[0], fields{}).WantMessage(http.StatusUnprocessableEntity, "detail is required")
		finish(ids[0], fields{"detail": strings.Repeat("x", 4097)}).WantMessage(http.StatusUnprocessableEntity, "detail must have at most 4096 bytes, not 4097")
		finish(ids[0], fields{"detail": "x", "exit_status": "0"}).Want(http.StatusUnprocessableEntity)
		finish(core.NewID(), fields{"detail": "x"}).WantMessage(http.StatusNotFound, "No job found")
		w.reserve(ids[0]).Want(http.StatusOK)
		wantEqual(t, "answer", string(finish(ids[0], fields{"detail": strings.Repeat("x", 4096)}).Want(http.StatusOK).Body), "{}\n")
		job := w.ada.Get(acme + "/jobs/" + ids[0])
		wantEqual(t, "ended", []any{job.At("state"), job.At("exit_status"), job.At("signal_reason")}, []any{"failed", -1, "stack_error"})
		finish(ids[0], fields{"detail": "again"}).WantMessage(http.StatusUnprocessableEntity, "The job has ended already")
		finish(ids[1], fields{"detail": "cached", "exit_status": 0}).Want(http.StatusOK)
		passed := w.ada.Get(acme + "/jobs/" + ids[1])
		wantEqual(t, "ended", []any{passed.At("state"), passed.At("signal_reason")}, []any{"passed", nil})
		agent := w.Register(t, nil)
		agent.Acquire(ids[2])
		finish(ids[2], fields{"detail": "x"}).WantMessage(http.StatusUnprocessableEntity, "The job is accepted: an agent has it, so the stack cannot finish it")
		w.register("rival").Want(http.StatusCreated)
		w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": ids[3:]}).Want(http.StatusOK)
		finish(ids[3], fields{"detail": "x"}).WantMessage(http.StatusNotFound, "No job found")
	})
}

func TestNotifications_KeepWhatIsRightAndGroupWhatIsNot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		notify := func(list any) *servertest.Response {
			return w.stack.Post(robot+"/notifications", fields{"notifications": list})
		}
		future := w.Clock.Now().Add(time.Hour).Format(time.RFC3339)
		r := notify([]any{
			fields{"job_uuid": id, "detail": "Pulling the image"},
			fields{"job_uuid": id, "detail": ""},
			fields{"job_uuid": id, "detail": strings.Repeat("é", 257)},
			fields{"job_uuid": core.NewID(), "detail": "x"},
			fields{"job_uuid": id},
			fields{"job_uuid": id, "detail": "x", "timestamp": future},
			fields{"job_uuid": id, "detail": "x", "timestamp": "2000-01-01T00:00:00Z"},
			fields{"job_uuid": id, "detail": strings.Repeat("é", 256)},
			"nonsense",
		}).Want(http.StatusOK)
		wantEqual(t, "errors", r.At("errors"), []any{
			map[string]any{"error": "notification must be an object", "indexes": []any{8}},
			map[string]any{"error": "detail is required", "indexes": []any{1, 4}},
			map[string]any{"error": "detail exceeds its length limit of 256", "indexes": []any{2}},
			map[string]any{"error": "job not found", "indexes": []any{3}},
			map[string]any{"error": "timestamp must not be in the future", "indexes": []any{5}},
			map[string]any{"error": "timestamp must not be before the job was created", "indexes": []any{6}},
		})
		many := make([]any, 100)
		for i := range many {
			many[i] = fields{"job_uuid": id, "detail": strconv.Itoa(i)}
		}
		full := notify(many).Want(http.StatusOK)
		wantEqual(t, "errors", full.At("errors.0.error"), "job stack notification count exceeded")
		wantEqual(t, "refused", full.At("errors.0.indexes"), []any{98, 99})
		notify("x").WantMessage(http.StatusUnprocessableEntity, "notifications must be an array")
		notify(make([]any, 1001)).WantMessage(http.StatusUnprocessableEntity, "notifications must have at most 1000 items, not 1001")
		w.stack.Post(robot+"/notifications", fields{}).WantMessage(http.StatusUnprocessableEntity, "notifications is required")
		other := w.schedule(1)[0]
		w.stack.Post(robot+"/jobs/"+other+"/finish", fields{"detail": "x"}).Want(http.StatusOK)
		w.Clock.Advance(301 * time.Second)
		late := notify([]any{fields{"job_uuid": other, "detail": "late"}}).Want(http.StatusOK)
		wantEqual(t, "error", late.At("errors.0.error"), "job finished more than 300 seconds ago")
	})
}

func TestTimeline_ReportsWhatHappened(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.list("").Want(http.StatusOK)
		w.reserve(id).Want(http.StatusOK)
		w.Clock.Advance(time.Second)
		token := w.stack.Post(robot+"/job-acquisition-tokens", fields{"job_uuids": []string{id}}).Want(http.StatusCreated).String("job_acquisition_tokens.0.job_acquisition_token")
		w.stack.Post(robot+"/notifications", fields{"notifications": []any{fields{"job_uuid": id, "detail": "Booting"}}}).Want(http.StatusOK)
		w.Clock.Advance(time.Second)
		session := w.AsAgent(t, w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusOK).String("access_token"))
		w.Clock.Advance(time.Second)
		session.Put("/v3/jobs/"+id+"/acquire", nil).Want(http.StatusOK)
		w.due()
		r := w.ada.Get(acme + "/jobs/" + id + "/timeline").Want(http.StatusOK)
		var events []string
		for i := range r.Len("events") {
			events = append(events, r.String("events."+strconv.Itoa(i)+".event"))
		}
		wantEqual(t, "events", events, "[created runnable listed reserved token_issued notification agent_registered accepted]")
		wantEqual(t, "stack", r.At("events.3.stack_key"), "robot")
		wantEqual(t, "notification", r.At("events.5.detail"), "Booting")
	})
}

// A reservation lasts its whole time, also where another replica's clock is wrong.
func TestReserve_HoldsInAReplicaWhoseClockIsAhead(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.schedule(1)[0]
		w.register("other").Want(http.StatusCreated)
		replica := w.SkewedReplica(t, time.Hour)
		reserve := func(s *servertest.Server, stack string) *servertest.Response {
			t.Helper()
			w.Clock.Advance(time.Second)
			return s.AsAgent(t, servertest.AcmeAgent).Put("/v3/stacks/"+stack+"/scheduled-jobs/batch-reserve",
				fields{"job_uuids": []string{job}, "reservation_expiry_seconds": 60}).Want(http.StatusOK)
		}
		reserve(w.Server, "robot")
		wantEqual(t, "reserved by the other stack", reserve(replica, "other").At("reserved"), []string{})
		w.Clock.Advance(time.Minute)
		wantEqual(t, "reserved after the end", reserve(replica, "other").At("reserved"), []string{job})
		wantEqual(t, "reserved where the clock is right", reserve(w.Server, "robot").At("reserved"), []string{})
	})
}
