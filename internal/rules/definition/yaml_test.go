package definition

import (
	"reflect"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

func TestVisualYAML_IsWhatAPersonWouldWrite(t *testing.T) {
	p, err := FromVisual(visual(t, `[
		{"type": "script", "name": "Build", "command": "make\nmake $TARGET", "artifact_paths": "log/*", "branch_configuration": "main",
		 "env": {"B": "2", "A": "true"}, "timeout_in_minutes": 5, "agent_query_rules": ["queue=linux"], "parallelism": 2,
		 "concurrency": 1, "concurrency_group": "deploy", "plugins": [{"docker#v5": {"image": "go", "tags": ["a"]}}]},
		{"type": "waiter"},
		{"type": "manual", "label": "Go"},
		{"type": "trigger", "label": "Other", "trigger_project_slug": "other", "trigger_branch": "main", "trigger_async": true}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := VisualYAML(p.Visual(), map[string]string{"C": "d"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "YAML", got, `env:
  C: d
steps:
  - label: Build
    command: |-
      make
      make $$TARGET
    artifact_paths: log/*
    env:
      A: "true"
      B: "2"
    agents:
      - queue=linux
    timeout_in_minutes: 5
    concurrency_group: deploy
    plugins:
      - docker#v5:
          image: go
          tags:
            - a
    branches: main
    parallelism: 2
    concurrency: 1
  - wait
  - block: Go
  - trigger: other
    label: Other
    async: true
    build:
      branch: main
`)
}

// FuzzVisualYAML checks that the YAML of visual steps defines the same steps.
func FuzzVisualYAML(f *testing.F) {
	f.Add("make $A ${B:-c} \\$D", "Label: #1", "main", "x")
	f.Add(`make \\\\$A`, "x", "", "$$")
	f.Add("a\n\n  b\n", "- wait", "!x", "true")
	f.Add("\t tab", "null", "", "0x10")
	f.Fuzz(func(t *testing.T, command, label, branches, value string) {
		text := asJSON(t, []map[string]any{
			{"type": "script", "name": label, "command": command, "branch_configuration": branches, "env": map[string]string{"A": value}, "artifact_paths": value},
			{"type": "manual", "label": label},
			{"type": "trigger", "trigger_project_slug": "a", "label": label, "build": map[string]any{"message": command, "env": map[string]string{"A": value}}},
		})
		p, err := FromVisual(visual(t, text))
		if err != nil {
			return
		}
		yaml, err := VisualYAML(p.Visual(), nil)
		if err != nil {
			if core.KindOf(err) == core.Unprocessable && strings.Contains(text, "$") {
				return
			}
			t.Fatal(err)
		}
		again, err := ParseWith([]byte(yaml), func(string) (string, bool) { return "", false })
		if err != nil {
			return // YAML refuses some characters and checks branch patterns
		}
		if got, want := again.Visual(), p.Visual(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%s\nwant\n%s", yaml, asJSON(t, got), asJSON(t, want))
		}
	})
}
