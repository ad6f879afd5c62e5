package delivery_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/domain/notifications/mail/mailtest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// notifying creates a build of a definition, in which %s is the URL of the receiver.
func (w *world) notifying(definition string) *servertest.Response {
	w.t.Helper()
	definition = strings.ReplaceAll(definition, "%s", w.receiver.URL)
	w.ada.Patch(servertest.HelloPath, fields{"configuration": definition}).Want(http.StatusOK)
	return w.build(nil)
}

func TestNotify_PostsWebhooksWhoseConditionHolds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const definition = `
steps: [{command: a}]
notify:
  - webhook: "%s/always"
  - webhook: "%s/failed"
    if: build.state == "failed"
  - webhook: "%s/started"
    if: pipeline.started_failing
  - webhook: "not a URL"
  - github_commit_status: {context: lint}
`
		for _, c := range []struct {
			exit string
			want []string
		}{{"0", []string{"/always"}}, {"1", []string{"/always", "/failed", "/started"}}, {"1", []string{"/always", "/failed"}}} {
			build := w.notifying(definition)
			w.finish(build, c.exit)
			w.runDue()
			var paths []string
			for _, got := range w.receiver.take() {
				paths = append(paths, got.Path)
				got.want(fields{"event": "build.finished", "build.id": build.String("id"), "pipeline.slug": "hello"})
			}
			slices.Sort(paths)
			if fmt.Sprint(paths) != fmt.Sprint(c.want) {
				t.Errorf("exit status %s: posted to %v, want %v", c.exit, paths, c.want)
			}
		}
	})
}

func TestNotify_MailsThroughTheSMTPService(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		server := mailtest.Start(t, mail.NoTLS)
		w.service("smtp", fields{"server": server.Address, "from": "ci@acme.test", "tls": "none"}, nil)
		w.finish(w.notifying(`{steps: [{command: a}], notify: [{email: team@acme.test, if: "build.state == 'passed'"}, {email: nobody}]}`), "0")
		w.runDue()
		got := server.Received()
		if len(got) != 1 || got[0].To[0] != "team@acme.test" || !strings.Contains(string(got[0].Body), "Subject: [main] Hello #1 passed") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestNotify_FollowsOnTheLastJobOfAStep(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		build := w.notifying(`
steps:
  - {command: a, label: Twice, parallelism: 2, notify: [{webhook: "%s/step", if: 'step.outcome == "hard_failed"'}]}
  - {group: G, notify: [{webhook: "%s/group"}], steps: [{command: b}]}
`)
		agent := w.Register(w.t, nil)
		for i, exit := range []string{"1", "0", "0"} {
			agent.Acquire(build.String(fmt.Sprintf("jobs.%d.id", i))).Start().Finish(exit)
			w.runDue()
			var paths []string
			for _, got := range w.receiver.take() {
				paths = append(paths, got.Path)
			}
			want := [][]string{nil, {"/step"}, {"/group"}}[i]
			if !slices.Equal(paths, want) {
				t.Errorf("after job %d: posted to %v, want %v", i, paths, want)
			}
		}
	})
}

func TestNotify_TriesWebhooksAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.receiver.respondWith(http.StatusServiceUnavailable)
		w.finish(w.notifying(`{steps: [{command: a}], notify: [{webhook: "%s"}]}`), "0")
		w.runDue()
		first := w.receiver.take()
		w.receiver.respondWith(http.StatusOK)
		w.Clock.Advance(time.Hour)
		w.runDue()
		again := w.receiver.take()
		if len(first) == 0 || len(again) != 1 || first[0].Get("X-Service-Delivery") != again[0].Get("X-Service-Delivery") {
			t.Errorf("%d and %d requests", len(first), len(again))
		}
		w.Clock.Advance(time.Hour)
		w.runDue()
		if n := len(w.receiver.take()); n > 0 {
			t.Errorf("%d requests after it arrived", n)
		}
	})
}

