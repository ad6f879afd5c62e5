package delivery_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/notificationstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

// withWorkspace starts a server with a chat and tracker that services can be connected to.
func withWorkspace(t *testing.T, d *db.DB, change ...func(*notificationstest.Workspace)) (*world, *notificationstest.Workspace) {
	t.Helper()
	workspace := notificationstest.NewWorkspace(t)
	for _, fn := range change {
		fn(workspace)
	}
	s := servertest.Start(t, d, func(p *server.Parts) { p.Connections = workspace.Connections() })
	s.Apply(servertest.World)
	return &world{Server: s, t: t, ada: s.As(t, servertest.Ada), receiver: newReceiver(t), workspace: workspace}, workspace
}

// connect connects a provider the way a browser does, and returns the id of the service.
func (w *world) connect(provider string) string {
	w.t.Helper()
	service := notifications.New(w.DB, w.Key, core.PublicURL(w.URL), w.Clock.Now, w.workspace.Connections())
	p := notifications.ProviderByID(provider)
	const verifier = "an-unguessable-verifier-of-at-least-43-characters"
	to, err := service.AuthorizeURL(p, "state", verifier)
	if err != nil {
		w.t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(to)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		w.t.Fatal(err)
	}
	org, err := identity.NewDirectory(w.DB, w.Clock.Now).Organization(w.t.Context(), "acme")
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := service.FinishConnecting(w.t.Context(), org, identity.User{ID: servertest.AdaID}, p, back.Query().Get("code"), verifier)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, state := range []string{"disable", "enable"} { // the server learns of what another service did
		w.ada.Put(services+"/"+r.ID+"/"+state, nil).Want(http.StatusOK)
	}
	return r.ID
}

// settings changes settings of a service.
func (w *world) settings(id string, settings fields) {
	w.t.Helper()
	w.ada.Patch(services+"/"+id, fields{"settings": settings}).Want(http.StatusOK)
}

// wantBroken checks that a service is broken, and why.
func (w *world) wantBroken(id, why string) {
	w.t.Helper()
	shown := w.ada.Get(services + "/" + id).Want(http.StatusOK)
	if shown.At("enabled") != false || !strings.Contains(string(shown.Body), why) {
		w.t.Errorf("want broken because of %q, got %s", why, shown.Body)
	}
}

func TestChatWorkspace_PostsToItsChannel(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d)
		id := w.connect("chat_workspace")
		w.finish(w.build(nil, `{command: make test}`), "1")
		w.runDue()
		if n := len(workspace.Messages()); n > 0 {
			t.Fatalf("%d messages without a channel", n)
		}
		w.settings(id, fields{"channel": "#builds", "theme": "emoji"})
		for _, exit := range []string{"1", "0", "0"} { // failed, fixed, passed
			w.finish(w.build(fields{"message": "Fix <the> parser\n\nDetails"}, `{command: make test}`), exit)
			w.runDue()
		}
		got := workspace.Messages()
		if len(got) != 2 {
			t.Fatalf("%d messages, want one for the failed and one for the fixed build", len(got))
		}
		for i, want := range []string{":x: Build Hello #2 failed", ":tada: Build Hello #3 passed and is fixed"} {
			if got[i].Channel != "#builds" || got[i].Text != want || !strings.Contains(got[i].All(), "Fix &lt;the&gt; parser\nmain") {
				t.Errorf("got %+v, want %q", got[i], want)
			}
		}
		last := w.deliveries(id)
		if got[1].Metadata.EventPayload["delivery"] != last.String("items.0.id") {
			t.Errorf("the message carries %v", got[1].Metadata)
		}
		record := w.ada.Get(last.String("items.0.url")).Want(http.StatusOK)
		if strings.Contains(string(record.Body), "access-") || !strings.Contains(string(record.Body), "chat.postMessage") {
			t.Errorf("the record is %s", record.Body)
		}
	})
}

func TestChatWorkspace_ExplainsWhatTheChatRefuses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d)
		id := w.connect("chat_workspace")
		w.settings(id, fields{"channel": "#gone"})
		send := func() {
			t.Helper()
			w.finish(w.build(nil, `{command: make test}`), "1")
			w.runDue()
		}
		send()
		if shown := w.deliveries(id); shown.String("items.0.state") != "failed" || shown.String("items.0.error") != "the chat answered: channel_not_found" {
			t.Errorf("got %s", shown.Body)
		}
		w.settings(id, fields{"channel": "#builds"})
		workspace.Set(func(w *notificationstest.Workspace) { w.ChatError = "ratelimited" })
		send()
		if shown := w.deliveries(id); shown.String("items.0.state") != "pending" {
			t.Errorf("got %s", shown.Body)
		}
		workspace.Set(func(w *notificationstest.Workspace) { w.ChatError = "" })
		w.Clock.Advance(time.Minute)
		w.runDue()
		servertest.WantEqual(t, "messages", len(workspace.Messages()), 1)

		workspace.Revoke()
		send()
		w.wantBroken(id, "Chat Workspace does not accept the access token (token_revoked); connect it again")
		send() // no receiver wants it
		servertest.WantEqual(t, "connected again", w.connect("chat_workspace"), id)
		send()
		servertest.WantEqual(t, "messages", len(workspace.Messages()), 2)
	})
}

func TestChatWorkspace_RefreshesItsToken(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d, func(w *notificationstest.Workspace) { w.ExpiresIn = 3600 })
		id := w.connect("chat_workspace")
		w.settings(id, fields{"channel": "#builds"})
		for range 2 {
			w.finish(w.build(nil, `{command: make test}`), "1")
			w.runDue()
			w.Clock.Advance(2 * time.Hour)
		}
		servertest.WantEqual(t, "messages", len(workspace.Messages()), 2)
	})
}

