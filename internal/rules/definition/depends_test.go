package definition

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse_RefusesDependenciesThatGoInACircle(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`- {command: x, key: a, depends_on: a}`,
			`line 1, column 36: the step "a" depends on itself`},
		{`
- {command: x, key: a, depends_on: c}
- {command: x, key: b, depends_on: [{step: a, allow_failure: true}]}
- {command: x, key: c, depends_on: [elsewhere, b]}`,
			`line 3, column 37: the dependencies go in a circle: "a" needs "c", which needs "b", which needs "a"`},
		{`
- {wait: ~, key: a, depends_on: b}
- {block: Go, key: b, depends_on: c}
- {trigger: t, key: c, depends_on: b}`,
			`line 4, column 36: the dependencies go in a circle: "b" needs "c", which needs "b"`},
		{`
- group: g
  key: g
  steps:
    - command: x
    - {command: y, depends_on: g}`,
			`line 6, column 32: the dependencies go in a circle: "g" needs the step on line 6, which needs "g"`},
		{`
- group: g
  depends_on: m
  steps: [{command: x, key: m}]`,
			`line 3, column 15: the dependencies go in a circle: the step on line 2 needs "m", which needs the step on line 2`},
		{`- {group: g, key: g, depends_on: g, steps: [wait]}`,
			`line 1, column 34: the step "g" depends on itself`},
		{`- {group: g, key: g, depends_on: a, steps: [wait]}
- {command: x, key: a, depends_on: g}`,
			`line 2, column 36: the dependencies go in a circle: "g" needs "a", which needs "g"`},
		{`
- {group: g, key: g, steps: [{command: x, depends_on: h}]}
- {group: h, key: h, steps: [wait, {command: y, key: y, depends_on: g}]}`,
			`line 3, column 69: the dependencies go in a circle: "g" needs the step on line 2, which needs "h", which needs "y", which needs "g"`},
	} {
		refuses(t, c.source, c.want)
	}
}

func TestParse_ReportsEachCycle(t *testing.T) {
	refuses(t, `
- {command: x, key: a, depends_on: [a, b]}
- {command: x, key: b, depends_on: [a]}
- {command: x, key: c, depends_on: [d, a]}
- {command: x, key: d, depends_on: [c]}`,
		`line 2, column 37: the step "a" depends on itself`,
		`line 3, column 37: the dependencies go in a circle: "a" needs "b", which needs "a"`,
		`line 5, column 37: the dependencies go in a circle: "c" needs "d", which needs "c"`)
}

func TestParse_TakesDependenciesThatEnd(t *testing.T) {
	parse(t, `
- {command: x, key: a, depends_on: later}
- {command: x, key: b, depends_on: [a, unknown]}
- {group: g, key: g, depends_on: [a, b], steps: [{command: y, key: y}, {command: z, depends_on: [y, b]}]}
- {command: x, key: later}
- {command: x, depends_on: [g, y, b, a, later]}`)
}

func TestParse_FindsACircleOfAllJobs(t *testing.T) {
	var b strings.Builder
	for i := range maxJobs {
		fmt.Fprintf(&b, "- {command: x, key: k%d, depends_on: k%d}\n", i, (i+1)%maxJobs)
	}
	refuses(t, b.String(), `line 4000, column 40: the dependencies go in a circle: "k0" needs "k1", which needs "k2", which needs "k3", which needs "k4", which needs "k5", which needs …, which needs "k0"`)
}

func TestParse_ReportsABoundedNumberOfCycles(t *testing.T) {
	var b strings.Builder
	b.WriteString("all: &all [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9]\nsteps:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- {command: x, key: k%d, depends_on: *all}\n", i)
	}
	_, err := Parse([]byte(b.String()))
	problems, _ := err.(Errors)
	if len(problems) == 0 || len(problems) > maxProblems {
		t.Errorf("%d problems", len(problems))
	}
}
