package definition

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"stackyard/internal/platform/core"
)

// FuzzParse checks that any source gives either a pipeline that renders, or problems with positions, and the
// same on each run. After interpolation it also creates as many jobs as were counted.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"steps:\n  - command: make\n    env: {A: 1}\n    retry: {automatic: [{exit_status: -1, limit: 0}]}\n",
		"- wait\n- block: Go\n  fields:\n    - select: a\n      key: b\n      options: [{label: c, value: d}]\n",
		"a: &a {label: x}\nsteps:\n  - <<: [*a]\n    trigger: other\n    build: {meta_data: {k: v}}\n",
		"- group: a\n  steps: [{command: x, matrix: {setup: {os: [a, b]}, adjustments: [{with: {os: c}, skip: true}]}}]\n",
		"- {command: x, plugins: [{a#v1: {b: [1, 2.5, ~, 0x1f, .inf, 2026-01-02]}}, c], soft_fail: [{exit_status: '*'}]}\n",
		"- {command: x, depends_on: [a, {step: b, allow_failure: true}], concurrency: 1, concurrency_group: g}\n",
		"- {group: g, key: g, depends_on: a, steps: [{command: x, if: build.tag != null, key: a, depends_on: [b, g]}, {wait: ~, key: b}]}\n",
		"env: {X: $A}\nsteps:\n  - {command: \"${X:1} $$Y\", parallelism: $N, soft_fail: $UNSET, if: \"build.tag =~ /$X$/\"}\n",
		"a: &a [*a]\n", "? [a]\n: b\n", "a: *b\n", "[[[[", "--- a\n--- b\n", "\"\\0\"", "\xff", "!!int x", "- !!bool {}",
		laughs(9, "steps: [{command: x, cache: *TOP}]"),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		p, err := Parse(source)
		again, errAgain := Parse(source)
		if !reflect.DeepEqual(p, again) || !reflect.DeepEqual(err, errAgain) {
			t.Fatalf("two results:\n%+v, %v\n%+v, %v", p, err, again, errAgain)
		}
		if p, err := ParseWith(source, environment(someVariables)); err != nil {
			checkErrors(t, err)
		} else {
			checkExpanded(t, p.Steps)
		}
		if err != nil {
			checkErrors(t, err)
			return
		}
		if len(p.Steps) == 0 {
			t.Fatal("a pipeline without steps")
		}
		checkPlaces(t, p.Warnings)
		for _, v := range []any{p, p.Visual()} {
			if _, err := json.Marshal(v); err != nil {
				t.Fatalf("not JSON: %v", err)
			}
		}
	})
}

func checkErrors(t *testing.T, err error) {
	t.Helper()
	problems, ok := errors.AsType[Errors](err)
	if !ok || len(problems) == 0 || len(problems) > maxProblems {
		t.Fatalf("the error is %T with %d problems", err, len(problems))
	}
	checkPlaces(t, problems)
}

func checkExpanded(t *testing.T, steps []Step) {
	t.Helper()
	for _, s := range steps {
		if s.Group != nil {
			checkExpanded(t, s.Group.Steps)
		} else if got := len(s.Expand()); got != s.jobs() {
			t.Fatalf("%d jobs, counted as %d", got, s.jobs())
		}
	}
}

func checkPlaces(t *testing.T, problems []Problem) {
	t.Helper()
	for i, p := range problems {
		if p.Line < 1 || p.Column < 1 || p.Message == "" {
			t.Fatalf("a problem without a place or a message: %+v", p)
		}
		if i > 0 && p.Line < problems[i-1].Line {
			t.Fatalf("out of order: %v", problems)
		}
	}
}

// FuzzFromVisual checks that any steps give either a pipeline whose visual form can be sent back, or a
// validation error.
func FuzzFromVisual(f *testing.F) {
	for _, seed := range []string{
		`[{"type": "script", "command": "make", "env": {"A": "b"}, "agent_query_rules": ["a"], "parallelism": 0}]`,
		`[{"type": "waiter"}, {"type": "manual", "label": "x"}]`,
		`[{"type": "trigger", "trigger_project_slug": "a", "trigger_async": true}]`,
		`[{"type": "trigger", "pipeline": "a", "build": {"message": null, "env": {}}, "concurrency": null}]`,
		`[{"type": "script", "command": "x", "concurrency": 1, "concurrency_group": "g", "timeout_in_minutes": -1}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var steps []VisualStep
		if json.Unmarshal(body, &steps) != nil {
			return
		}
		p, err := FromVisual(steps)
		if err != nil {
			if core.KindOf(err) != core.Unprocessable {
				t.Fatalf("not a validation error: %v", err)
			}
			return
		}
		shown := p.Visual()
		again, err := FromVisual(visual(t, asJSON(t, shown)))
		if err != nil {
			t.Fatalf("cannot be sent back: %v", err)
		}
		if !reflect.DeepEqual(again.Visual(), shown) {
			t.Fatalf("changed when sent back:\n%+v\n%+v", shown, again.Visual())
		}
	})
}

// FuzzMatrix checks that any matrix is either rejected or creates as many jobs as were counted, each with
// placeholders replaced by the values of its combination.
func FuzzMatrix(f *testing.F) {
	for _, seed := range [][2]string{
		{"[a, 1, true]", "make {{matrix}}"},
		{"{setup: {os: [a, b], go: [1, 1]}, adjustments: [{with: {os: c, go: 1}, skip: true}]}", "{{ matrix.os }}-{{matrix.go}}{{matrix.os}}"},
		{"{setup: [a], adjustments: [{with: a, soft_fail: true}, {with: [b]}, {with: b}]}", "{{matrix}"},
		{"{setup: {a: [b]}, adjustments: [{with: {a: [c]}}]}", "{{matrix.b}}"},
		{"[~]", "{{matrix.}}"}, {"{setup: {}}", ""}, {"[['{{matrix}}']]", "{{matrix}}"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, matrix, text string) {
		quoted, _ := json.Marshal(text)
		p, err := Parse([]byte(`- {"command": ` + string(quoted) + `, "plugins": [{"p": [` + string(quoted) + `]}], "matrix": ` + matrix + "}"))
		if err != nil || len(p.Steps) != 1 || p.Steps[0].Command == nil || p.Steps[0].Command.Matrix == nil {
			return
		}
		s := p.Steps[0]
		jobs := s.Expand()
		combinations := s.Command.Matrix.Combinations()
		if len(jobs) != s.jobs() || len(jobs) != len(combinations) || len(jobs) > maxJobs {
			t.Fatalf("%d jobs and %d combinations, counted as %d", len(jobs), len(combinations), s.jobs())
		}
		for i, job := range jobs {
			values := combinations[i].Values
			if len(values) != len(s.Command.Matrix.Dimensions) {
				t.Fatalf("%d values of %d dimensions", len(values), len(s.Command.Matrix.Dimensions))
			}
			want := placeholder.ReplaceAllStringFunc(s.Command.Script, func(found string) string {
				return values[s.Command.Matrix.dimension(placeholder.FindStringSubmatch(found)[1])]
			})
			if config := job.Plugins[0].Config.([]any); job.Script != want || config[0] != want {
				t.Fatalf("%q became %q and %v, want %q", s.Command.Script, job.Script, config, want)
			}
		}
	})
}
