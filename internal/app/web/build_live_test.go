package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stackyard/internal/app/server/servertest"
)

// watch opens a page as a signed-in user, and waits until its stream is open.
func watch(t *testing.T, s *servertest.Server, path string) *browser {
	t.Helper()
	b := newBrowser(t, s.URL)
	b.open("/")
	b.signIn("ada@acme.test")
	b.open(path)
	b.mark()
	return b
}

func TestBrowser_FollowsABuildToItsEnd(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}, wait, {label: Bake, command: make bake}]`)
	a := s.Register(t, map[string]any{"name": "harvester-1"})
	thresh := r.jobs("Thresh")[0].ID
	b := watch(t, s, r.Path+"?job="+thresh)
	b.see("Scheduled", "No output yet", "It waits for an agent of the queue default.")

	j := a.Acquire(thresh).Start()
	b.await("Running")
	appendLog(t, j, 1, 0, "\x1b[33mone sheaf\x1b[0m\n")
	b.await("one sheaf")
	appendLog(t, j, 2, 19, "two sheaves\r\x1b[2Kthree sheaves\n")
	b.await("three sheaves")
	if got := ask(b, chromedp.Evaluate[string](`document.querySelector(".log").innerText`)); strings.Contains(got, "two sheaves") || strings.Count(got, "one sheaf") != 1 {
		t.Errorf("the log shows %q", got)
	}
	if got := ask(b, chromedp.Evaluate[string](`document.querySelector(".log .term-fg33").textContent`)); got != "one sheaf" {
		t.Errorf("yellow is %q", got)
	}
	j.Finish("0")
	b.await("Passed")
	r.take(a, "Bake").Finish("0")
	b.await("2 passed")
	b.unmoved()
	if got := ask(b, chromedp.Evaluate[string](`document.title`)); got != "Passed: Hello #1 · Stackyard" {
		t.Errorf("the title is %q", got)
	}
	b.audit("build-passed")
}

// New steps change the list of jobs; what the reader opened, entered and focused is kept.
func TestBrowser_KeepsWhatIsTheReadersOwn(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `
steps:
  - {label: Upload, command: make steps}
  - block: Release
    depends_on: []
    fields: [{text: Version, key: version}]
`, "message", "Title\n\nThe rest of it")
	a := s.Register(t, nil)
	b := watch(t, s, r.Path)
	b.do(chromedp.Click(`#build-message summary`))
	b.fill("Version", "1.2")
	j := r.take(a, "Upload")
	b.await("Running")
	j.Post(j.Path("/pipelines?pipeline_upload_id=0190c0de-0000-7000-8000-0000000000f1"), map[string]any{
		"uuid": "0190c0de-0000-7000-8000-0000000000f1", "pipeline": map[string]any{"steps": []any{map[string]any{"label": "Uploaded", "command": "make more"}}},
	})
	b.await("Uploaded")
	b.do(chromedp.KeyEvent(".3")) // into the field, which still has the focus
	j.Finish("1")
	b.await("1 failed")
	if got := ask(b, chromedp.Evaluate[string](`document.activeElement.value + " " + document.querySelector("#build-message").open`)); got != "1.2.3 true" {
		t.Errorf("the field has the focus and says, and the message is open: %s", got)
	}
	b.unmoved()
}

// An automatically retried job becomes an earlier attempt and keeps its open log.
func TestBrowser_KeepsTheLogOfAnEarlierAttempt(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh, retry: {automatic: [{exit_status: 1, limit: 1}]}}]`)
	a := s.Register(t, nil)
	j := r.take(a, "Thresh")
	appendLog(t, j, 1, 0, "the first try\n")
	b := watch(t, s, r.Path+"?job="+j.ID)
	b.await("the first try")
	j.Finish("1")
	b.await("1 earlier attempt")
	b.see("the first try", "attempt 2, automatic")
	appendLog(t, j, 2, 14, "last line\n")
	b.await("last line")
	r.take(a, "Thresh").Finish("0")
	b.await("Passed")
	b.see("last line")
	b.unmoved()
	b.audit("build-attempts")
}

func TestBrowser_FollowsALongLogWithoutKeepingAllOfIt(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	j := r.take(s.Register(t, nil), "Thresh")
	offset, sequence := 0, 0
	print := func(text string) {
		sequence++
		appendLog(t, j, sequence, offset, text)
		offset += len(text)
	}
	print(strings.Repeat("an early line\n", 40_000))
	print("the end so far\n")
	b := watch(t, s, r.Path+"?job="+j.ID)
	b.see("Only the end of the log is shown")
	b.await("the end so far")
	for range 4 {
		print(strings.Repeat("one more line\n", 8_000))
		print("and on\n")
	}
	print("now\n" + strings.Repeat("x", 1<<16) + "\xff\xfe\n" + "done")
	b.await("done")
	lines := ask(b, chromedp.Evaluate[int](`document.querySelectorAll(".log .line").length`))
	if lines < 100 || lines > 6000 {
		t.Errorf("the page has %d lines", lines)
	}
	b.unmoved()
	b.wantUsable("a long log")
}

// noScript disables JavaScript.
func (b *browser) noScript(is bool) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: is})
		return err
	}))
}

func TestBrowser_WithoutScriptShowsHowItIsNow(t *testing.T) {
	b, s := browse(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {block: Release, fields: [{text: Version, key: version}]}]`)
	b.open("/")
	b.signIn("ada@acme.test")
	b.noScript(true)
	j := r.take(s.Register(t, nil), "Thresh")
	appendLog(t, j, 1, 0, "one sheaf\n")
	b.open(r.Path)
	b.see("Running", "Live updates need JavaScript", "Refresh")
	b.press("Thresh")
	b.see("one sheaf")
	j.Finish("2")
	b.press("Refresh")
	b.see("Failed", "exit 2", "one sheaf")
	b.press("Retry")
	b.see("Retrying job.", "attempt 2", "1 earlier attempt")
	b.do(chromedp.Click(`#cancel-build summary`))
	b.press("Yes, cancel this build")
	b.see("Canceling build.", "Canceled")
	b.press("Rebuild")
	b.see("Build created.", "#2", "Rebuilt from #1")
	b.noScript(false) // for the audit; the page was loaded without
	b.audit("build-without-script")
}

func TestBrowser_KeyboardAloneOpensALogAndRetries(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	j := r.take(s.Register(t, nil), "Thresh")
	appendLog(t, j, 1, 0, "one sheaf\n")
	j.Finish("1")
	b := watch(t, s, r.Path+"?job=none")
	b.tabTo("open-" + j.ID)
	b.enter()
	b.await("one sheaf")
	b.tabTo("retry-" + j.ID)
	b.enter()
	b.await("Retrying job.")
}

// tabTo presses the tab key until an element has the focus.
func (b *browser) tabTo(id string) {
	b.t.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if ask(b, chromedp.Evaluate[string](`document.activeElement.id`)) == id {
			return
		}
	}
	b.t.Fatalf("the keyboard does not reach %s\nat %s", id, b.where())
}
