package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// env is an environment with a few variables.
func env(name string) (string, bool) {
	value, ok := map[string]string{"BRANCH": "main", "EMPTY": "", "GREETING": "from the job", "KEY": "label"}[name]
	return value, ok
}

func TestRead_WritesJSONInTheOrderOfTheFile(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"a list", "- command: make\n- wait\n", `{"steps":[{"command":"make"},"wait"]}`},
		{"a mapping", "steps:\n  - label: b\n    command: a\nagents: {queue: x}\n", `{"steps":[{"label":"b","command":"a"}],"agents":{"queue":"x"}}`},
		{"JSON", `{"steps": [{"wait": null}]}`, `{"steps":[{"wait":null}]}`},
		{"values", "a: 1\nb: 1.5\nc: yes\nd: true\ne: ~\nf: 0x10\ng: .inf\nh: 2026-01-02\ni: '1'\nj: \"true\"\nk: 1e3\n",
			`{"a":1,"b":1.5,"c":"yes","d":true,"e":null,"f":16,"g":".inf","h":"2026-01-02","i":"1","j":"true","k":1000}`},
		{"keys that are no texts", "steps: []\n1: a\ntrue: b\n", `{"steps":[],"1":"a","true":"b"}`},
		{"aliases", "x: &x [a, b]\ny: *x\n", `{"x":["a","b"],"y":["a","b"]}`},
		{"merged", "a: &a {k: 1, l: 2}\nb: {<<: *a, k: 3}\n", `{"a":{"k":1,"l":2},"b":{"k":3,"l":2}}`},
		{"merged lists", "a: &a {k: 1}\nb: &b {k: 2, l: 2}\nc: {<<: [*a, *b]}\n", `{"a":{"k":1},"b":{"k":2,"l":2},"c":{"k":1,"l":2}}`},
		{"signs that HTML escapes", "steps: ['a && b <c>']\n", `{"steps":["a && b <c>"]}`},
	}
	for _, tt := range tests {
		got, err := Read([]byte(tt.source), nil, nil)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestRead_FillsInVariables(t *testing.T) {
	tests := []struct{ source, want string }{
		{"- echo $BRANCH ${BRANCH}-x\n", `{"steps":["echo main main-x"]}`},
		{"- echo [$UNKNOWN] ${UNKNOWN:-other} ${EMPTY:-filled} ${EMPTY-kept}.\n", `{"steps":["echo [] other filled ."]}`},
		{"- echo ${BRANCH:0:2} ${UNKNOWN:-${BRANCH}}\n", `{"steps":["echo ma main"]}`},
		{"- echo $$BRANCH \\$BRANCH $(date) $1 cost 5$\n", `{"steps":["echo $BRANCH $BRANCH $(date) $1 cost 5$"]}`},
		{"- {$KEY: x}\n", `{"steps":[{"label":"x"}]}`},
		{"env:\n  ONE: 1 $BRANCH\n  TWO: $ONE and $THREE\n  THREE: 3\nsteps: [$TWO, $THREE]\n",
			`{"env":{"ONE":"1 main","TWO":"1 main and ","THREE":3},"steps":["1 main and ","3"]}`},
		{"env:\n  GREETING: from the file\nsteps: [$GREETING]\n", `{"env":{"GREETING":"from the file"},"steps":["from the job"]}`},
		{"x: &x $$A\nsteps: [*x, *x]\n", `{"x":"$A","steps":["$A","$A"]}`},
	}
	for _, tt := range tests {
		got, err := Read([]byte(tt.source), env, nil)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.source, got, err, tt.want)
		}
	}
}

