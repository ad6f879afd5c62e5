package web_test

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/runner"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

// axe is axe-core 4.14.0, which finds what people with disabilities cannot use.
//
//go:embed testdata/axe-core-4.14.0/axe.min.js
var axe string

// audit fails the test if axe-core finds violations of WCAG 2.2 AA on the page, in both themes, or if it does not fit on
// a screen. It takes screenshots if there is a folder for them.
func (b *browser) audit(name string) {
	b.t.Helper()
	ask(b, chromedp.Evaluate[bool](axe+"; true"))
	b.shoot(name, b.wantAccessible)
}

// shoot is audit with other checks than axe-core, or none.
func (b *browser) shoot(name string, checks ...func(what string)) {
	b.t.Helper()
	folder := os.Getenv("STACKYARD_SCREENSHOTS")
	for i, s := range screens {
		if i >= usedOn && folder == "" {
			break
		}
		b.use(s)
		if folder != "" {
			b.saveScreenshot(filepath.Join(folder, name+"-"+s.name+".png"))
		}
		b.wantUsable(name + " on " + s.name)
		for _, check := range checks {
			if i < audited {
				check(name + " on " + s.name)
			}
		}
	}
	b.use(screens[0])
}

// wantAccessible fails the test if axe-core finds violations. It leaves out the line numbers of a log, which are links as
// high as its lines; addresses of lines can be typed too.
func (b *browser) wantAccessible(what string) {
	b.t.Helper()
	ask(b, chromedp.Evaluate[bool](`delete document.documentElement.dataset.axe;
		axe.run({exclude: [".lines .n"]}, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"]}).then((r) => {
			document.documentElement.dataset.axe = r.violations.map((v) => v.id + ": " + v.help + " at " + v.nodes.map((n) => n.html).slice(0, 3).join(" ")).join("\n");
		}, (e) => { document.documentElement.dataset.axe = "axe failed: " + e; });
		true`))
	b.do(chromedp.WaitReady("html[data-axe]"))
	if found := ask(b, chromedp.Evaluate[string](`document.documentElement.dataset.axe`)); found != "" {
		b.t.Errorf("%s: %s", what, found)
	}
}

// awaitPage opens a page again until it contains a text.
func (b *browser) awaitPage(path, text string) {
	b.t.Helper()
	for end := time.Now().Add(stepTimeout); ; time.Sleep(100 * time.Millisecond) {
		b.open(path)
		if strings.Contains(ask(b, chromedp.Evaluate[string](`document.body.innerText`)), text) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("no %q at %s", text, b.where())
		}
	}
}

// running starts a whole server, with its background work and the real time, on an empty database.
func running(t *testing.T) *servertest.Server {
	t.Helper()
	s := servertest.Start(t, dbtest.New(t, db.SQLite), func(p *server.Parts) { p.Clock = core.SystemClock })
	s.Server.Start()
	t.Cleanup(s.Server.Stop)
	return s
}

