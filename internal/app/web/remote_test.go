package web_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/runner"
	"stackyard/internal/platform/rfb/rfbtest"
)

// awaitScript waits until a script is true.
func (b *browser) awaitScript(script string) {
	b.t.Helper()
	for end := time.Now().Add(stepTimeout); !ask(b, chromedp.Evaluate[bool](script)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("it is never true: %s\nat %s", script, b.where())
		}
	}
}

// insert enters a line as an input method does: chromedp sends other events for keys than a browser.
func (b *browser) insert(text string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}), chromedp.KeyEvent(kb.Enter))
}

// sessionPage signs ada in at the page of a running job, follows a link, and returns the browser.
func sessionPage(t *testing.T, s *servertest.Server, j *servertest.RealJob, link string) *browser {
	t.Helper()
	b := newBrowser(t, s.URL)
	b.open("/acme/hello/builds/1?job=" + j.ID)
	b.signIn("ada@acme.test")
	b.press(link)
	return b
}

func TestShellPage_ShowsATerminalInTheJob(t *testing.T) {
	s := onSQLite(t)
	j := s.RealJob(t, s.URL, "sleep 600")
	b := sessionPage(t, s, j, "Open shell")
	b.awaitScript(`document.getElementById("session-state").textContent === "Connected"`)
	b.insert("echo $GREETING, $((6*7)) from $SERVICE_JOB_ID")
	b.awaitScript(fmt.Sprintf(`document.querySelector(".xterm-rows").innerText.replace(/\s/g, "").includes("hellothere,42from%s")`, j.ID))
	b.insert("exit 3")
	b.await("The shell exited with status 3")
	b.open("/acme/hello/builds/1/jobs/" + j.ID + "/shell")
	b.awaitScript(`document.getElementById("session-state").textContent === "Connected"`)
	s.As(t, servertest.Ada).Put("/v2/organizations/acme/jobs/"+j.ID+"/cancel", nil).Want(http.StatusOK)
	b.await("Session closed: the job has ended")
	b.open("/acme/hello/builds/1/jobs/" + j.ID + "/shell")
	b.await("Session closed: SSH access needs a running command job")
}

func TestShellPage_IsForPeopleWhoManageHostedAgents(t *testing.T) {
	s := onSQLite(t)
	j := s.RealJob(t, s.URL, "sleep 600")
	b := newBrowser(t, s.URL)
	b.open("/acme/hello/builds/1?job=" + j.ID)
	b.signIn("bo@acme.test")
	b.await("Details and timeline")
	if ask(b, chromedp.Evaluate[bool](`document.body.innerText.includes("Open shell")`)) {
		t.Error("the page offers a shell to a member without the permission")
	}
	b.open("/acme/hello/builds/1/jobs/" + j.ID + "/shell")
	b.see("needs the permission to manage hosted agents")
}

// A page of another site cannot connect, although the browser sends cookies.
func TestShellPage_RefusesOtherOrigins(t *testing.T) {
	s := onSQLite(t)
	j := s.RealJob(t, s.URL, "sleep 600")
	ada := signIn(t, s, "ada@acme.test")
	for origin, status := range map[string]int{"https://evil.example": http.StatusForbidden, "": http.StatusBadRequest} {
		header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/acme/hello/builds/1/jobs/"+j.ID+"/shell/connect", nil)
		j.WantNoError(err)
		req.Header = header
		resp, err := ada.client.Do(req)
		j.WantNoError(err)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("origin %q: status %d, want %d", origin, resp.StatusCode, status)
		}
	}
}

func TestDesktopPage_ShowsTheDesktop(t *testing.T) {
	s := onSQLite(t)
	j := s.RealJob(t, s.URL, "sleep 600", func(o *runner.Options) {
		o.VNC.Address, o.VNC.Password = rfbtest.Start(t, "machine").Address, "machine"
	})
	b := sessionPage(t, s, j, "Open desktop")
	b.awaitScript(`document.getElementById("session-state").textContent === "Connected"`)
	// The whole screen is white, and the canvas has its size.
	b.awaitScript(`(() => {
		const canvas = document.querySelector("#session-screen canvas");
		if (!canvas || canvas.width !== 640 || canvas.height !== 480) return false;
		const pixels = canvas.getContext("2d").getImageData(300, 200, 20, 20).data;
		return pixels.every((value) => value === 255);
	})()`)
	s.As(t, servertest.Ada).Put("/v2/organizations/acme/jobs/"+j.ID+"/cancel", nil).Want(http.StatusOK)
	b.await("Session closed")
}

func TestDebugButton_KeepsTheRetriedJobForAShell(t *testing.T) {
	s := onSQLite(t)
	s.Apply("organizations: [{slug: acme, features: {self_hosted_sessions: true}}]")
	j := &servertest.RealJob{Scenario: s.Scenario(t)}
	j.Ada.Put("/v2/organizations/acme/pipeline-settings/hosted-agents-ssh", nil).Want(http.StatusOK)
	j.Steps(`{command: "echo evidence >left-behind; exit 5", env: {SERVICE_SKIP_CHECKOUT: "true"}}`)
	_, j.ID = j.CreateBuild()
	j.StartJob(j.ID).Finish("5")
	b := newBrowser(t, s.URL)
	b.open("/acme/hello/builds/1/jobs/" + j.ID)
	b.signIn("ada@acme.test")
	b.press("Retry and keep for debugging")
	retried := ""
	for end := time.Now().Add(stepTimeout); retried == ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the job is not retried")
		}
		retried = j.Show().String("retried_in_job_id")
	}
	j.ID = retried
	j.RunAgent(s.URL)
	b.open("/acme/hello/builds/1/jobs/" + j.ID)
	b.awaitScript(`!!document.getElementById("shell-` + j.ID + `")`)
	for end := time.Now().Add(stepTimeout); j.Show().At("promised_exit_status") == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the job does not fail")
		}
	}
	b.open("/acme/hello/builds/1/jobs/" + j.ID)
	b.press("Open shell")
	b.awaitScript(`document.getElementById("session-state").textContent === "Connected"`)
	b.insert("cat left-behind; echo $((6*7))-$SERVICE_COMMAND_EXIT_STATUS")
	b.awaitScript(`(() => {
		const text = document.querySelector(".xterm-rows").innerText.replace(/\s/g, "");
		return text.includes("evidence") && text.includes("42-5");
	})()`)
}
