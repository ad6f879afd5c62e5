package definition

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

// visual decodes visual steps from JSON.
func visual(t *testing.T, body string) []VisualStep {
	t.Helper()
	var steps []VisualStep
	if err := json.Unmarshal([]byte(body), &steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFromVisual_MapsOntoTheModel(t *testing.T) {
	p, err := FromVisual(visual(t, `[
		{"type": "script", "name": "Build", "command": "make", "artifact_paths": "log/*", "branch_configuration": "main",
		 "env": {"B": "2", "A": "1"}, "timeout_in_minutes": 5, "agent_query_rules": ["queue=linux", "gpu"],
		 "concurrency": 1, "concurrency_group": "deploy", "parallelism": 2},
		{"type": "waiter"},
		{"type": "manual", "label": "Go"},
		{"type": "trigger", "label": "Other", "trigger_project_slug": "other", "trigger_commit": "HEAD", "trigger_branch": "main", "trigger_async": true}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "steps", p.Steps, []Step{
		{Kind: KindCommand, Label: "Build", Branches: "main", Command: &Command{
			Script: "make", ArtifactPaths: "log/*", Env: Env{{"A", "1"}, {"B", "2"}}, TimeoutInMinutes: number(5),
			Agents: []string{"queue=linux", "gpu=*"}, Parallelism: number(2),
			Concurrency: &Concurrency{Group: "deploy", Limit: 1, Method: Ordered},
			Retry:       Retry{Manual: ManualRetry{Allowed: true}},
		}},
		{Kind: KindWait, Wait: &Wait{}},
		{Kind: KindBlock, Label: "Go", Manual: &Manual{BlockedState: BlockedPassed}},
		{Kind: KindTrigger, Label: "Other", Trigger: &Trigger{
			Pipeline: "other", Async: true, Build: TriggerBuild{Commit: "HEAD", Branch: "main"},
		}},
	})
}

func TestFromVisual_KeepsPluginsInTheirOrder(t *testing.T) {
	want := []Plugin{{Source: "b#v1", Config: map[string]any{"x": 1.0, "y": []any{"z"}}}, {Source: "a#v1"}}
	for _, body := range []string{
		`[{"type": "script", "plugins": [{"b#v1": {"x": 1, "y": ["z"]}}, "a#v1"]}]`,
		`[{"type": "script", "plugins": [{"b#v1": {"x": 1, "y": ["z"]}}, {"a#v1": null}]}]`,
		`[{"type": "script", "plugins": {"b#v1": {"x": 1, "y": ["z"]}, "a#v1": null}}]`,
	} {
		p, err := FromVisual(visual(t, body))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, body, p.Steps[0].Command.Plugins, want)
		again, err := FromVisual(visual(t, asJSON(t, p.Visual())))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "sent back", again.Steps[0].Command.Plugins, want)
	}
	for _, none := range []string{"null", "[]", "{}"} {
		p, err := FromVisual(visual(t, `[{"type": "script", "command": "x", "plugins": `+none+`}]`))
		if err != nil || len(p.Steps[0].Command.Plugins) > 0 {
			t.Errorf("%s: %v, %v", none, p, err)
		}
	}
}

func TestFromVisual_NamesTheFieldsThatAreWrong(t *testing.T) {
	wrongPlugins := core.FieldError{Field: "steps[0].plugins", Code: "must be a list of plugins, each its source or an object with its source as the one key"}
	for body, want := range map[string]core.FieldError{
		`[]`:                       {Field: "steps", Code: "must have at least one step"},
		`[{"type": "waiter"}, {}]`: {Field: "steps[1].type", Code: "can't be blank"},
		`[{"type": "scrpt"}]`:      {Field: "steps[0].type", Code: `must be one of script, waiter, manual, trigger, found "scrpt"; did you mean script?`},
		`[{"type": "script"}]`:     {Field: "steps[0].command", Code: "can't be blank"},
		`[{"type": "trigger"}]`:    {Field: "steps[0].trigger_project_slug", Code: "can't be blank"},
		`[{"type": "trigger", "trigger_project_slug": "A b"}]`:                                                            {Field: "steps[0].trigger_project_slug", Code: `must be the slug of a pipeline, found "A b"; did you mean a-b?`},
		`[{"type": "trigger", "trigger_project_slug": "a", "concurrency": 1}]`:                                            {Field: "steps[0].concurrency", Code: "can't be set on a trigger step"},
		`[{"type": "trigger", "pipeline": "a", "build": {"env": {"": "b"}}}]`:                                             {Field: "steps[0].build.env", Code: `has a variable "": a name cannot be empty`},
		`[{"type": "trigger", "pipeline": "a", "parallelism": -1}]`:                                                       {Field: "steps[0].parallelism", Code: "must be a whole number from 0 to 4000, found -1"},
		`[{"type": "script", "command": "x", "timeout_in_minutes": 0}]`:                                                   {Field: "steps[0].timeout_in_minutes", Code: "must be a whole number from 1 to 2147483647, found 0"},
		`[{"type": "script", "command": "x", "parallelism": 4001}]`:                                                       {Field: "steps[0].parallelism", Code: "must be a whole number from 0 to 4000, found 4001"},
		`[{"type": "script", "command": "x", "agent_query_rules": ["a=b", "=c"]}]`:                                        {Field: "steps[0].agent_query_rules[1]", Code: `must have the form key=value, found "=c"`},
		`[{"type": "script", "command": "x", "env": {"A=": "b"}}]`:                                                        {Field: "steps[0].env", Code: `has a variable "A=": a name cannot contain "="`},
		`[{"type": "script", "command": "x", "concurrency": 1}]`:                                                          {Field: "steps[0].concurrency_group", Code: "must be given with concurrency"},
		`[{"type": "script", "command": "x", "concurrency_group": "a"}]`:                                                  {Field: "steps[0].concurrency", Code: "must be given with concurrency_group"},
		`[{"type": "script", "command": "x", "concurrency": 0, "concurrency_group": "a"}]`:                                {Field: "steps[0].concurrency", Code: "must be a whole number from 1 to 2147483647, found 0"},
		`[{"type": "script", "command": "x", "concurrency": 1, "concurrency_group": "` + strings.Repeat("a", 201) + `"}]`: {Field: "steps[0].concurrency_group", Code: "must be at most 200 characters"},
		`[{"type": "script", "command": "x", "plugins": "docker"}]`:                                                       wrongPlugins,
		`[{"type": "script", "command": "x", "plugins": [{"a": null, "b": null}]}]`:                                       wrongPlugins,
		`[{"type": "script", "command": "x", "plugins": ["a", null]}]`:                                                    wrongPlugins,
		`[{"type": "script", "command": "x", "plugins": ["a", {"b": 1}]}]`:                                                {Field: "steps[0].plugins[1]", Code: "must have a source, and an object or null for its configuration"},
		`[{"type": "script", "command": "x", "plugins": {"": null}}]`:                                                     {Field: "steps[0].plugins[0]", Code: "must have a source, and an object or null for its configuration"},
		`[{"type": "script", "plugins": []}]`:                                                                             {Field: "steps[0].command", Code: "can't be blank"},
		`[{"type": "script", "command": "x", "parallelism": 4000}, {"type": "waiter"}]`:                                   {Field: "steps", Code: "must make at most 4000 jobs"},
	} {
		_, err := FromVisual(visual(t, body))
		failure, ok := errors.AsType[*core.Error](err)
		if !ok || failure.Kind != core.Unprocessable || failure.Message != core.ValidationFailed {
			t.Errorf("%s: %v, want a validation error", body, err)
			continue
		}
		equal(t, body, failure.Fields, []core.FieldError{want})
	}
}

func TestVisual_ShowsEveryFieldOfAType(t *testing.T) {
	p := parse(t, `
- label: Build
  command: make
  artifact_paths: log/*
  branches: main
  env: {A: 1}
  timeout: 5
  agents: {queue: linux}
  parallelism: 2
- command: make
  concurrency: 1
  concurrency_group: deploy
- wait
- block: Go
- input
- group: Tests
  steps:
    - trigger: other
      label: Other
      async: true
      build: {message: Hi, env: {B: 2}}
    - trigger: other
`)
	equal(t, "JSON", asJSON(t, p.Visual()), strings.Join([]string{
		`[{"type":"script","name":"Build","command":"make","artifact_paths":"log/*","env":{"A":"1"},"timeout_in_minutes":5,"agent_query_rules":["queue=linux"],"branch_configuration":"main","concurrency":null,"parallelism":2}`,
		`{"type":"script","name":null,"command":"make","artifact_paths":null,"env":{},"timeout_in_minutes":null,"agent_query_rules":[],"concurrency_group":"deploy","branch_configuration":null,"concurrency":1,"parallelism":null}`,
		`{"type":"waiter"}`,
		`{"type":"manual","label":"Go"}`,
		`{"type":"manual","label":null}`,
		`{"type":"trigger","label":"Other","pipeline":"other","build":{"message":"Hi","branch":null,"commit":null,"env":{"B":"2"}},"async":true,"branch_configuration":null,"concurrency":null,"parallelism":null}`,
		`{"type":"trigger","label":null,"pipeline":"other","build":{"message":null,"branch":null,"commit":null,"env":{}},"async":false,"branch_configuration":null,"concurrency":null,"parallelism":null}]`,
	}, ","))
}

func TestVisual_CanBeSentBack(t *testing.T) {
	p, err := FromVisual(visual(t, `[
		{"type": "script", "name": "Build", "command": "make", "env": {"A": "1"}, "agent_query_rules": ["queue=linux"], "concurrency": 1, "concurrency_group": "a", "parallelism": 3},
		{"type": "waiter"},
		{"type": "manual", "label": "Go"},
		{"type": "trigger", "label": "Other", "trigger_project_slug": "other", "trigger_commit": "abc", "trigger_branch": "dev", "trigger_async": true}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	again, err := FromVisual(visual(t, asJSON(t, p.Visual())))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "sent back", again, p)
}

func TestVisual_SurvivesBeingStoredAsJSON(t *testing.T) {
	shown := parse(t, "- {command: make, plugins: [a, {b: {c: d}}]}\n- wait\n- input\n- trigger: other\n").Visual()
	var stored []VisualResponse
	if err := json.Unmarshal([]byte(asJSON(t, shown)), &stored); err != nil {
		t.Fatal(err)
	}
	equal(t, "stored", stored, shown)
}

func TestVisual_IsAListAlsoWithoutSteps(t *testing.T) {
	equal(t, "JSON", asJSON(t, new(Pipeline).Visual()), "[]")
}
