package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stackyard/internal/app/server/servertest"
)

const releaseSteps = `
steps:
  - block: Release
    prompt: Which one goes out?
    submit: Send it out
    fields:
      - {text: Version, key: version, hint: Such as 1.2.3, format: '[0-9.]+'}
      - {select: Where, key: where, default: eu, options: [{label: Europe, value: eu}, {label: Asia, value: asia}]}
      - {select: Flavors, key: flavors, multiple: true, required: false, options: [{label: Plain, value: plain}, {label: Seeded, value: seeded}]}
  - {label: Publish, command: make publish}
`

func TestBrowser_UnblocksWithFields(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, releaseSteps)
	b := watch(t, s, r.Path)
	b.see("Blocked", "Which one goes out?", "Such as 1.2.3")
	b.audit("build-blocked")
	b.fill("Version", "two")
	b.choose("Seeded")
	b.press("Send it out")
	b.see("Not unblocked", "Version must match [0-9.]+")
	b.audit("build-blocked-wrong")
	b.await("Version must match") // still, although the page was updated
	b.fill("Version", "2.0")
	b.press("Send it out")
	b.see("Unblocked", "Unblocked by Ada", "Version 2.0", "Where Europe", "Flavors seeded")
	var shown struct {
		MetaData map[string]string `json:"meta_data"`
		Jobs     []shownJob
	}
	s.As(t, servertest.Ada).Get(fmt.Sprintf("%s/%d", helloPath, r.Number)).Want(200).JSON(&shown)
	if got := shown.MetaData["version"] + " " + shown.MetaData["where"] + " " + shown.MetaData["flavors"]; got != "2.0 eu seeded" {
		t.Errorf("the answers are %q", got)
	}
}

// stack registers a stack that reserves a job.
func stack(t *testing.T, s *servertest.Server, jobID string) *servertest.Client {
	t.Helper()
	c := s.AsAgent(t, servertest.AcmeAgent)
	c.Post("/v3/stacks/register", map[string]any{"key": "barn", "type": "custom", "queue_key": "__default__", "metadata": map[string]string{"version": "1"}}).Want(201)
	s.Clock.Advance(time.Second)
	c.Put("/v3/stacks/barn/scheduled-jobs/batch-reserve", map[string]any{"job_uuids": []string{jobID}, "reservation_expiry_seconds": 60}).Want(200)
	return c
}

func TestBrowser_SeesWhatAStackDoes(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {label: Bake, command: make bake}]`)
	id := r.jobs("Thresh")[0].ID
	barn := stack(t, s, id)
	b := watch(t, s, r.Path+"?job="+id)
	barn.Post("/v3/stacks/barn/notifications", map[string]any{"notifications": []any{map[string]any{"job_uuid": id, "detail": "Looking for a machine"}}}).Want(200)
	b.await("barn: Looking for a machine")
	s.Clock.Advance(time.Second)
	barn.Post("/v3/stacks/barn/jobs/"+id+"/finish", map[string]any{"detail": "No machine could be had:\nthe quota is used up"}).Want(200)
	b.await("A stack finished this job without an agent.")
	b.see("the quota is used up", "1 failed")
	b.unmoved()
	b.do(chromedp.Click(`#details-` + id + ` summary`))
	b.see("Reserved by a stack", "Looking for a machine", "stack_error")
	b.audit("build-by-stack")
}

func TestBrowser_HostileBuildsAreTextOnly(t *testing.T) {
	s := onSQLite(t)
	const evil = `<script>document.title="owned"</script><img src=x onerror='document.title="owned"'>`
	quoted := "'" + strings.ReplaceAll(evil, "'", "''") + "'"
	r := build(t, s, `
env: {EVIL: `+quoted+`}
steps:
  - group: `+quoted+`
    key: g
    steps:
      - {label: `+quoted+`, command: `+quoted+`, key: a, agents: {x: `+quoted+`}}
  - block: `+quoted+`
    depends_on: []
    prompt: `+quoted+`
    submit: `+quoted+`
    fields:
      - {text: `+quoted+`, key: `+quoted+`, hint: `+quoted+`, default: `+quoted+`}
      - {select: `+quoted+`, key: b, options: [{label: `+quoted+`, value: `+quoted+`}]}
`, "message", evil+"\n"+evil, "branch", `x"><b>`, "commit", `"><script>`, "author", map[string]string{"name": evil})
	a := s.Register(t, map[string]any{"name": evil})
	id := r.jobs(evil)[0].ID
	barn := stack(t, s, id)
	barn.Post("/v3/stacks/barn/notifications", map[string]any{"notifications": []any{map[string]any{"job_uuid": id, "detail": evil}}}).Want(200)
	j := a.Acquire(id).Start()
	appendLog(t, j, 1, 0, evil+"\n\x1b]8;;javascript:document.title='owned'\x07click\x1b]8;;\x07\n\x1b]1339;url='javascript:alert(1)'\x07\x1b]1337;File=name=eA==;inline=1:"+evil+"\x07\n\x1b[999999999A\x1b[5;5H\x1b[38;5;999m"+strings.Repeat("\x1b[31m", 5000)+"\x00\xff\xc3\n")
	s.As(t, servertest.Ada).Post(fmt.Sprintf("%s/%d/annotations", helloPath, r.Number), map[string]any{"body": `<script>document.title="owned"</script><b id="build-jobs" data-part="build-jobs" onclick="document.title=1">bold</b>` + "\n\n# A heading\n\n[x](javascript:alert(1))", "style": "error"}).Want(201)
	b := watch(t, s, r.Path+"?job="+id)
	b.see(`<img src=x onerror=`, "javascript:alert(1)")
	appendLog(t, j, 2, 4000000, "far away")
	j.Finish("1")
	b.await("Failed")
	for what, script := range map[string]string{
		"scripts within the page":   `String([...document.scripts].filter((s) => !s.src).length)`,
		"images from elsewhere":     `String([...document.images].filter((i) => !i.src.startsWith(location.origin + "/avatars/")).length)`,
		"links that run something":  `String([...document.links].filter((a) => a.protocol === "javascript:").length)`,
		"elements with own actions": `String(document.querySelectorAll("[onerror], [onclick]").length)`,
	} {
		if got := ask(b, chromedp.Evaluate[string](script)); got != "0" {
			t.Errorf("%s %s", got, what)
		}
	}
	if got := ask(b, chromedp.Evaluate[string](`document.title`)); strings.Contains(got, "owned") {
		t.Error("a script ran")
	}
	b.audit("build-hostile")
}
