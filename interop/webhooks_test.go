package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/buildkite/go-buildkite/v4"
)

// A hook is a receiver of webhooks that checks and decodes them with the published client. arrived receives what the
// client decoded, by event.
type hook struct {
	*httptest.Server
	arrived chan any
}

func newHook(t *testing.T, secret string) *hook {
	h := &hook{arrived: make(chan any, 100)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payload, err := buildkite.ValidatePayload(r, []byte(secret))
		if err != nil {
			t.Errorf("validate: %v", err)
		}
		event, err := buildkite.ParseWebHook(buildkite.WebHookType(r), payload)
		if err != nil {
			t.Errorf("parse %s: %v", r.Header.Get(buildkite.EventTypeHeader), err)
		}
		h.arrived <- event
	}))
	t.Cleanup(h.Close)
	return h
}

// next returns the next event, which must be of a type.
func next[T any](t *testing.T, h *hook) T {
	t.Helper()
	select {
	case event := <-h.arrived:
		got, ok := event.(T)
		if !ok {
			t.Fatalf("got %T, want %T", event, got)
		}
		return got
	case <-time.After(30 * time.Second):
		t.Fatal("no webhook arrived")
		panic("unreachable")
	}
}

// ask sends a request with an Authorization header and decodes the response, which must be a success.
func (s *server) ask(t *testing.T, authorization, method, path, body string) map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode/100 != 2 {
		t.Fatalf("%s %s: status %d: %s", method, path, response.StatusCode, text)
	}
	decoded := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &decoded); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return decoded
}

func TestWebhooks_AreCheckedAndDecoded(t *testing.T) {
	for _, mode := range []string{"token", "signature"} {
		t.Run(mode, func(t *testing.T) {
			each(t, func(t *testing.T, s *server) {
				h := newHook(t, "between us")
				s.ask(t, "Bearer "+ada, "POST", "/v2/organizations/acme/services", fmt.Sprintf(`{"provider": "webhook", "settings": {
					"url": %q, "token": "between us", "token_mode": %q,
					"events": ["build.scheduled", "build.running", "build.failing", "build.finished", "job.scheduled", "job.started", "job.finished", "job.activated",
						"agent.connected", "agent.disconnected", "agent.stopping", "agent.stopped"]}}`, h.URL, mode))
				ping := next[*buildkite.PingEvent](t, h)
				if ping.Event != "ping" || ping.Organization.Slug != "acme" || ping.Sender.Name != "Ada" || ping.Sender.ID != adaID {
					t.Errorf("ping %+v", ping)
				}
				client := s.as(t, ada)
				call(client.Pipelines.Update(t.Context(), "acme", "hello", buildkite.UpdatePipeline{
					Configuration: "steps:\n- block: Go\n- {command: first}\n- {command: second}\n",
				})).ok(t)
				build := call(client.Builds.Create(t.Context(), "acme", "hello", buildkite.CreateBuild{Commit: "HEAD", Branch: "main", Message: "Try it"})).ok(t)

				scheduled := next[*buildkite.BuildScheduledEvent](t, h)
				if b := scheduled.Build; b.ID != build.ID || b.State != "scheduled" || b.Message != "Try it" || scheduled.Pipeline.Slug != "hello" || scheduled.Sender.Name != "Ada" {
					t.Errorf("scheduled %+v", scheduled)
				}
				if b := next[*buildkite.BuildFinishedEvent](t, h).Build; !b.Blocked || b.State != "passed" {
					t.Errorf("a blocked build: blocked %v, state %s", b.Blocked, b.State)
				}
				call(client.Jobs.UnblockJob(t.Context(), "acme", "hello", fmt.Sprint(build.Number), build.Jobs[0].ID, nil)).ok(t)
				if b := next[*buildkite.BuildRunningEvent](t, h).Build; b.State != "running" {
					t.Errorf("an unblocked build is %s", b.State)
				}
				if j := next[*buildkite.JobActivatedEvent](t, h).Job; j.ID != build.Jobs[0].ID || j.State != "unblocked" || j.UnblockedBy.Name != "Ada" || j.Label != "Go" {
					t.Errorf("activated %+v", j)
				}
				for i := range 2 {
					if j := next[*buildkite.JobScheduledEvent](t, h).Job; j.ID != build.Jobs[1+i].ID || j.State != "scheduled" || j.Type != "script" {
						t.Errorf("scheduled %+v", j)
					}
				}

				registered := s.ask(t, "Token svcct_acme", "POST", "/v3/register", `{"name": "mill", "ignore_in_dispatches": true}`)
				session := "Token " + registered["access_token"].(string)
				s.ask(t, session, "POST", "/v3/connect", "")
				if a := next[*buildkite.AgentConnectedEvent](t, h).Agent; a.Name != "mill" || a.ID != registered["id"] || a.ConnectedState != "connected" {
					t.Errorf("connected %+v", a)
				}
				run := func(job buildkite.Job, exit string) {
					t.Helper()
					path := "/v3/jobs/" + job.ID
					token := "Token " + s.ask(t, session, "PUT", path+"/acquire", "")["token"].(string)
					s.ask(t, token, "PUT", path+"/start", `{"started_at": "2026-01-02T03:04:05Z"}`)
					if j := next[*buildkite.JobStartedEvent](t, h).Job; j.ID != job.ID || j.State != "running" || j.Agent.Name != "mill" || j.StartedAt == nil {
						t.Errorf("started %+v", j)
					}
					s.ask(t, token, "PUT", path+"/finish", fmt.Sprintf(`{"exit_status": %q, "finished_at": "2026-01-02T03:04:06Z"}`, exit))
				}
				run(build.Jobs[1], "3")
				if j := next[*buildkite.JobFinishedEvent](t, h).Job; j.State != "failed" || j.ExitStatus == nil || *j.ExitStatus != 3 || j.FinishedAt == nil {
					t.Errorf("finished %+v", j)
				}
				if b := next[*buildkite.BuildFailingEvent](t, h).Build; b.State != "failing" {
					t.Errorf("a failing build is %s", b.State)
				}
				run(build.Jobs[2], "0")
				if j := next[*buildkite.JobFinishedEvent](t, h).Job; j.State != "passed" {
					t.Errorf("finished %+v", j)
				}
				if b := next[*buildkite.BuildFinishedEvent](t, h).Build; b.Blocked || b.State != "failed" || b.FinishedAt == nil || b.Creator.Name != "Ada" {
					t.Errorf("finished %+v", b)
				}
				do(client.Agents.Stop(t.Context(), "acme", registered["id"].(string), false)).ok(t)
				if a := next[*buildkite.AgentStoppingEvent](t, h).Agent; a.ConnectedState != "stopping" {
					t.Errorf("stopping %+v", a)
				}
				s.ask(t, session, "POST", "/v3/disconnect", "")
				if a := next[*buildkite.AgentStoppedEvent](t, h).Agent; a.ConnectedState != "stopped" {
					t.Errorf("stopped %+v", a)
				}
			})
		})
	}
}
