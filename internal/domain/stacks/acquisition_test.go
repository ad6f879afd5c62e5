package stacks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// reserveFor reserves jobs for the stack robot for some seconds.
func (w *world) reserveFor(seconds int, ids ...string) {
	w.t.Helper()
	w.Clock.Advance(time.Second)
	r := w.stack.Put(robot+"/scheduled-jobs/batch-reserve", fields{"job_uuids": ids, "reservation_expiry_seconds": seconds}).Want(http.StatusOK)
	wantEqual(w.t, "reserved", r.Len("reserved"), len(ids))
}

// issue requests tokens of jobs as a client.
func (w *world) issue(as *servertest.Client, ids ...string) *servertest.Response {
	w.t.Helper()
	w.Clock.Advance(time.Second)
	return as.Post(robot+"/job-acquisition-tokens", fields{"job_uuids": ids, "token_lifetime_seconds": 3600})
}

// tokenOf returns the token for one reserved job.
func (w *world) tokenOf(as *servertest.Client, id string) string {
	w.t.Helper()
	return w.issue(as, id).Want(http.StatusCreated).String("job_acquisition_tokens.0.job_acquisition_token")
}

// otherCluster adds a second cluster with an agent token and a pipeline to acme, and returns a client with the
// token.
func (w *world) otherCluster() *servertest.Client {
	w.t.Helper()
	w.Apply(`
organizations:
  - slug: acme
    clusters:
      - {name: Other, queues: [{key: default, default: true}], agent_tokens: [{description: boot, token: svcct_other}]}
    pipelines:
      - {slug: elsewhere, name: Elsewhere, repository: https://git.example.test/acme/e.git, cluster: Other, configuration: "steps: [{command: echo elsewhere}]"}
`)
	return w.AsAgent(w.t, "svcct_other")
}

// elsewhere creates a build in the other cluster and returns its job.
func (w *world) elsewhere() string {
	w.t.Helper()
	return w.ada.Post(acme+"/pipelines/elsewhere/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("jobs.0.id")
}

func TestTokens_ReportEveryReasonWhyNot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.otherCluster()
		elsewhere := w.elsewhere()
		ids := w.schedule(3)
		w.ada.Patch(hello, fields{"configuration": "steps: [{block: Wait, key: gate}]"}).Want(http.StatusOK)
		gate := w.ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("jobs.0.id")
		unknown := core.NewID()
		foreign := w.foreignJob()
		w.register("rival").Want(http.StatusCreated)
		w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": ids[1:2]}).Want(http.StatusOK)
		w.reserveFor(5, ids[2])
		w.Clock.Advance(5 * time.Second)
		want := map[string]string{
			unknown: "not_found", foreign: "not_found", ids[0]: "not_reserved", ids[1]: "not_reserved",
			ids[2]: "reservation_expired", gate: "not_command_job", elsewhere: "other_cluster",
		}
		asked := []string{unknown, foreign, ids[0], ids[1], ids[2], gate, elsewhere}
		r := w.issue(w.stack, asked...).Want(http.StatusCreated)
		wantEqual(t, "issued", r.Len("job_acquisition_tokens"), 0)
		wantEqual(t, "not issued", r.At("not_issued"), asked)
		wantEqual(t, "reasons", r.At("not_issued_reasons"), want)
	})
}

// foreignJob creates a build in another organization and returns its job.
func (w *world) foreignJob() string {
	w.t.Helper()
	w.Apply(`
organizations:
  - slug: rival
    pipelines:
      - {slug: theirs, name: Theirs, repository: https://git.example.test/rival/r.git, cluster: Default, configuration: "steps: [{command: echo theirs}]"}
`)
	return w.As(w.t, servertest.Cy).Post("/v2/organizations/rival/pipelines/theirs/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("jobs.0.id")
}

func TestTokens_EndWithTheirLifetimeOrTheReservationWhicheverIsFirst(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(5)
		for i, test := range []struct {
			reservation int
			lifetime    any
			want        time.Duration
		}{
			{600, 60, 60 * time.Second},
			{60, 600, 60 * time.Second},
			{3600, nil, 900 * time.Second},
			{3600, 3600, 3600 * time.Second},
			{3600, 1, time.Second},
		} {
			id := ids[i]
			w.reserveFor(test.reservation, id)
			r := w.stack.Post(robot+"/job-acquisition-tokens", fields{"job_uuids": []string{id}, "token_lifetime_seconds": test.lifetime}).Want(http.StatusCreated)
			ends, err := time.Parse(time.RFC3339, r.String("job_acquisition_tokens.0.expires_at"))
			if want := w.Clock.Now().Add(test.want).Truncate(time.Millisecond); err != nil || !ends.Equal(want) {
				t.Errorf("reserved for %d, asked for %v: it ends at %v, %v, want %v", test.reservation, test.lifetime, ends, err, want)
			}
			agent := w.AsAgent(t, r.String("job_acquisition_tokens.0.job_acquisition_token"))
			w.Clock.Advance(test.want - time.Millisecond)
			agent.Post("/v3/register", fields{}).Want(http.StatusOK)
			w.Clock.Advance(time.Millisecond)
			agent.Post("/v3/register", fields{}).WantMessage(http.StatusUnauthorized, "Authentication required. The job acquisition token is not valid, or has expired.")
		}
	})
}

