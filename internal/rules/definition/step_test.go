package definition

import (
	"encoding/json"
	"strings"
	"testing"
)

func number(n int) *int { return &n }

func TestParse_RefusesWrongSteps(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`echo hello`, `line 1, column 3: "echo hello" is not a step (to run a command, write "command: …")`},
		{`~`, `line 1, column 3: a step must be a mapping, or one of the words wait, block and input, found nothing`},
		{`[wait]`, `line 1, column 3: a step must be a mapping, or one of the words wait, block and input, found a list`},
		{`{}`, `line 1, column 3: this step has none of the keys that say what it is: command, wait, block, input, trigger or group`},
		{`{label: x, comand: make}`, `line 1, column 14: this step has none of the keys that say what it is: command, wait, block, input, trigger or group; did you mean command instead of "comand"?`},
		{`{type: scrip}`, `line 1, column 10: there is no step type "scrip", only command, wait, block, input, trigger or group; did you mean script?`},
		{`{wait: ~, command: make}`, `line 1, column 13: a step is one thing: this one is a wait step and has the key command`},
		{`{wait: {command: make}}`, `line 1, column 10: a step is one thing: this is a command step inside a wait step`},
		{`{command: make, commands: [make]}`, `line 1, column 19: command and commands mean the same; keep one of them`},
		{`{command: {a: b}, label: x}`, `line 1, column 13: command must be text or a list of texts, found a mapping`},
		{`{command: [[a]]}`, `line 1, column 14: command must be text, found a list`},

		{`{command: x, key: 01234567-89AB-cdef-0123-456789abcdef}`, `line 1, column 21: key must not have the shape of a UUID, since steps have ids of that shape`},
		{`{command: x, key: a, id: b}`, `line 1, column 24: key and id mean the same; keep one of them`},
		{`{command: x, label: {a: b}}`, `line 1, column 23: label must be text, found a mapping`},
		{`{command: x, if: [a]}`, `line 1, column 20: if must be text, found a list`},
		{`{command: x, if: "true", branches: main}`, `line 1, column 28: if and branches cannot stand together; write the branch into the condition, such as build.branch == "main"`},
		{`{command: x, branches: {a: b}}`, `line 1, column 26: branches must be text or a list of texts, found a mapping`},
		{`{command: x, depends_on: {step: a}}`, `line 1, column 28: depends_on must be a step's key, or a list of keys and of mappings with step and allow_failure, found a mapping`},
		{`{command: x, depends_on: [~]}`, `line 1, column 29: depends_on must be a step's key, found nothing`},
		{`{command: x, depends_on: ""}`, `line 1, column 28: depends_on must be a step's key, found the text ""`},
		{`{command: x, depends_on: [{allow_failure: true}]}`, `line 1, column 29: an entry of depends_on has no key step`},
		{`{command: x, depends_on: [{step: a, allow_failure: perhaps}]}`, `line 1, column 54: depends_on.allow_failure must be true or false, found the text "perhaps"`},
		{`{command: x, allow_dependency_failure: 1}`, `line 1, column 42: allow_dependency_failure must be true or false, found 1`},
		{`{command: x, skip: ` + strings.Repeat("x", 71) + `}`, `line 1, column 22: skip must be a reason of at most 70 characters, found 71`},
		{`{command: x, skip: [a]}`, `line 1, column 22: skip must be true, false or a reason, found a list`},

		{`{wait: ~, continue_on_failure: yes}`, `line 1, column 34: continue_on_failure must be true or false, found the text "yes"`},
		{`{wait: [a]}`, `line 1, column 10: wait must be text, found a list`},

		{`{trigger: ~}`, `line 1, column 4: a trigger step must name the slug of a pipeline`},
		{`{type: trigger}`, `line 1, column 3: a trigger step must name the slug of a pipeline`},
		{`{trigger: [a]}`, `line 1, column 13: trigger must be text, found a list`},
		{`{trigger: Other Pipeline}`, `line 1, column 13: trigger must be the slug of a pipeline, found "Other Pipeline"; did you mean other-pipeline?`},
		{`{trigger: a, build: now}`, `line 1, column 23: build must be a mapping with message, commit, branch, env and meta_data, found the text "now"`},
		{`{trigger: a, build: {message: [a]}}`, `line 1, column 33: build.message must be text, found a list`},
		{`{trigger: a, build: {env: {A: [b]}}}`, `line 1, column 33: build.env."A" must be text, found a list`},
		{`{trigger: a, build: {meta_data: {a: {b: c}}}}`, `line 1, column 39: build.meta_data."a" must be text, found a mapping`},
		{`{trigger: a, async: later}`, `line 1, column 23: async must be true or false, found the text "later"`},
		{`{trigger: a, parallelism: many}`, `line 1, column 29: parallelism must be a whole number from 0 to 4000, found the text "many"`},
		{`{trigger: a, soft_fail: [1]}`, `line 1, column 28: soft_fail must be a mapping with exit_status, found 1`},

		{`{group: a}`, `line 1, column 3: a group must have at least one step`},
		{`{group: a, steps: []}`, `line 1, column 14: a group must have at least one step`},
		{`{group: a, steps: wait}`, `line 1, column 21: steps must be a list of steps, found the text "wait"`},
		{`{group: a, steps: [wait, {group: b, steps: [wait]}]}`, `line 1, column 28: a group cannot stand inside a group`},
		{`{group: a, steps: [{type: group, steps: [wait]}]}`, `line 1, column 22: a group cannot stand inside a group`},
		{`{group: a, steps: [wait], concurrency: 1}`, `line 1, column 29: concurrency cannot stand on a group; set it on the steps in the group`},
	} {
		refuses(t, "- "+c.source, c.want)
	}
}

