package definition

import (
	"reflect"
	"strings"
	"testing"
)

// parse parses YAML that must be valid.
func parse(t *testing.T, source string) *Pipeline {
	t.Helper()
	p, err := Parse([]byte(source))
	if err != nil {
		t.Fatalf("Parse:\n%v\nof:\n%.500s", err, source)
	}
	return p
}

// step parses the only step of a pipeline, written as a flow mapping or a bare word.
func step(t *testing.T, source string) Step {
	t.Helper()
	p := parse(t, "- "+source)
	if len(p.Steps) != 1 {
		t.Fatalf("%d steps, want one", len(p.Steps))
	}
	return p.Steps[0]
}

// refuses checks the exact problems of invalid YAML.
func refuses(t *testing.T, source string, want ...string) {
	t.Helper()
	_, err := Parse([]byte(source))
	if err == nil {
		t.Fatalf("no error for:\n%.500s", source)
	}
	if _, ok := err.(Errors); !ok {
		t.Fatalf("the error is a %T, want Errors", err)
	}
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%.2000s\nwant:\n%s\nfor:\n%.500s", got, strings.Join(want, "\n"), source)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func TestParse_ReadsTheWholePipeline(t *testing.T) {
	p := parse(t, `
env:
  B: 1.10
  A: true
  EMPTY:
agents:
  queue: linux
  os: ~
priority: 7
notify:
  - email: team@example.test
image: alpine
common: &common
  anything: [goes, here]
steps:
  - command: make
`)
	equal(t, "env", p.Env, Env{{"B", "1.10"}, {"A", "true"}, {"EMPTY", ""}})
	equal(t, "agents", p.Agents, []string{"queue=linux", "os=*"})
	equal(t, "priority", *p.Priority, 7)
	equal(t, "attributes", p.Attributes, map[string]any{
		"notify": []any{map[string]any{"email": "team@example.test"}},
		"image":  "alpine",
	})
	equal(t, "warnings", p.Warnings, []Problem(nil))
	equal(t, "steps", len(p.Steps), 1)
	equal(t, "place", [2]int{p.Steps[0].Line, p.Steps[0].Column}, [2]int{16, 5})
}

func TestParse_TakesABareListOfSteps(t *testing.T) {
	p := parse(t, "- wait\n- command: make\n")
	equal(t, "steps", len(p.Steps), 2)
}

func TestParse_TakesJSON(t *testing.T) {
	p := parse(t, `{"env": {"A": "b"}, "steps": [{"command": "make"}, {"wait": null}, "wait"]}`)
	equal(t, "steps", len(p.Steps), 3)
}

func TestParse_AcceptsEveryFormOfAStep(t *testing.T) {
	for source, want := range map[string]Kind{
		`wait`:                                KindWait,
		`waiter`:                              KindWait,
		`block`:                               KindBlock,
		`manual`:                              KindBlock,
		`input`:                               KindInput,
		`{wait: ~}`:                           KindWait,
		`{waiter: ""}`:                        KindWait,
		`{wait: {continue_on_failure: true}}`: KindWait,
		`{type: waiter}`:                      KindWait,
		`{command: make}`:                     KindCommand,
		`{commands: [make]}`:                  KindCommand,
		`{script: make}`:                      KindCommand,
		`{command: {command: make}}`:          KindCommand,
		`{type: script}`:                      KindCommand,
		`{plugins: ["docker#v5"]}`:            KindCommand,
		`{block: Go}`:                         KindBlock,
		`{block: {prompt: Go}}`:               KindBlock,
		`{manual: Go}`:                        KindBlock,
		`{type: block, label: Go}`:            KindBlock,
		`{input: Who}`:                        KindInput,
		`{trigger: other}`:                    KindTrigger,
		`{type: trigger, trigger: other}`:     KindTrigger,
		`{group: Tests, steps: [wait]}`:       KindGroup,
		`{group: ~, label: Tests, steps: [wait]}`: KindGroup,
		`{type: group, steps: [wait]}`:            KindGroup,
	} {
		if got := step(t, source); got.Kind != want {
			t.Errorf("%s is a %s step, want %s", source, got.Kind, want)
		}
	}
}

func TestParse_ReadsCommonAttributes(t *testing.T) {
	s := step(t, `{command: make, key: build, label: Build, branches: [main, "!wip-*"], allow_dependency_failure: true, skip: not today}`)
	equal(t, "key", s.Key, "build")
	equal(t, "label", s.Label, "Build")
	equal(t, "branches", s.Branches.Match("main"), true)
	equal(t, "branches", s.Branches.Match("dev"), false)
	equal(t, "allow_dependency_failure", s.AllowDependencyFailure, true)
	equal(t, "skip", s.Skip, Skip{On: true, Reason: "not today"})

	s = step(t, `{command: make, identifier: build, name: Build, if: build.branch == "main"}`)
	equal(t, "key", s.Key, "build")
	equal(t, "label", s.Label, "Build")
	equal(t, "if", s.If, `build.branch == "main"`)
	equal(t, "id", step(t, `{command: make, id: build}`).Key, "build")
	equal(t, "branches as text", string(step(t, `{command: make, branches: main 1.2}`).Branches), "main 1.2")
}