func TestNotify_PostsToAnyChannelOfAWorkspace(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d)
		id := w.connect("chat_workspace")
		const definition = `{steps: [{command: a}], notify: [{slack: {channels: ["#builds", "Acme Chat#other", "elsewhere#builds"], message: See the runbook}}]}`
		w.finish(w.notifying(definition), "0")
		w.runDue()
		var channels []string
		for _, m := range workspace.Messages() {
			channels = append(channels, m.Channel)
			if !strings.Contains(m.All(), "See the runbook") {
				t.Errorf("got %q", m.All())
			}
		}
		servertest.WantEqual(t, "channels", fmt.Sprint(channels), "[#builds #other]")
		// A service carries only what its scope covers.
		w.ada.Patch(services+"/"+id, fields{"scope": "exclude_projects", "scope_uuids": []string{servertest.AcmePipelineID}}).Want(http.StatusOK)
		w.finish(w.notifying(definition), "0")
		w.runDue()
		servertest.WantEqual(t, "messages", len(workspace.Messages()), 2)
	})
}

func TestTracker_OpensAnIssueAndCommentsOnIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d)
		id := w.connect("tracker")
		send := func(branch string, exits ...string) []notificationstest.Issue {
			t.Helper()
			for _, exit := range exits {
				w.finish(w.build(fields{"branch": branch, "message": "Add ![x](https://evil.test)"}, `{command: make test, label: "Test [all]"}`), exit)
				w.runDue()
			}
			return workspace.Issues()
		}
		got := send("main", "0", "1")
		if len(got) != 1 || got[0].Identifier != "ENG-100" || got[0].Title != "Hello failed on main" || len(got[0].Comments) != 0 {
			t.Fatalf("got %+v", got)
		}
		for _, text := range []string{"Build [Hello \\#2](" + w.URL + "/acme/hello/builds/2) **failed**.", "> Add \\!\\[x\\]\\(https", "- [Test \\[all\\]](" + w.URL + "/acme/hello/builds/2#"} {
			if !strings.Contains(got[0].Description, text) {
				t.Errorf("%q is missing in %s", text, got[0].Description)
			}
		}
		got = send("main", "1", "0", "0") // fails again, is fixed, passes
		if len(got) != 1 || len(got[0].Comments) != 2 || !strings.Contains(got[0].Comments[0].Body, "**failed**") || !strings.Contains(got[0].Comments[1].Body, "**passed and is fixed**") {
			t.Fatalf("got %+v", got)
		}
		workspace.CloseIssues()
		if got = send("main", "1"); len(got) != 2 {
			t.Errorf("%d issues after the first was closed", len(got))
		}
		if got = send("feature", "1"); len(got) != 2 {
			t.Errorf("a branch that is not the default one has an issue: %+v", got)
		}
		if note := w.ada.Get(w.deliveries(id).String("items.0.url")).String("response.body"); note != "there is no open issue to comment on" {
			t.Errorf("the record says %q", note)
		}
		workspace.AddIssue("OPS-7")
		if got = send("ada/ops-7-login", "1"); len(got) != 3 || len(got[2].Comments) != 1 {
			t.Errorf("got %+v", got)
		}
		w.ada.Patch(services+"/"+id, fields{"branch_configuration": "release/*"}).Want(http.StatusOK)
		if got = send("release/1", "1"); len(got) != 4 || got[3].Title != "Hello failed on release/1" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTracker_WritesOnceWhenAnswersAreLost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d)
		w.connect("tracker")
		for build := range 2 { // the first opens an issue, the second comments
			w.finish(w.build(nil, `{command: a}`), "1")
			for lost := range 3 { // the answer to the query, the answer to the mutation, none
				workspace.Set(func(w *notificationstest.Workspace) { w.LoseAnswers = []int{1, 0, 0}[lost] })
				if lost == 1 {
					workspace.Set(func(w *notificationstest.Workspace) { w.LoseMutations = 1 })
				}
				w.runDue()
				w.Clock.Advance(time.Hour)
			}
			got := workspace.Issues()
			if len(got) != 1 || len(got[0].Links) != 1 || len(got[0].Comments) != build {
				t.Fatalf("after build %d: %+v", build+1, got)
			}
		}
	})
}

func TestTracker_ExplainsProblems(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d, func(w *notificationstest.Workspace) { w.Teams = []string{"OPS", "ENG"} })
		id := w.connect("tracker")
		send := func(want string) {
			t.Helper()
			w.finish(w.build(nil, `{command: a}`), "1")
			w.runDue()
			if shown := w.deliveries(id); !strings.Contains(shown.String("items.0.error"), want) {
				t.Errorf("got %s, want %q", shown.String("items.0.error"), want)
			}
		}
		send("the workspace has several teams; set the setting team to the one that gets issues: ENG, OPS")
		w.settings(id, fields{"team": "QA"})
		send(`the workspace has no team "QA"; its teams are ENG, OPS`)
		w.settings(id, fields{"team": "eng"})
		workspace.Set(func(w *notificationstest.Workspace) { w.TrackerError = "RATELIMITED" })
		send("the tracker answered: Refused")
		servertest.WantEqual(t, "state", w.deliveries(id).String("items.0.state"), "pending")
		workspace.Set(func(w *notificationstest.Workspace) { w.TrackerError = "" })
		w.Clock.Advance(time.Hour)
		w.runDue()
		servertest.WantEqual(t, "issues", len(workspace.Issues()), 1)
		workspace.Revoke()
		send("401")
		w.wantBroken(id, "Tracker does not accept the access token (status 401); connect it again")
	})
}
