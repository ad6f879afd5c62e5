package delivery_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

var allEvents = []string{
	"build.scheduled", "build.running", "build.failing", "build.finished", "build.skipped",
	"job.scheduled", "job.started", "job.finished", "job.activated", "job.promised_exit_status",
	"agent.connected", "agent.disconnected", "agent.lost", "agent.stopping", "agent.stopped", "agent.blocked",
	"cluster_token.registration_blocked",
}

func TestWebhook_IsPingedWhenCreatedAndWhenItsSettingsChange(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		created := w.service("webhook", fields{"url": w.receiver.URL}, nil)
		got := w.receiver.take()
		if len(got) != 1 {
			t.Fatalf("%d requests, want 1", len(got))
		}
		if want := []string{"event", "organization", "sender", "service"}; !slices.Equal(got[0].keys(), want) {
			t.Errorf("keys %q, want %q", got[0].keys(), want)
		}
		got[0].want(fields{
			"event": "ping", "sender.id": servertest.AdaID, "sender.name": "Ada", "organization.slug": "acme",
			"service.id": created.String("id"), "service.provider": "webhook", "service.settings.url": w.receiver.URL,
		})
		path := services + "/" + created.String("id")
		w.ada.Patch(path, fields{"description": "another"}).Want(200)
		w.runDue()
		w.receiver.wantEvents()
		w.ada.Patch(path, fields{"settings": fields{"events": []string{"build.finished"}}}).Want(200)
		w.runDue()
		w.receiver.wantEvents("ping")
		w.ada.Put(path+"/disable", nil).Want(200)
		w.ada.Patch(path, fields{"settings": fields{"events": []string{"build.running"}}}).Want(200)
		w.runDue()
		w.receiver.wantEvents()
	})
}

func TestWebhook_SendsHeadersUnderBothNames(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.service("webhook", fields{"url": w.receiver.URL, "token": "secret", "events": []string{"build.scheduled"}}, nil)
		w.receiver.take()
		w.build(nil)
		w.runDue()
		got := w.receiver.take()[0]
		for _, prefix := range []string{"X-Service-", "X-Buildkite-"} {
			servertest.WantEqual(t, prefix+"Event", got.Get(prefix+"Event"), "build.scheduled")
			servertest.WantEqual(t, prefix+"Token", got.Get(prefix+"Token"), "secret")
			servertest.WantEqual(t, prefix+"Signature", got.Get(prefix+"Signature"), "")
			servertest.WantEqual(t, prefix+"Delivery", got.Get(prefix+"Delivery"), got.Get("X-Buildkite-Request"))
		}
		servertest.WantEqual(t, "Content-Type", got.Get("Content-Type"), "application/json")
		servertest.WantEqual(t, "User-Agent", got.Get("User-Agent"), "Stackyard/test")
		if got.Get("X-Service-Delivery") == "" {
			t.Error("no delivery id")
		}
	})
}

func TestWebhook_SignsRequests(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.service("webhook", fields{"url": w.receiver.URL, "token": "secret", "token_mode": "signature"}, nil)
		got := w.receiver.take()[0]
		for _, prefix := range []string{"X-Service-", "X-Buildkite-"} {
			servertest.WantEqual(t, prefix+"Token", got.Get(prefix+"Token"), "")
			timestamp, signed, ok := strings.Cut(got.Get(prefix+"Signature"), ",")
			if want := fmt.Sprintf("timestamp=%d", w.Clock.Now().Unix()); !ok || timestamp != want {
				t.Errorf("%sSignature has %q, want %q", prefix, timestamp, want)
			}
			mac := hmac.New(sha256.New, []byte("secret"))
			fmt.Fprintf(mac, "%s.%s", strings.TrimPrefix(timestamp, "timestamp="), got.Body)
			servertest.WantEqual(t, "signature", signed, "signature="+hex.EncodeToString(mac.Sum(nil)))
		}
	})
}

