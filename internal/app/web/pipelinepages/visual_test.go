package pipelinepages

import (
	"encoding/json"
	"maps"
	"testing"

	"stackyard/internal/rules/definition"
)

func TestEnvText_IsParsedBack(t *testing.T) {
	env := map[string]string{"A": "1", "B": "", "C": " spaces ", "D": "a\nb\r", "E": `"quoted"`, "F": "x=y", "G": `back\slash`}
	got, problem := parseEnv(envText(env))
	if problem != "" || !maps.Equal(got, env) {
		t.Errorf("%s became %q, %s", envText(env), got, problem)
	}
	for _, bad := range []string{"A", "=x", "A=1\nB"} {
		if _, problem := parseEnv(bad); problem == "" {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FuzzVisualDraft checks that the editor shows and saves what a pipeline has, and that buttons lose nothing.
func FuzzVisualDraft(f *testing.F) {
	f.Add(`[{"type":"script","command":"a\nb","env":{"A":"b"},"agent_query_rules":["q=x"],"parallelism":2,"plugins":[{"a#v1":null}]},{"type":"waiter"}]`, "up:1")
	f.Add(`[{"type":"manual","label":"x"},{"type":"trigger","pipeline":"a","async":true,"build":{"message":"m","branch":null,"commit":"HEAD","env":{"E":" f"}}}]`, "copy:0")
	f.Add(`[{"type":"waiter"}]`, "remove:0")
	f.Add(`[]`, "add:script")
	f.Fuzz(func(t *testing.T, body, do string) {
		var steps []definition.VisualStep
		if json.Unmarshal([]byte(body), &steps) != nil || len(steps) > maxVisualSteps {
			return
		}
		parsed, err := definition.FromVisual(steps)
		if err != nil {
			return
		}
		want, err := json.Marshal(parsed.Visual())
		if err != nil {
			t.Fatal(err)
		}
		var stored []definition.VisualStep
		if err := json.Unmarshal(want, &stored); err != nil {
			t.Fatal(err)
		}
		draft := draftOf(stored, nil)
		sent, wrong := draft.body()
		if len(wrong) > 0 {
			return // a name that is no line, which the API does not have
		}
		text, err := json.Marshal(sent["steps"])
		if err != nil {
			t.Fatal(err)
		}
		var again []definition.VisualStep
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := definition.FromVisual(again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		before := len(draft.steps)
		draft.change(do)
		if n := len(draft.steps); n < before-1 || n > before+1 {
			t.Fatalf("%d steps became %d", before, n)
		}
	})
}