func TestRead_KeepsVariablesWithoutEnv(t *testing.T) {
	got, err := Read([]byte("- echo $BRANCH $$X\n"), nil, nil)
	if err != nil || string(got) != `{"steps":["echo $BRANCH $$X"]}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestRead_ReportsThePositionOfErrors(t *testing.T) {
	tests := []struct{ source, want string }{
		{"", "the file is empty"},
		{"hello", "line 1, column 1: a pipeline is a mapping with steps"},
		{"steps:\n\t- x", "line 2"},
		{"a: 1\na: 2\n", `line 2, column 1: "a" is there twice`},
		{"a: {<<: 1}", "line 1, column 9: only mappings can be merged"},
		{"[a]: 1", "line 1, column 1: a key must be a text"},
		{"steps:\n  - ${BRANCH", "line 2, column 5"},
		{"steps:\n  - ${UNKNOWN?is required}", "is required"},
		{"- ${BRANCH:1:9223372036854775807}", ""},
		{"- " + strings.Repeat("${A:-", 20) + strings.Repeat("}", 20), "nested more than 12 deep"},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested more than 100 deep"},
	}
	for _, tt := range tests {
		_, err := Read([]byte(tt.source), env, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: got %v, want %q", tt.source, err, tt.want)
		}
	}
}

func TestRead_RefusesFilesThatGrow(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [xxxxxxxxxx, xxxxxxxxxx, xxxxxxxxxx, xxxxxxxxxx]\n")
	for i := 1; i < 20; i++ {
		level, below := string(rune('a'+i)), string(rune('a'+i-1))
		if i == 1 {
			below = "a0"
		}
		b.WriteString(level + ": &" + level + " [" + strings.TrimSuffix(strings.Repeat("*"+below+", ", 10), ", ") + "]\n")
	}
	if _, err := Read([]byte(b.String()), env, nil); err == nil {
		t.Error("it was taken")
	}
	for _, source := range []string{"a: &a {<<: [*a, *a]}", "- &x {a: *x}", "- &x [*x, *x]"} {
		if _, err := Read([]byte(source), env, nil); err == nil {
			t.Errorf("%s was taken", source)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("steps:\n  - command: echo ${A:-${B}} $$C\n    env: {<<: {a: b}}\n")
	f.Add("- &x {a: *x}")
	f.Add("env: {A: $$B, B: \\$A}\nsteps: ['${A:1:2}${B?x}']")
	f.Add("- $${A:-$${B:-$${C:-$${D:-x}}}}")
	f.Fuzz(func(t *testing.T, source string) {
		began := time.Now()
		got, err := Read([]byte(source), env, nil)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		if err != nil {
			return
		}
		var read map[string]any
		if err := json.Unmarshal(got, &read); err != nil {
			t.Errorf("%v in %s", err, got)
		}
	})
}

func TestRead_DecidesAboutChangedFiles(t *testing.T) {
	skip := func(value any) (string, error) {
		switch value {
		case "docs/**":
			return "", nil
		case "wrong":
			return "", errors.New("if_changed is wrong")
		}
		return fmt.Sprintf("no %v", value), nil
	}
	for source, want := range map[string]string{
		"- {command: a, if_changed: docs/**, label: b}":                     `{"steps":[{"command":"a","label":"b"}]}`,
		"- {command: a, if_changed: src/**, label: b}":                      `{"steps":[{"command":"a","label":"b","skip":"no src/**"}]}`,
		"- {command: a, if_changed: [x, y], skip: false}":                   `{"steps":[{"command":"a","skip":"no [x y]"}]}`,
		"- {command: a, if_changed: docs/**, skip: later}":                  `{"steps":[{"command":"a","skip":"later"}]}`,
		"steps: [{group: g, if_changed: src, steps: [{wait: }]}]":           `{"steps":[{"group":"g","steps":[{"wait":null}],"skip":"no src"}]}`,
		"steps: [{group: g, steps: [{command: a, if_changed: src}, wait]}]": `{"steps":[{"group":"g","steps":[{"command":"a","skip":"no src"},"wait"]}]}`,
		"x: &x {if_changed: src}\nsteps: [{<<: *x, command: a}, *x]":        `{"x":{"if_changed":"src"},"steps":[{"command":"a","skip":"no src"},{"skip":"no src"}]}`,
		"env: {if_changed: x}\nsteps: [{command: a, env: {if_changed: x}}]": `{"env":{"if_changed":"x"},"steps":[{"command":"a","env":{"if_changed":"x"}}]}`,
	} {
		got, err := Read([]byte(source), nil, skip)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", source, got, err)
		}
	}
	if _, err := Read([]byte("- {command: a}\n- {command: a, if_changed: wrong}"), nil, skip); err == nil || err.Error() != "line 2, column 3: if_changed is wrong" {
		t.Error(err)
	}
}