func TestWebhook_SendsBuildsAndJobsAsTheyWere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook(allEvents...)
		build := w.build(fields{"message": "Fix it", "meta_data": fields{"release": "1"}, "env": fields{"A": "b"}}, "{command: a, key: a}")
		id := build.String("jobs.0.id")
		agent := w.Register(t, fields{"name": "mill"})
		agent.Acquire(id).Start().Finish("3")
		w.runDue() // everything has ended before the first event is sent
		got := w.receiver.take()
		byName := map[string]*request{}
		var names []string
		for _, r := range got {
			name := r.Get("X-Service-Event")
			if strings.HasPrefix(name, "agent.") {
				continue
			}
			byName[name] = r
			names = append(names, name)
			r.want(fields{"event": name, "sender.name": "Ada", "pipeline.slug": "hello", "pipeline.provider.webhook_url": "", "build.id": build.String("id"),
				"build.message": "Fix it", "build.branch": "main", "build.meta_data.release": "1", "build.env.A": "b", "build.creator.name": "Ada"})
			for _, absent := range []string{"jobs", "pipeline"} {
				if strings.Contains(string(r.Body), `"`+absent+`":[`) {
					t.Errorf("%s has %s", name, absent)
				}
			}
		}
		if want := []string{"build.scheduled", "job.scheduled", "build.running", "job.started", "job.finished", "build.finished"}; !slices.Equal(names, want) {
			t.Fatalf("received %q, want %q", names, want)
		}
		byName["build.scheduled"].want(fields{"build.state": "scheduled", "build.started_at": nil, "build.finished_at": nil})
		byName["job.scheduled"].want(fields{"job.state": "scheduled", "job.agent": nil, "job.step_key": "a", "job.command": "a"})
		byName["build.running"].want(fields{"build.state": "running", "build.finished_at": nil})
		byName["job.started"].want(fields{"job.id": id, "job.state": "running", "job.exit_status": nil, "job.agent.name": "mill", "job.retry_source": nil, "build.state": "running"})
		byName["job.finished"].want(fields{"job.state": "failed", "job.exit_status": 3})
		byName["build.finished"].want(fields{"build.state": "failed", "build.blocked": false, "build.number": 1})
		if want := []string{"build", "event", "job", "pipeline", "sender"}; !slices.Equal(byName["job.started"].keys(), want) {
			t.Errorf("keys %q, want %q", byName["job.started"].keys(), want)
		}
	})
}

func TestWebhook_SendsBlockedBuildsAndRetries(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook("build.finished", "job.activated", "job.scheduled", "job.promised_exit_status")
		build := w.build(nil, "{block: go, blocked_state: failed, key: gate}", "{command: a}")
		w.runDue()
		w.receiver.take()[0].want(fields{"event": "build.finished", "build.blocked": true, "build.state": "failed"})
		w.ada.Put("/v2/organizations/acme/jobs/"+build.String("jobs.0.id")+"/unblock", nil).Want(200)
		w.runDue()
		got := w.receiver.take()
		got[0].want(fields{"event": "job.activated", "job.type": "manual", "job.state": "unblocked", "job.unblocked_by.name": "Ada"})
		id := build.String("jobs.1.id")
		job := w.Register(t, nil).Acquire(id).Start()
		job.Put(job.Path("/promise_failure"), fields{"exit_status": 2, "reason": "tests failed"}).Want(204)
		w.runDue()
		w.receiver.take()[0].want(fields{"event": "job.promised_exit_status", "promised_exit_status_reason": "tests failed", "job.state": "running", "job.promised_exit_status": 2})
		job.Finish("2")
		w.ada.Put("/v2/organizations/acme/jobs/"+id+"/retry", nil).Want(200)
		w.runDue()
		retried := w.receiver.take()
		retried[len(retried)-1].want(fields{"event": "job.scheduled", "job.retry_source.job_id": id, "job.retry_source.retry_type": "manual", "job.retry_source.retried_by.name": "Ada"})
	})
}

func TestWebhook_SendsAgentsAndTokens(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook(allEvents...)
		agent := w.Register(t, fields{"name": "mill"})
		agent.Post("/v3/disconnect", nil).Want(200)
		w.runDue()
		got := w.receiver.take()
		if len(got) != 2 {
			t.Fatalf("%d requests, want 2", len(got))
		}
		got[0].want(fields{"event": "agent.connected", "agent.id": agent.ID, "agent.name": "mill", "agent.connection_state": "connected", "agent.disconnected_at": nil, "agent.job": nil})
		got[1].want(fields{"event": "agent.disconnected", "agent.connection_state": "disconnected"})
		if want := []string{"agent", "event", "sender"}; !slices.Equal(got[0].keys(), want) {
			t.Errorf("keys %q, want %q", got[0].keys(), want)
		}

		tokens := "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/tokens"
		token := w.ada.Post(tokens, fields{"description": "bound", "allowed_ip_addresses": "10.0.0.0/8"}).Want(201)
		w.AsAgent(t, token.String("token")).Post("/v3/register", nil).Want(401)
		w.runDue()
		got = w.receiver.take()
		got[0].want(fields{"event": "cluster_token.registration_blocked", "blocked_ip": "127.0.0.1", "cluster_token.id": token.String("id"), "cluster_token.description": "bound"})
		if strings.Contains(string(got[0].Body), token.String("token")) {
			t.Error("the payload has the token itself")
		}
		registered := w.AsAgent(t, token.String("token")).With("X-Forwarded-For", "10.1.2.3").Post("/v3/register", nil).Want(200)
		w.AsAgent(t, registered.String("access_token")).Post("/v3/connect", nil).Want(200)
		w.runDue()
		w.receiver.wantEvents("agent.connected")
		w.ada.Patch(tokens+"/"+token.String("id"), fields{"allowed_ip_addresses": "10.2.0.0/16"}).Want(200)
		w.runDue()
		w.runDue()
		got = w.receiver.take()
		got[0].want(fields{"event": "agent.blocked", "blocked_ip": "10.1.2.3", "agent.id": registered.String("id"), "cluster_token.id": token.String("id")})
		got[1].want(fields{"event": "agent.stopping", "agent.connection_state": "stopping"})
	})
}