func TestParse_DistinguishesEmptyFromMissingDependencies(t *testing.T) {
	for source, want := range map[string][]Dependency{
		`{command: x}`:                                                  nil,
		`{command: x, depends_on: ~}`:                                   {},
		`{command: x, depends_on: []}`:                                  {},
		`{command: x, depends_on: a}`:                                   {{Step: "a"}},
		`{command: x, depends_on: [a, b]}`:                              {{Step: "a"}, {Step: "b"}},
		`{command: x, depends_on: [a, {step: b, allow_failure: true}]}`: {{Step: "a"}, {Step: "b", AllowFailure: true}},
	} {
		equal(t, source, step(t, source).DependsOn, want)
	}
}

func TestParse_ReadsSkip(t *testing.T) {
	for source, want := range map[string]Skip{
		`true`:                  {On: true},
		`false`:                 {},
		`"false"`:               {},
		`""`:                    {},
		`~`:                     {},
		`later`:                 {On: true, Reason: "later"},
		strings.Repeat("é", 70): {On: true, Reason: strings.Repeat("é", 70)},
	} {
		equal(t, source, step(t, "{command: x, skip: "+source+"}").Skip, want)
	}
}

func TestParse_KeepsUnknownKeysAndWarnsOfThem(t *testing.T) {
	p := parse(t, `
- command: make
  lable: Build
  colour: [1, 2.5, true, ~, {a: 2026-01-02}]
- wait: ~
  timeout_in_minutes: 5
- command: make
  retry: {automatic: {limt: 3}}
`)
	equal(t, "kept", p.Steps[0].Attributes, map[string]any{
		"lable":  "Build",
		"colour": []any{int64(1), 2.5, true, nil, map[string]any{"a": "2026-01-02"}},
	})
	equal(t, "warnings", Errors(p.Warnings).Error(), strings.Join([]string{
		`line 3, column 3: a command step has no key "lable"; it is kept and has no effect; did you mean label?`,
		`line 4, column 3: a command step has no key "colour"; it is kept and has no effect`,
		`line 6, column 3: a wait step has no key "timeout_in_minutes"; it is kept and has no effect`,
		`line 8, column 23: retry.automatic has no key "limt"; it is ignored; did you mean limit?`,
	}, "\n"))
}

func TestParse_ExpandsAnchorsAliasesAndMergeKeys(t *testing.T) {
	p := parse(t, `
base: &base
  label: Base
  agents: {queue: a}
  env: &env {A: 1, B: 2}
more: &more {timeout: 5, label: More}
steps:
  - <<: *base
    command: make
    label: Own
    env:
      <<: *env
      B: 3
  - <<: [*base, *more]
    command: make
  - &wait {wait: ~, continue_on_failure: true}
  - *wait
`)
	own, both := p.Steps[0], p.Steps[1]
	equal(t, "own label", own.Label, "Own")
	equal(t, "merged agents", own.Command.Agents, []string{"queue=a"})
	equal(t, "merged env", own.Command.Env, Env{{"A", "1"}, {"B", "3"}})
	equal(t, "first merge wins", both.Label, "Base")
	equal(t, "second merge counts", *both.Command.TimeoutInMinutes, 5)
	equal(t, "alias", p.Steps[3], p.Steps[2])
}

func TestParse_RefusesWhatIsNoPipeline(t *testing.T) {
	for source, want := range map[string]string{
		"":                              "line 1, column 1: the definition is empty; it needs a list of steps",
		"# nothing\n":                   "line 1, column 1: the definition is empty; it needs a list of steps",
		"~":                             "line 1, column 1: the definition must be a mapping with a list of steps, or a list of steps, found nothing",
		"hello":                         `line 1, column 1: the definition must be a mapping with a list of steps, or a list of steps, found the text "hello"`,
		"env: {A: b}":                   "line 1, column 1: the definition has no steps",
		"step: [wait]":                  "line 1, column 1: the definition has no steps; did you mean steps instead of step?",
		"steps:":                        "line 1, column 7: the definition has no steps",
		"steps: []":                     "line 1, column 8: the definition has no steps",
		"[]":                            "line 1, column 1: the definition has no steps",
		"steps: {a: b}":                 "line 1, column 8: steps must be a list of steps, found a mapping",
		"steps: wait":                   `line 1, column 8: steps must be a list of steps, found the text "wait"`,
		"steps: [wait]\npriority: high": `line 2, column 11: priority must be a whole number from -2147483648 to 2147483647, found the text "high"`,
		"steps: [wait]\nnotify: team":   `line 2, column 9: notify must be a list of notifications, found the text "team"`,
	} {
		refuses(t, source, want)
	}
}

func TestParse_ReportsAllProblemsInDocumentOrder(t *testing.T) {
	refuses(t, `
env: [A]
steps:
  - wiat
  - command: make
    soft_fail: maybe
    label: [a]
  - trigger:
agents: {queue: [a]}
`,
		`line 2, column 6: env must be a mapping of variables to texts, found a list`,
		`line 4, column 5: "wiat" is not a step; did you mean wait? (to run a command, write "command: …")`,
		`line 6, column 16: soft_fail must be true, false, or a list of mappings with exit_status, found the text "maybe"`,
		`line 7, column 12: label must be text, found a list`,
		`line 8, column 5: a trigger step must name the slug of a pipeline`,
		`line 9, column 17: agents."queue" must be text, found a list`,
	)
}

func TestParse_ReportsAProblemBehindAnAliasOnce(t *testing.T) {
	refuses(t, "a: &a {command: make, timeout: never}\nsteps: [*a, *a, *a]\n",
		`line 1, column 32: timeout must be a whole number from 1 to 2147483647, found the text "never"`)
}
