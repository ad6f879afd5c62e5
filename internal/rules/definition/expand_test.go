package definition

import (
	"fmt"
	"strings"
	"testing"
)

// expand returns the jobs of the one step of a pipeline.
func expand(t *testing.T, source string) []JobTemplate {
	t.Helper()
	s := step(t, source)
	jobs := s.Expand()
	if len(jobs) != s.jobs() {
		t.Fatalf("%d jobs, counted as %d", len(jobs), s.jobs())
	}
	return jobs
}

func TestCombinations_AreMadeAdjustedAndAdded(t *testing.T) {
	m := step(t, `
  command: x
  matrix:
    setup: {os: [linux, mac], go: [1, 2]}
    adjustments:
      - {with: {os: mac, go: 1}, skip: later}
      - {with: {os: bsd, go: 3}, soft_fail: true}
      - {with: {os: mac, go: 1}, soft_fail: [{exit_status: 2}]}
      - {with: {os: linux, go: 2}, skip: true}
      - {with: {os: linux, go: 2}, skip: false}
      - {with: {os: bsd, go: 3}, skip: true}`).Command.Matrix
	equal(t, "combinations", m.Combinations(), []Combination{
		{Values: []string{"linux", "1"}},
		{Values: []string{"linux", "2"}, Skip: Skip{On: true}},
		{Values: []string{"mac", "1"}, Skip: Skip{On: true, Reason: "later"}, SoftFail: &SoftFail{ExitStatus: ExitStatus{Codes: []int{2}}}},
		{Values: []string{"mac", "2"}},
		{Values: []string{"bsd", "3"}, Skip: Skip{On: true}, SoftFail: &SoftFail{Always: true}},
	})
}

func TestExpand_MakesOneJobOfASimpleStep(t *testing.T) {
	equal(t, "command", expand(t, `{command: make, label: Build, env: {A: "{{matrix}}"}, agents: {os: mac}, plugins: [p], soft_fail: true, skip: later}`),
		[]JobTemplate{{
			Label: "Build", Script: "make", Env: Env{{"A", "{{matrix}}"}}, Agents: []string{"os=mac"}, Plugins: []Plugin{{Source: "p"}},
			SoftFail: SoftFail{Always: true}, Skip: Skip{On: true, Reason: "later"},
		}})
	equal(t, "wait", expand(t, `wait`), []JobTemplate{{}})
	equal(t, "block", expand(t, `{block: Go}`), []JobTemplate{{Label: "Go"}})
	equal(t, "trigger", expand(t, `{trigger: other, soft_fail: true}`), []JobTemplate{{SoftFail: SoftFail{Always: true}}})

	group := step(t, `{group: g, steps: [wait]}`)
	equal(t, "group", group.Expand(), []JobTemplate(nil))
}

func TestExpand_NumbersParallelJobs(t *testing.T) {
	for _, source := range []string{`{command: make, parallelism: 3}`, `{trigger: other, parallelism: 3}`} {
		jobs := expand(t, source)
		equal(t, "jobs", len(jobs), 3)
		for i, job := range jobs {
			equal(t, "index", *job.ParallelIndex, i)
			equal(t, "total", *job.ParallelTotal, 3)
			equal(t, "reason", job.BrokenReason, "")
		}
	}
}

func TestExpand_BreaksTheJobOfNoParallelism(t *testing.T) {
	equal(t, "command", expand(t, `{command: make, parallelism: 0}`), []JobTemplate{{Script: "make", BrokenReason: "parallelism_zero"}})
	equal(t, "trigger", expand(t, `{trigger: other, parallelism: 0}`), []JobTemplate{{BrokenReason: "parallelism_zero"}})
}