// TestTokens_AreGoodOnlyWhileTheAgentTokenIs issues tokens with a valid agent token and changes the agent token
// before an agent registers.
func TestTokens_AreGoodOnlyWhileTheAgentTokenIs(t *testing.T) {
	const from = "X-Forwarded-For"
	near, far := "192.0.2.7", "198.51.100.1"
	for name, test := range map[string]struct {
		token  string // in the organization file
		change func(w *world, tokenPath string)
		from   string
		want   int
	}{
		"nothing has changed": {"", func(*world, string) {}, near, http.StatusOK},
		"it was revoked": {"", func(w *world, path string) {
			w.ada.Delete(path).Want(http.StatusNoContent)
		}, near, http.StatusUnauthorized},
		"it has expired": {"expires_at: %s", func(w *world, _ string) {
			w.Clock.Advance(31 * time.Minute)
		}, near, http.StatusUnauthorized},
		"it may be used from here":     {`allowed_ip_addresses: ["192.0.2.0/24"]`, func(*world, string) {}, near, http.StatusOK},
		"it may not be used from here": {`allowed_ip_addresses: ["192.0.2.0/24"]`, func(*world, string) {}, far, http.StatusUnauthorized},
		"it may not be used any more here": {"", func(w *world, path string) {
			w.ada.Patch(path, fields{"allowed_ip_addresses": "198.51.100.0/24"}).Want(http.StatusOK)
		}, near, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				more := test.token
				if strings.Contains(more, "%s") {
					more = fmt.Sprintf(more, w.Clock.Now().Add(30*time.Minute).Format(time.RFC3339))
				}
				w.Apply(`organizations: [{slug: acme, clusters: [{name: Default, agent_tokens: [{description: mine, token: svcct_mine, ` + more + `}]}]}]`)
				path := acme + "/clusters/" + servertest.AcmeClusterID + "/tokens"
				list := w.ada.Get(path).Want(http.StatusOK)
				for i := range list.Len("") {
					if at := fmt.Sprint(i); list.String(at+".description") == "mine" {
						path += "/" + list.String(at+".id")
					}
				}
				id := w.schedule(1)[0]
				w.reserveFor(3600, id)
				token := w.tokenOf(w.AsAgent(t, "svcct_mine").With(from, near), id)
				test.change(w, path)
				registered := w.AsAgent(t, token).With(from, test.from).Post("/v3/register", fields{}).Want(test.want)
				if test.want == http.StatusOK {
					session := w.AsAgent(t, registered.String("access_token"))
					session.Put("/v3/jobs/"+id+"/acquire", nil).Want(http.StatusOK)
				}
			})
		})
	}
}

const notReservedAnyMore = "Authentication required. The stack that issued the job acquisition token does not have the job reserved any more."