// A new installation is set up, runs a build, and gets a second person, all with a browser and a real agent.
func TestBrowser_RunsATeamFromAnEmptyServer(t *testing.T) {
	s := running(t)
	token, err := account.New(s.DB, identity.NewDirectory(s.DB, core.SystemClock), core.SystemClock).SetUpLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, s.URL)
	b.open("/signup/setup/" + token)
	b.audit("set-up")
	b.fill("Organization", "Acme")
	b.fill("Your name", "Ada")
	b.fill("Email", "ada@acme.test")
	b.fill("Password", password)
	b.press("Set up Stackyard")
	b.see("Stackyard is ready", "Start an agent")
	b.audit("set-up-done")
	command := ask(b, chromedp.Evaluate[string](`document.querySelector(".secret").innerText`))
	_, agentToken, _ := strings.Cut(command, "--token ")
	startAgent(t, s.URL, strings.TrimSpace(agentToken))
	b.press("Start the first build")
	b.await("Passed")

	b.open("/acme")
	b.press("New pipeline")
	b.do(chromedp.WaitReady(".editor"), chromedp.WaitVisible(`//*[@data-result]//li[contains(., "Tests")]`))
	b.audit("pipeline-new")
	b.fill("Name", "Shop")
	b.fill("Repository", "https://git.example.test/shop.git")
	b.press("Create pipeline")
	b.see("Pipeline created", "No builds yet")
	b.press("Edit steps")
	b.do(chromedp.WaitVisible(`//*[@data-result]//*[contains(., "1 step, no errors")]`))
	b.audit("pipeline-steps")
	for path, text := range map[string]string{
		"/acme": "Shop", "/acme/hello": "First build", "/acme/hello?state=passed": "First build", "/acme/hello/commits/HEAD": "Builds of", "/acme/shop/settings": "Badge", "/acme/shop/settings/schedules": "No schedules yet", "/acme/shop/settings/webhooks": "No webhook received",
	} {
		b.open(path)
		b.see(text)
		b.audit("team" + strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path))
	}

	b.open("/organizations/acme/agents")
	b.see("worker", "connected")
	b.audit("agents")
	b.press("worker")
	b.audit("agent")
	b.open("/organizations/acme/clusters")
	b.audit("clusters")
	b.press("Default")
	b.audit("cluster")
	cluster := strings.TrimPrefix(ask(b, chromedp.Evaluate[string](`location.pathname`)), s.URL)
	b.press("default")
	b.do(chromedp.Click(`//summary[normalize-space()="Pause queue"]`))
	b.fill("Note", "Moving machines")
	b.press("Pause queue")
	b.see("Queue paused", "Moving machines")
	b.audit("queue-paused")
	b.press("Resume queue")
	b.see("Queue resumed")
	for _, page := range []string{"/tokens", "/secrets", "/stacks", "/agent-images", "/settings"} {
		b.open(cluster + page)
		b.audit("cluster" + strings.ReplaceAll(page, "/", "-"))
	}
	for _, page := range []string{"/settings/teams", "/settings/pipelines", "/settings/connections", "/pipeline-templates"} {
		b.open("/organizations/acme" + page)
		b.audit("organization" + strings.ReplaceAll(page, "/", "-"))
	}
	b.notifies(t)
	b.builds(t)
	b.choosesRepository(t)

	b.open("/organizations/acme/settings/members")
	b.fill("Email", "grace@acme.test")
	b.press("Create invitation link")
	link := strings.TrimPrefix(ask(b, chromedp.Evaluate[string](`document.querySelector(".secret").innerText`)), s.URL)
	b.audit("invitation-link")
	b.open("/organizations/acme/settings/members")
	b.see("Open invitations", "grace@acme.test")
	b.audit("members")

	grace := newBrowser(t, s.URL)
	grace.open(link)
	grace.audit("invitation")
	grace.fill("Your name", "Grace")
	grace.fill("Password", password)
	grace.press("Join Acme")
	grace.see("Welcome to Acme", "Shop")
	grace.open("/organizations/acme/clusters")
	grace.see("Default")
	if text := ask(grace, chromedp.Evaluate[string](`document.body.innerText`)); strings.Contains(text, "New cluster") {
		t.Error("a member is offered a new cluster")
	}
	grace.open("/organizations/acme/settings/pipelines")
	grace.see("Only administrators")
	grace.refuses("/organizations/acme/clusters", "name", "Mine")
	grace.refuses(cluster+"/queues", "key", "mine")
	grace.refuses("/organizations/acme/settings/members/invite", "email", "friend@acme.test")
}

// notifies creates a webhook, builds, and sees its delivery.
func (b *browser) notifies(t *testing.T) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(receiver.Close)
	b.open("/settings/notification-services/acme/new?provider=webhook")
	b.fill("URL", receiver.URL)
	b.choose("build.finished")
	b.press("Create service")
	b.see("Notification service created")
	at := ask(b, chromedp.Evaluate[string](`location.pathname`))
	b.open("/acme/hello")
	b.do(chromedp.Click(`//summary[normalize-space()="New build"]`))
	b.press("Create build")
	b.await("Passed")
	b.awaitPage(at, "build.finished")
	b.awaitPage(at, "204")
}

// startAgent runs an agent until the test ends.
func startAgent(t *testing.T, address, token string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	options := runner.Options{
		Endpoint: address + "/v3", Token: token, Version: "test", Name: "worker", Spawn: 1, BuildPath: t.TempDir(),
		Shell: []string{"/bin/bash", "-e", "-c"}, CancelGrace: time.Second, Executable: "/bin/true", Log: slog.New(slog.DiscardHandler),
	}
	go func() { ended <- runner.Run(ctx, context.Background(), options) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}