func TestNotify_PostsToTheChatOfTheChannel(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, _ := withWorkspace(t, d)
		id := w.connect("chat_webhook") // to #builds
		w.finish(w.notifying(`{steps: [{command: a}], notify: [{slack: {channels: ["#builds", "#other"], message: See the runbook}}]}`), "0")
		w.runDue()
		list := w.deliveries(id)
		servertest.WantEqual(t, "deliveries", list.Len("items"), 1)
		record := string(w.ada.Get(list.String("items.0.url")).Want(http.StatusOK).Body)
		for _, text := range []string{"Hello #1", "passed", "See the runbook"} {
			if !strings.Contains(record, text) {
				t.Errorf("%q is missing in %s", text, record)
			}
		}
	})
}

// notifications returns those of the last build.
func (w *world) notifications(build *servertest.Response) *servertest.Response {
	w.t.Helper()
	return w.ada.Get(fmt.Sprintf("%s/builds/%v/notifications", servertest.HelloPath, build.At("number"))).Want(http.StatusOK)
}

func TestNotify_ShowsWhatItSends(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		server := mailtest.Start(t, mail.NoTLS)
		smtp := w.service("smtp", fields{"server": server.Address, "from": "ci@acme.test", "tls": "none"}, nil).String("id")
		w.receiver.respondWith(http.StatusServiceUnavailable)
		build := w.notifying(`{steps: [{command: a}], notify: [{webhook: "%s/hook?token=secret"}, {email: team@acme.test}]}`)
		w.finish(build, "0")
		w.runDue()
		shown := w.notifications(build)
		if strings.Contains(string(shown.Body), "secret") {
			t.Errorf("a secret is shown: %s", shown.Body)
		}
		servertest.WantAt(t, shown, fields{
			"items.0.kind": "email", "items.0.target": "team@acme.test", "items.0.state": "delivered", "items.0.service_id": smtp,
			"items.1.kind": "webhook", "items.1.target": w.receiver.URL + "/hook", "items.1.state": "pending", "items.1.attempts": 1, "items.1.status": 503, "items.1.service_id": nil,
			"items.1.event": "build.finished", "items.1.error": "the receiver answered with status 503",
		})
		sent := w.receiver.take()
		servertest.WantEqual(t, "id", shown.String("items.1.id"), sent[0].Get("X-Service-Delivery"))
		first := w.ada.Get(servertest.HelloPath + "/builds/1/notifications?per_page=1").Want(http.StatusOK)
		servertest.WantEqual(t, "second page", w.ada.Get(first.String("links.next")).Want(http.StatusOK).String("items.0.kind"), "webhook")
		w.As(t, servertest.Cy).Get(servertest.HelloPath + "/builds/1/notifications").Want(http.StatusNotFound)
		w.Clock.Advance(25 * time.Hour)
		w.runDue()
		servertest.WantEqual(t, "state after a day", w.notifications(build).String("items.1.state"), "failed")
		w.Clock.Advance(31 * 24 * time.Hour)
		w.runDue()
		servertest.WantEqual(t, "after a month", w.notifications(build).Len("items"), 1)
	})
}

// A host that does not answer gets a rest of its own, and one URL of a host does not wait for another.
func TestNotify_PausesHostsThatDoNotAnswer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		dead := newReceiver(t)
		dead.Close()
		w.receiver.respond(func(r *request) (int, http.Header) {
			if r.Path == "/broken" {
				return 500, nil
			}
			return 200, nil
		})
		definition := `{steps: [{command: a}], notify: [{webhook: "` + dead.URL + `"}, {webhook: "%s/broken"}, {webhook: "%s/works"}]}`
		var build *servertest.Response
		for range 3 {
			build = w.notifying(definition)
			w.finish(build, "0")
			w.runDue()
		}
		works := 0
		for _, r := range w.receiver.take() {
			if r.Path == "/works" {
				works++
			}
		}
		servertest.WantEqual(t, "webhooks that arrived", works, 3)
		shown := w.notifications(build)
		for i := range shown.Len("items") {
			at := fmt.Sprintf("items.%d.", i)
			want := map[string]string{dead.URL: "pending 0", w.receiver.URL + "/broken": "pending 1", w.receiver.URL + "/works": "delivered 1"}[shown.String(at+"target")]
			if got := fmt.Sprint(shown.At(at+"state"), " ", shown.At(at+"attempts")); got != want {
				t.Errorf("%s: %s, want %s", shown.String(at+"target"), got, want)
			}
		}
	})
}