// A job acquisition token is invalid once its stack has lost the job, for agents that register and for those
// that have registered before.
func TestTokens_EndWithTheReservationOfTheirStack(t *testing.T) {
	rival := func(w *world, id string) {
		w.Clock.Advance(time.Second)
		r := w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{id}}).Want(http.StatusOK)
		wantEqual(w.t, "reserved by the other stack", r.At("reserved"), []string{id})
	}
	for name, end := range map[string]func(w *world, id string){
		"the stack was de-registered": func(w *world, id string) {
			w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent)
		},
		"another stack has the job": func(w *world, id string) {
			w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent)
			rival(w, id)
		},
		"the stack registered again, and another stack has the job": func(w *world, id string) {
			w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent)
			rival(w, id)
			w.register("robot").Want(http.StatusCreated)
		},
		"the stack registered and reserved again": func(w *world, id string) {
			w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent)
			w.register("robot").Want(http.StatusCreated)
			w.reserveFor(600, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				id := w.schedule(1)[0]
				w.register("rival").Want(http.StatusCreated)
				w.reserveFor(3600, id)
				token := w.tokenOf(w.stack, id)
				early := w.AsAgent(t, w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusOK).String("access_token"))
				early.Post("/v3/connect", nil).Want(http.StatusOK)
				end(w, id)
				late := w.AsAgent(t, token).Post("/v3/register", fields{}).WantMessage(http.StatusUnauthorized, notReservedAnyMore)
				if late.Header.Get("WWW-Authenticate") == "" {
					t.Error("401 without WWW-Authenticate")
				}
				early.Put("/v3/jobs/"+id+"/acquire", nil).WantMessage(http.StatusUnprocessableEntity, "The stack that started this agent does not have the job reserved any more")
				if state := w.ada.Get(acme + "/jobs/" + id).String("state"); state != "scheduled" {
					t.Errorf("the job is %s", state)
				}
			})
		})
	}
}

func TestTokens_CannotAcquireAfterTheReservationHasEnded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		w.reserveFor(60, ids...)
		var sessions []*servertest.Client
		for _, id := range ids {
			token := w.tokenOf(w.stack, id)
			sessions = append(sessions, w.AsAgent(t, w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusOK).String("access_token")))
		}
		sessions[0].Put("/v3/jobs/"+ids[0]+"/acquire", nil).Want(http.StatusOK)
		w.Clock.Advance(time.Minute)
		sessions[0].Put("/v3/jobs/"+ids[0]+"/acquire", nil).Want(http.StatusOK) // again, after a lost response
		sessions[1].Put("/v3/jobs/"+ids[1]+"/acquire", nil).Want(http.StatusUnprocessableEntity)
		w.reserveFor(60, ids[1])
		sessions[1].Put("/v3/jobs/"+ids[1]+"/acquire", nil).Want(http.StatusOK)
	})
}

func TestTokens_OfEndedJobsRegisterNoAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		w.reserveFor(3600, ids...)
		finished, canceled := w.tokenOf(w.stack, ids[0]), w.tokenOf(w.stack, ids[1])
		w.stack.Post(robot+"/jobs/"+ids[0]+"/finish", fields{"detail": "No machine"}).Want(http.StatusOK)
		w.ada.Put(acme+"/jobs/"+ids[1]+"/cancel", nil).Want(http.StatusOK)
		for _, token := range []string{finished, canceled} {
			w.AsAgent(t, token).Post("/v3/register", fields{}).WantMessage(http.StatusUnauthorized, notReservedAnyMore)
		}
	})
}

func TestReserve_NeverShortensAReservation(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.reserveFor(600, id)
		end := w.Clock.Now().Add(600 * time.Second).Truncate(time.Millisecond)
		w.reserveFor(10, id)
		r := w.issue(w.stack, id).Want(http.StatusCreated)
		if got, err := time.Parse(time.RFC3339, r.String("job_acquisition_tokens.0.expires_at")); err != nil || !got.Equal(end) {
			t.Errorf("the reservation ends at %v, %v, want %v", got, err, end)
		}
		w.Clock.Advance(500 * time.Second)
		w.due()
		wantEqual(t, "state", w.state(id), "reserved")
		w.Clock.Advance(100 * time.Second)
		w.due()
		wantEqual(t, "state", w.state(id), "scheduled")
	})
}

// An expired reservation is reported as such until another stack reserves the job, also after the server has
// listed the job again.
func TestTokens_ReportThatTheReservationHasEnded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.register("rival").Want(http.StatusCreated)
		reason := func() any {
			return w.issue(w.stack, id).Want(http.StatusCreated).At("not_issued_reasons." + id)
		}
		w.reserveFor(5, id)
		w.Clock.Advance(5 * time.Second)
		wantEqual(t, "before it is released", reason(), "reservation_expired")
		w.due()
		wantEqual(t, "listed", listed(w.list("")), []string{id})
		wantEqual(t, "after it was released", reason(), "reservation_expired")
		queue := acme + "/clusters/" + servertest.AcmeClusterID + "/queues/" + servertest.AcmeQueueID
		w.ada.Post(queue+"/pause_dispatch", fields{}).Want(http.StatusOK)
		wantEqual(t, "a released job of a paused queue", w.reserve(id).Want(http.StatusOK).At("reserved"), []string{})
		w.ada.Post(queue+"/resume_dispatch", nil).Want(http.StatusOK)
		w.Clock.Advance(time.Second)
		w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{id}, "reservation_expiry_seconds": 5}).Want(http.StatusOK)
		wantEqual(t, "of another stack", reason(), "not_reserved")
		w.Clock.Advance(5 * time.Second)
		w.due()
		wantEqual(t, "after another stack's", reason(), "not_reserved")
	})
}

