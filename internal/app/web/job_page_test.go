package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stackyard/internal/app/server/servertest"
)

// longLog is a log of 6,000 lines with sections and a failure in its middle.
func longLog() string {
	var b strings.Builder
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixMilli()
	line := func(text string) {
		at += 40
		fmt.Fprintf(&b, "\x1b_bk;t=%d\a%s\r\n", at, text)
	}
	line("~~~ Preparing the job")
	for i := range 500 {
		line(fmt.Sprintf("fetch object %d", i))
	}
	line("--- :hammer: Build")
	for i := range 2500 {
		line(fmt.Sprintf("compile file %d \x1b[38;2;255;170;80min color\x1b[0m see https://docs.test/%d", i, i))
	}
	line("+++ Test")
	for i := range 2990 {
		if i == 1000 {
			line("\x1b[31merror: the sheaf is not sorted\x1b[0m")
		}
		line(fmt.Sprintf("test %d passes", i))
	}
	line("done")
	return b.String()
}

func TestBrowser_ReadsALongLog(t *testing.T) {
	b, s := browse(t)
	r := build(t, s, `steps: [{label: ":hammer: Thresh", command: "make thresh\nmake more"}]`)
	j := s.Register(t, map[string]any{"name": "harvester-1"}).Acquire(r.jobs(":hammer: Thresh")[0].ID).Start()
	appendLog(t, j, 1, 0, longLog())
	s.Clock.Advance(time.Minute)
	j.Finish("1")
	if err := s.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.open(r.Path + "/jobs/" + j.ID)
	b.signIn("ada@acme.test")
	b.see("🔨 Thresh", "Failed", "exit 1", "The command reported an error", "5995 lines", "harvester-1")
	b.await("error: the sheaf is not sorted") // it opens at the first error
	b.audit("job")

	b.open(r.Path + "/jobs/" + j.ID + "?l=1#L600-L602")
	b.awaitScript(`document.querySelectorAll(".lines .row.on").length === 3`)
	b.see("compile file 98")
	if got := ask(b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector(".row.on [data-fg]")).color`)); got != "rgb(255, 170, 80)" {
		t.Errorf("the exact color is %s", got)
	}
	if got := ask(b, chromedp.Evaluate[string](`document.querySelector(".row.on a:not(.n)").href`)); !strings.HasPrefix(got, "https://docs.test/") {
		t.Errorf("the link leads to %s", got)
	}
	if rows := ask(b, chromedp.Evaluate[int](`document.querySelectorAll(".lines .row").length`)); rows > 200 {
		t.Errorf("the page has %d rows", rows)
	}

	b.do(chromedp.SendKeys(`#log-search`, "PASSES"), chromedp.Click(`[data-find]`))
	b.await("1 of 2990")
	b.do(chromedp.Click(`[data-next]`))
	b.await("2 of 2990")
	b.await("test 1 passes")
	b.do(chromedp.Click(`[data-previous]`), chromedp.Click(`[data-previous]`))
	b.await("test 2989 passes")
	b.do(chromedp.Click(`[data-times]`))
	b.awaitScript(`getComputedStyle(document.querySelector(".lines time")).display !== "none"`)
	b.audit("job-search")
}

func TestBrowser_FollowsTheLogOnThePageOfAJob(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	id := r.jobs("Thresh")[0].ID
	b := watch(t, s, r.Path+"/jobs/"+id)
	b.see("It waits for an agent of the queue default.", "No output yet", "default, which dispatches jobs", "none; no agent of the queue is connected")
	b.audit("job-waiting")
	j := s.Register(t, nil).Acquire(id).Start()
	b.await("Running")
	text, sequence, offset := "", 0, 0
	print := func(more string) {
		sequence++
		appendLog(t, j, sequence, offset, more)
		offset += len(more)
		text += more
	}
	print("one sheaf\n")
	b.await("one sheaf")
	for i := range 4 {
		print(strings.Repeat("more sheaves\n", 700) + fmt.Sprintf("load %d is full\n", i))
		b.await(fmt.Sprintf("load %d is full", i))
	}
	print("no line end yet")
	b.await("no line end yet")
	print(", but now\n")
	b.await("no line end yet, but now")
	j.Finish("0")
	b.await("Passed")
	b.unmoved()
	if got := ask(b, chromedp.Evaluate[string](`document.title + " " + document.querySelector("link[rel=icon]").href.replace(/.*\/(icon-[a-z]*).*/, "$1")`)); got != "Passed: Thresh · Hello #1 · Stackyard icon-good" {
		t.Errorf("the title and the icon are %s", got)
	}
	b.wantUsable("a followed log")
}

func TestJob_IsReadWithoutScript(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh, env: {CROP: rye}, retry: {automatic: [{exit_status: 1, limit: 1}]}}]`)
		a := s.Register(t, nil)
		j := r.take(a, "Thresh")
		appendLog(t, j, 1, 0, longLog())
		j.Finish("1")
		ada := signIn(t, s, "ada@acme.test")
		path := r.Path + "/jobs/" + j.ID
		page := ada.get(path).want(200, "Thresh", "test 2989 passes", "Earlier lines", "make thresh", "CROP=", "Started", "Attempts").wantNot("Later lines", "fetch object 1 ")
		if csp := page.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("the policy is %s", csp)
		}
		ada.get(path+"?from=10").want(200, "fetch object 9", "Later lines", "Earlier lines")
		ada.get(path+"?q=not+sorted").want(200, "1 line with “not sorted”", "error: the sheaf is not sorted")
		ada.get(path+"?from=999999999999999999&q="+strings.Repeat("x", 500)).want(200, "0 lines with")
		ada.get(path+"/log/rows?from=3000&count=2").want(200, `"lines":5995`, "L3001", "L3002").wantNot("L3003")
		ada.get(path+"/log/outline").want(200, `"error":4003`, `"took":"1m 40s"`)
		ada.get(path+"/log/search?q=SHEAF").want(200, `{"lines":[4003],"total":1}`)
		for _, wrong := range []string{"/log/rows", "/log/rows?from=-1&count=1", "/log/rows?from=0&count=100000", "/log/rows?from=x&count=1", "/log/search", "/log/search?q=" + strings.Repeat("x", 300)} {
			ada.get(path + wrong).want(400)
		}
		for _, hidden := range []string{"", "/live", "/log/rows?from=0&count=1", "/log/outline", "/log/search?q=a", "/log.txt"} {
			signIn(t, s, "cy@rival.test").get(path + hidden).want(404)
		}
	})
}
