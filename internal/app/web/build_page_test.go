package web_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stackyard/internal/app/server/servertest"
)

// helloPath is the path of the builds of pipeline hello.
const helloPath = "/v2/organizations/acme/pipelines/hello/builds"

// configure sets the steps of the pipeline hello.
func configure(t *testing.T, s *servertest.Server, steps string) {
	t.Helper()
	s.As(t, servertest.Ada).Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"configuration": steps}).Want(200)
}

// A run is a build of the pipeline hello.
type run struct {
	t      *testing.T
	s      *servertest.Server
	Number int
	Path   string // of its page
}

// build creates a build of the pipeline hello with some steps.
func build(t *testing.T, s *servertest.Server, steps string, fields ...any) *run {
	t.Helper()
	configure(t, s, steps)
	body := map[string]any{"commit": "2f1c8a0e55d1b1f7c9a4e8d3b6f5a4c3d2e1f0a9", "branch": "main", "message": "Sort the sheaves by size\n\nThe largest come first."}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i].(string)] = fields[i+1]
	}
	made := s.As(t, servertest.Ada).Post(helloPath, body).Want(201)
	number, err := strconv.Atoi(made.String("number"))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t, s, number, fmt.Sprintf("/acme/hello/builds/%d", number)}
	if want := s.URL + r.Path; made.String("web_url") != want {
		t.Fatalf("web_url is %s, want %s", made.String("web_url"), want)
	}
	return r
}

// A shownJob is a job in the API.
type shownJob struct{ ID, Name, Label, State string }

// jobs returns the latest attempts of the jobs with a name.
func (r *run) jobs(name string) []shownJob {
	r.t.Helper()
	var shown struct{ Jobs []shownJob }
	r.s.As(r.t, servertest.Ada).Get(fmt.Sprintf("%s/%d", helloPath, r.Number)).Want(200).JSON(&shown)
	named := slices.DeleteFunc(shown.Jobs, func(j shownJob) bool { return j.Name != name && j.Label != name })
	if len(named) == 0 {
		r.t.Fatalf("no job %q", name)
	}
	return named
}

// take makes an agent acquire and start a job.
func (r *run) take(a *servertest.Agent, name string) *servertest.Job {
	r.t.Helper()
	return a.Acquire(r.jobs(name)[0].ID).Start()
}

// appendLog appends to the log of a job.
func appendLog(t *testing.T, j *servertest.Job, sequence, offset int, text string) {
	t.Helper()
	j.With("Content-Type", "application/octet-stream").
		Post(j.Path(fmt.Sprintf("/chunks?sequence=%d&offset=%d&size=%d", sequence, offset, len(text))), text).Want(200)
}

const shopSteps = `
steps:
  - group: ":wheat: Tests"
    key: tests
    steps:
      - {label: Unit, command: "make unit\nmake report", parallelism: 3}
      - {label: "Lint {{matrix.os}}", command: make lint, matrix: {setup: {os: [linux, windows]}}}
  - wait
  - block: Release
    key: release
    prompt: Which one goes out?
    fields:
      - {text: Version, key: version, hint: Such as 1.2.3, format: '[0-9.]+'}
      - {select: Where, key: where, default: eu, options: [{label: Europe, value: eu}, {label: Asia, value: asia}]}
      - {select: Flavors, key: flavors, multiple: true, required: false, options: [{label: Plain, value: plain}, {label: Seeded, value: seeded}]}
  - {label: Publish, command: make publish, key: publish}
  - {label: Elsewhere, trigger: hello, async: true, if: 'build.branch == "never"'}
`

func TestBrowser_SeesABuild(t *testing.T) {
	b, s := browse(t)
	r := build(t, s, shopSteps)
	a := s.Register(t, map[string]any{"name": "harvester-1"})
	units := r.jobs("Unit")
	done := a.Acquire(units[0].ID).Start()
	appendLog(t, done, 1, 0, "~~~ Preparing\nhello\n\x1b[32mall green\x1b[0m and \x1b[1;31mred\x1b[0m\n+++ Running\n"+strings.Repeat("a line of what it prints\n", 20))
	s.Clock.Advance(83 * time.Second)
	done.Finish("0")
	a.Acquire(units[1].ID).Start().Finish("3")
	a.Acquire(units[2].ID).Start()
	b.open(r.Path)
	b.see("Sign in")
	b.signIn("ada@acme.test")
	b.see("Sort the sheaves by size", "Failing", "Unit", "3 of 3", "Lint", "2 jobs", "exit 3", "harvester-1", "Release", "Acme Inc", "main", "1 passed", "1 failed", "1 running")
	b.audit("build")
	b.press("Unit") // the first one
	b.see("all green", "Preparing", "Details and timeline")
	if got := ask(b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector(".log .term-fg32")).color`)); got != "rgb(122, 214, 143)" {
		t.Errorf("green is %s", got)
	}
	b.audit("build-log")
	b.press("Full log")
	b.await("all green")
}

// A URL with the id of a job, as the API returns it, opens its log.
func TestBrowser_OpensTheJobThatAnAddressNames(t *testing.T) {
	b, s := browse(t)
	r := build(t, s, `steps: [{label: One, command: make}, {label: Two, command: make}]`)
	j := r.take(s.Register(t, nil), "Two")
	appendLog(t, j, 1, 0, "what two says\n")
	b.open("/")
	b.signIn("ada@acme.test")
	b.open(r.Path + "#" + j.ID)
	b.await("what two says")
	b.press("Two") // closes it
	if where := b.where(); strings.Contains(where, "what two says") {
		t.Errorf("it is still open: %s", where)
	}
}