func TestTokens_LetTheirAgentHaveNoOtherWork(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(3)
		w.reserveFor(600, ids[0], ids[1])
		token := w.tokenOf(w.stack, ids[0])
		registered := w.AsAgent(t, token).Post("/v3/register", fields{"ignore_in_dispatches": false}).Want(http.StatusOK)
		session := w.AsAgent(t, registered.String("access_token"))
		session.Post("/v3/connect", nil).Want(http.StatusOK)
		if ping := session.Get("/v3/ping").Want(http.StatusOK); ping.Has("job") {
			t.Errorf("the agent is offered %s", ping.Body)
		}
		for _, other := range ids[1:] {
			session.Put("/v3/jobs/"+other+"/acquire", nil).WantMessage(http.StatusUnprocessableEntity, "This agent has registered for another job")
			session.Put("/v3/jobs/"+other+"/accept", nil).Want(http.StatusUnprocessableEntity)
		}
		session.Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusUnauthorized)
		session.Put("/v3/jobs/"+ids[0]+"/acquire", nil).Want(http.StatusOK)
		session.Put("/v3/jobs/"+ids[0]+"/start", fields{}).Want(http.StatusOK)
		session.Put("/v3/jobs/"+ids[0]+"/finish", fields{"exit_status": "0"}).Want(http.StatusOK)
		session.Put("/v3/jobs/"+ids[1]+"/acquire", nil).Want(http.StatusUnprocessableEntity)
		if ping := session.Get("/v3/ping").Want(http.StatusOK); ping.Has("job") {
			t.Errorf("the agent is offered %s", ping.Body)
		}
		wantEqual(t, "the job", w.state(ids[0]), "finished")
		// The token ends with the job.
		w.AsAgent(t, token).Post("/v3/register", fields{}).WantMessage(http.StatusUnauthorized, notReservedAnyMore)
	})
}

func TestStacks_BelongToTheClusterOfTheirToken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := w.otherCluster()
		elsewhere := w.elsewhere()
		id := w.schedule(1)[0]
		other.Post("/v3/stacks/register", registration("robot")).WantMessage(http.StatusUnprocessableEntity, "key robot is that of a stack of another cluster")
		for _, call := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/scheduled-jobs?queue_key=default", nil},
			{"PUT", "/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{id}}},
			{"POST", "/job-acquisition-tokens", fields{"job_uuids": []string{id}}},
			{"GET", "/jobs/" + id, nil},
			{"POST", "/jobs/get-states", fields{"job_uuids": []string{id}}},
			{"POST", "/jobs/" + id + "/finish", fields{"detail": "x"}},
			{"POST", "/notifications", fields{"notifications": []any{}}},
			{"POST", "/deregister", nil},
		} {
			w.Clock.Advance(time.Second)
			other.Do(call.method, robot+call.path, call.body).WantMessage(http.StatusNotFound, "No stack found")
		}
		// The stack does not see the other cluster.
		wantEqual(t, "listed", listed(w.list("")), []string{id})
		r := w.reserve(elsewhere, id).Want(http.StatusOK)
		wantEqual(t, "reserved", r.At("reserved"), []string{id})
		wantEqual(t, "not reserved", r.At("not_reserved"), []string{elsewhere})
		w.stack.Get(robot+"/jobs/"+elsewhere).WantMessage(http.StatusNotFound, "No job found")
		w.stack.Post(robot+"/jobs/"+elsewhere+"/finish", fields{"detail": "x"}).WantMessage(http.StatusNotFound, "No job found")
		states := w.stack.Post(robot+"/jobs/get-states", fields{"job_uuids": []string{elsewhere}}).Want(http.StatusOK)
		wantEqual(t, "states", states.At("states"), fields{})
		notified := w.stack.Post(robot+"/notifications", fields{"notifications": []any{fields{"job_uuid": elsewhere, "detail": "x"}}}).Want(http.StatusOK)
		wantEqual(t, "error", notified.At("errors.0.error"), "job not found")
		// Another cluster can use a free key.
		w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent)
		other.Post("/v3/stacks/register", registration("robot")).Want(http.StatusCreated)
		w.list("").Want(http.StatusNotFound)
	})
}