func TestExpand_FillsInTheMatrix(t *testing.T) {
	jobs := expand(t, `
  label: "Test {{matrix.os}} {{ matrix.go }} {{other}}"
  commands: ["make {{matrix.os}}", "go{{matrix.go}}"]
  key: "{{matrix.os}}"
  env: {OS: "{{matrix.os}}", "{{matrix.os}}": same}
  agents: {os: "{{matrix.os}}", "go-{{matrix.go}}": "yes"}
  plugins:
    - "docker#v{{matrix.go}}":
        image: "{{matrix.os}}:{{matrix.go}}"
        list: [1, "{{matrix.os}}", {"x-{{matrix.os}}": true, "x-linux": false}]
    - same: {a: [b]}
  skip: not yet
  soft_fail: true
  matrix:
    setup: {os: [linux, mac], go: ["1"]}
    adjustments: [{with: {os: mac, go: 1}, skip: no mac, soft_fail: false}, {with: {os: "{{matrix.go}}", go: $}}]`)
	equal(t, "jobs", len(jobs), 3)
	equal(t, "first", jobs[0], JobTemplate{
		Label: "Test linux 1 {{other}}", Script: "make linux\ngo1",
		Env: Env{{"OS", "linux"}, {"{{matrix.os}}", "same"}}, Agents: []string{"os=linux", "go-1=yes"},
		Plugins: []Plugin{
			{"docker#v1", map[string]any{"image": "linux:1", "list": []any{int64(1), "linux", map[string]any{"x-linux": true}}}},
			{"same", map[string]any{"a": []any{"b"}}},
		},
		Matrix:   map[string]string{"os": "linux", "go": "1"},
		SoftFail: SoftFail{Always: true}, Skip: Skip{On: true, Reason: "not yet"},
	})
	equal(t, "skip", jobs[1].Skip, Skip{On: true, Reason: "no mac"})
	equal(t, "soft_fail", jobs[1].SoftFail, SoftFail{})
	equal(t, "values are not filled in again", jobs[2].Label, "Test {{matrix.go}} $ {{other}}")
}

func TestExpand_FillsInTheOnlyDimension(t *testing.T) {
	jobs := expand(t, `{command: "make {{ matrix }}", matrix: [a, 1, true]}`)
	equal(t, "jobs", jobs, []JobTemplate{
		{Script: "make a", Matrix: "a"}, {Script: "make 1", Matrix: "1"}, {Script: "make true", Matrix: "true"},
	})
}

func TestParse_RefusesPlaceholdersOfUnknownDimensions(t *testing.T) {
	const list, named = ", matrix: [a]}", ", matrix: {setup: {os: [a], arch: [b]}}}"
	for source, want := range map[string]string{
		`{command: "make {{matrix.os}}"` + list:                         `line 1, column 19: the matrix has no named dimensions; write {{matrix}}`,
		`{command: "make {{matrix}}"` + named:                           `line 1, column 19: {{matrix}} names no dimension, and the matrix has named ones; write {{matrix.os}}`,
		`{command: x, label: "{{matrix.oss}}"` + named:                  `line 1, column 24: the matrix has no dimension "oss"; did you mean os?`,
		`{command: x, env: {A: "{{matrix.}}"}` + named:                  `line 1, column 26: {{matrix}} names no dimension, and the matrix has named ones; write {{matrix.os}}`,
		`{command: x, agents: ["a={{matrix.a-b}}"]` + named:             `line 1, column 28: the matrix has no dimension "a-b"`,
		`{command: x, agents: {"{{matrix.x}}": a}` + named:              `line 1, column 26: the matrix has no dimension "x"`,
		`{plugins: [{a: [{b: "\x41{{matrix.nothing}}"}]}]` + named:      `line 1, column 23: the matrix has no dimension "nothing"`,
		`{plugins: [{"a#{{matrix.c}}": ~}]` + named:                     `line 1, column 18: the matrix has no dimension "c"`,
		"{command: x, commands: a, matrix: [a]}":                        `line 1, column 16: command and commands mean the same; keep one of them`,
		"command: |\n    make\n    test {{matrix.x}}\n  matrix: [a, b]": `line 3, column 10: the matrix has no named dimensions; write {{matrix}}`,
	} {
		refuses(t, "- "+source, want)
	}
}

func TestParse_LeavesPlaceholdersElsewhereAlone(t *testing.T) {
	step(t, `{command: "{{matrix.os}}", key: "{{matrix}}"}`)
	step(t, `{command: "{{matrixes}} {{ matr }}", key: "{{matrix.x}}", env: {"{{matrix.x}}": a}, artifacts: "{{matrix.x}}", matrix: [a]}`)
}

func TestParse_BoundsWhatMatricesCopy(t *testing.T) {
	values := "[" + strings.Repeat("1,", 4000) + "]"
	script := strings.Repeat("x", 20_000)
	parse(t, "- {command: "+script+", label: '{{matrix}}', matrix: "+values+"}")
	const want = "the texts with placeholders have more than 67108864 bytes in the jobs of all matrices"
	refuses(t, "- {command: '"+script+"{{matrix}}', matrix: "+values+"}", "line 1, column 20027: "+want)

	item := "- {plugins: [{p: ['{{matrix}}', " + strings.Repeat("1,", 300) + "]}], matrix: " + values + "}"
	refuses(t, item, fmt.Sprintf("line 1, column %d: %s", strings.Index(item, "matrix:")+1, want))
	long := "- {command: '{{matrix}}', matrix: [" + strings.Repeat("1,", 3999) + strings.Repeat("x", 20_000) + "]}"
	refuses(t, long, "line 1, column 27: "+want)
}