func TestParse_RefusesAKeyThatIsTakenAlsoInsideGroups(t *testing.T) {
	refuses(t, `
- {command: x, key: a}
- group: Tests
  key: b
  steps:
    - {command: x, key: a}
    - {block: Go, id: b}
`,
		`line 6, column 25: the key "a" is already used on line 2`,
		`line 7, column 23: the key "b" is already used on line 4`)
}

func TestParse_ReadsWait(t *testing.T) {
	s := step(t, `{wait: ~, continue_on_failure: true, if: build.pull_request.id == null}`)
	equal(t, "wait", s.Wait, &Wait{ContinueOnFailure: true})
	equal(t, "if", s.If, "build.pull_request.id == null")
}

func TestParse_ReadsTrigger(t *testing.T) {
	s := step(t, `{trigger: other, label: Other, async: true, soft_fail: true, parallelism: 2, skip: true, build: {message: Hi, commit: abc, branch: dev, env: {A: 1}, meta_data: {version: 1.0}}}`)
	equal(t, "trigger", s.Trigger, &Trigger{
		Pipeline: "other",
		Build: TriggerBuild{
			Message: "Hi", Commit: "abc", Branch: "dev",
			Env: Env{{"A", "1"}}, MetaData: map[string]string{"version": "1.0"},
		},
		Async:       true,
		SoftFail:    SoftFail{Always: true},
		Parallelism: number(2),
	})
	equal(t, "label", s.Label, "Other")
	equal(t, "skip", s.Skip.On, true)
	equal(t, "variable", step(t, `{trigger: $OTHER}`).Trigger.Pipeline, "$OTHER")
}

func TestParse_ReadsGroup(t *testing.T) {
	s := step(t, `{group: Tests, key: tests, if: "true", depends_on: build, skip: later, notify: [slack], steps: [{command: a}, wait, {command: b}]}`)
	equal(t, "label", s.Label, "Tests")
	equal(t, "key", s.Key, "tests")
	equal(t, "skip", s.Skip.Reason, "later")
	equal(t, "notify", s.Attributes["notify"], []any{"slack"})
	equal(t, "members", len(s.Group.Steps), 3)
	equal(t, "label instead of group", step(t, `{group: ~, label: Tests, steps: [wait]}`).Label, "Tests")
}

func TestPlugin_IsWrittenAsAgentsReadIt(t *testing.T) {
	s := step(t, `{plugins: [a#v1, {b#v2: {run: app, n: 1}}, {c: ~}]}`)
	got, err := json.Marshal(s.Command.Plugins)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "JSON", string(got), `[{"a#v1":null},{"b#v2":{"n":1,"run":"app"}},{"c":null}]`)
}