func TestWebhook_VerifiesCertificatesUnlessDisabled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		secure := httptest.NewTLSServer(http.HandlerFunc(w.receiver.serve))
		defer secure.Close()
		id := w.service("webhook", fields{"url": secure.URL}, nil).String("id")
		w.receiver.wantEvents()
		pinged := w.deliveries(id)
		if state, err := pinged.String("items.0.state"), pinged.String("items.0.error"); state != "pending" || !strings.Contains(err, "certificate") {
			t.Errorf("state %s, error %q", state, err)
		}
		w.service("webhook", fields{"url": secure.URL, "tls_verify": false}, nil)
		w.receiver.wantEvents("ping")
	})
}

func TestWebhook_DoesNotReachPrivateAddresses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.service("webhook", fields{"url": "http://10.255.255.1/"}, nil).String("id")
		pinged := w.deliveries(id)
		if state, err := pinged.String("items.0.state"), pinged.String("items.0.error"); state != "failed" || !strings.Contains(err, "10.255.255.1 is not allowed") {
			t.Errorf("state %s, error %q", state, err)
		}
	})
}

func TestWebhook_DropsEventsOfDeletedBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respondWith(503)
		w.build(nil)
		w.runDue()
		w.receiver.take()
		w.receiver.respondWith(200)
		w.ada.Delete(servertest.HelloPath).Want(204)
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.receiver.wantEvents()
		servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "failed", "items.0.error": "what the event is about has been deleted"})
	})
}

func TestWebhook_ShowsTriggerStepsOfFinishedBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Post("/v2/organizations/acme/pipelines", fields{"name": "Deploy", "repository": "https://git.example.test/acme/deploy.git", "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: b}]"}).Want(http.StatusCreated)
		w.webhook("build.finished")
		w.finish(w.build(nil, `{command: a}`), "0")
		w.runDue()
		if keys := w.receiver.take()[0].keys(); !slices.Equal(keys, []string{"build", "event", "pipeline", "sender"}) {
			t.Errorf("a build without trigger steps has %q", keys)
		}
		build := w.build(nil, `{trigger: deploy, label: Ship, key: ship, async: true}`, `{trigger: nowhere, soft_fail: true}`)
		w.runDue() // the triggers
		w.runDue() // what follows
		got := w.receiver.take()
		if len(got) != 1 {
			t.Fatalf("%d requests", len(got))
		}
		got[0].want(fields{"event": "build.finished", "build.id": build.String("id")})
		var sent struct{ Steps []map[string]any }
		if err := json.Unmarshal(got[0].Body, &sent); err != nil || len(sent.Steps) != 2 {
			t.Fatalf("%v in %s", err, got[0].Body)
		}
		ship, nowhere := sent.Steps[0], sent.Steps[1]
		for name, want := range (fields{"key": "ship", "label": "Ship", "type": "trigger", "async": true, "state": "passed", "detail": nil, "job_id": build.String("jobs.0.id")}) {
			if ship[name] != want {
				t.Errorf("%s is %v, want %v", name, ship[name], want)
			}
		}
		if at := fmt.Sprint(ship["triggered_build"].(map[string]any)["web_url"]); at != w.URL+"/acme/deploy/builds/1" {
			t.Errorf("triggered build at %q", at)
		}
		if nowhere["triggered_build"] != nil || nowhere["detail"] == nil || nowhere["state"] != "failed" {
			t.Errorf("got %v", nowhere)
		}
	})
}
