package definition

import (
	"strings"
	"testing"
)

func TestParse_ReadsCommand(t *testing.T) {
	p := parse(t, `
- commands: [make, make test]
  agents: ["queue=linux", gpu]
  env: {A: 1, B: "x=y"}
  artifacts: ["log/*", dist]
  parallelism: "3"
  concurrency: 1
  concurrency_group: deploy
  concurrency_method: eager
  priority: -1
  timeout: 10
  soft_fail: [{exit_status: 1}, {exit_status: [2, 3]}]
  cancel_on_build_failing: true
  retry: {automatic: true, manual: false}
  plugins: {b#v1: ~, a#v1: {x: 1}}
  image: alpine
  secrets: [TOKEN]
  signature: {value: abc}
`)
	s := p.Steps[0]
	equal(t, "command", s.Command, &Command{
		Script:               "make\nmake test",
		Plugins:              []Plugin{{Source: "b#v1"}, {"a#v1", map[string]any{"x": int64(1)}}},
		Agents:               []string{"queue=linux", "gpu=*"},
		Env:                  Env{{"A", "1"}, {"B", "x=y"}},
		ArtifactPaths:        "log/*;dist",
		Parallelism:          number(3),
		Concurrency:          &Concurrency{Group: "deploy", Limit: 1, Method: Eager},
		Priority:             number(-1),
		TimeoutInMinutes:     number(10),
		SoftFail:             SoftFail{ExitStatus: ExitStatus{Codes: []int{1, 2, 3}}},
		CancelOnBuildFailing: true,
		Retry:                Retry{Automatic: []RetryRule{{ExitStatus: ExitStatus{Any: true}, Limit: 2}}},
	})
	equal(t, "attributes", s.Attributes, map[string]any{
		"image": "alpine", "secrets": []any{"TOKEN"}, "signature": map[string]any{"value": "abc"},
	})
	equal(t, "warnings", p.Warnings, []Problem(nil))
}

func TestParse_AcceptsMinimalCommandSteps(t *testing.T) {
	equal(t, "command", step(t, `{command: make, agents: ~, env: ~, retry: ~}`).Command,
		&Command{Script: "make", Retry: Retry{Manual: ManualRetry{Allowed: true}}})
}

func TestParse_RefusesWrongCommandAttributes(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`agents: linux`, `line 1, column 24: agents must be a mapping of tags to values, or a list of key=value, found the text "linux"`},
		{`agents: ["=x"]`, `line 1, column 25: agents must have the form key=value, found the text "=x"`},
		{`agents: {"a=b": c}`, `line 1, column 25: a key of agents cannot be empty or contain "=", found "a=b"`},
		{`env: [A=b]`, `line 1, column 21: env must be a mapping of variables to texts, found a list`},
		{`env: {A: {b: c}}`, `line 1, column 25: env."A" must be text, found a mapping`},
		{`env: {"": b}`, `line 1, column 22: env has a variable "": a name cannot be empty`},
		{`env: {"A=": b}`, `line 1, column 22: env has a variable "A=": a name cannot contain "="`},
		{`artifact_paths: {a: b}`, `line 1, column 32: artifact_paths must be text or a list of texts, found a mapping`},
		{`artifact_paths: a, artifacts: b`, `line 1, column 35: artifact_paths and artifacts mean the same; keep one of them`},
		{`parallelism: -1`, `line 1, column 29: parallelism must be a whole number from 0 to 4000, found -1`},
		{`parallelism: 1.5`, `line 1, column 29: parallelism must be a whole number from 0 to 4000, found 1.5`},
		{`parallelism: 2, matrix: [a]`, `line 1, column 16: parallelism and matrix cannot stand together; add a dimension to the matrix instead`},
		{`concurrency: 1`, `line 1, column 16: concurrency needs a concurrency_group beside it`},
		{`concurrency_group: a`, `line 1, column 16: concurrency_group needs a concurrency beside it`},
		{`concurrency_method: eager`, `line 1, column 16: concurrency_method needs a concurrency and a concurrency_group beside it`},
		{`concurrency: 0, concurrency_group: a`, `line 1, column 29: concurrency must be a whole number from 1 to 2147483647, found 0`},
		{`concurrency: 1, concurrency_group: ""`, `line 1, column 51: concurrency_group must be a name, found the text ""`},
		{`concurrency: 1, concurrency_group: ` + strings.Repeat("é", 201), `line 1, column 51: concurrency_group must be at most 200 characters, found 201`},
		{`concurrency: 1, concurrency_group: a, concurrency_method: any`, `line 1, column 74: concurrency_method must be one of ordered, eager, found the text "any"`},
		{`priority: high`, `line 1, column 26: priority must be a whole number from -2147483648 to 2147483647, found the text "high"`},
		{`priority: 99999999999`, `line 1, column 26: priority must be a whole number from -2147483648 to 2147483647, found 99999999999`},
		{`timeout_in_minutes: 0`, `line 1, column 36: timeout_in_minutes must be a whole number from 1 to 2147483647, found 0`},
		{`cancel_on_build_failing: [a]`, `line 1, column 41: cancel_on_build_failing must be true or false, found a list`},
		{`plugins: docker`, `line 1, column 25: plugins must be a list of plugins, or a mapping of plugins to their configuration, found the text "docker"`},
		{`plugins: [{a: 1, b: 2}]`, `line 1, column 26: a plugin must be a mapping with its source as the one key, found 2 keys`},
		{`plugins: [[a]]`, `line 1, column 26: a plugin must be its source, or a mapping from its source to its configuration, found a list`},
		{`plugins: [{a: {b: .nan}}]`, `line 1, column 34: plugins holds ".nan", which is not a number that JSON can write`},
		{`notify: team`, `line 1, column 24: notify must be a list of notifications, found the text "team"`},
		{`signature: abc`, `line 1, column 27: signature must be a mapping, found the text "abc"`},
	} {
		refuses(t, "- {command: x, "+c.source+"}", c.want)
	}
}

func TestParse_ReadsRetryRules(t *testing.T) {
	one := func(r RetryRule) []RetryRule { return []RetryRule{r} }
	for source, want := range map[string][]RetryRule{
		`true`:                         one(RetryRule{ExitStatus: ExitStatus{Any: true}, Limit: 2}),
		`"true"`:                       one(RetryRule{ExitStatus: ExitStatus{Any: true}, Limit: 2}),
		`false`:                        nil,
		`{exit_status: "*"}`:           one(RetryRule{ExitStatus: ExitStatus{Any: true}, Limit: 2}),
		`{exit_status: "1", limit: 0}`: one(RetryRule{ExitStatus: ExitStatus{Codes: []int{1}}, Limit: 0}),
		`{exit_status: [1, 255]}`:      one(RetryRule{ExitStatus: ExitStatus{Codes: []int{1, 255}}, Limit: 2}),
		`{signal: SIGterm}`:            one(RetryRule{Signal: "TERM", Limit: 2}),
		`{signal: None}`:               one(RetryRule{Signal: "none", Limit: 2}),
		`{signal: "*", limit: 10}`:     one(RetryRule{Signal: "*", Limit: 10}),
		`[{exit_status: -1, signal_reason: stack_error, limit: 0}, {exit_status: "*"}]`: {
			{ExitStatus: ExitStatus{Codes: []int{-1}}, SignalReason: "stack_error", Limit: 0},
			{ExitStatus: ExitStatus{Any: true}, Limit: 2},
		},
	} {
		equal(t, source, step(t, "{command: x, retry: {automatic: "+source+"}}").Command.Retry.Automatic, want)
	}
	for source, want := range map[string]ManualRetry{
		`~`:                                 {Allowed: true},
		`true`:                              {Allowed: true},
		`false`:                             {},
		`{permit_on_passed: true}`:          {Allowed: true, PermitOnPassed: true},
		`{allowed: false, reason: deploys}`: {Reason: "deploys"},
	} {
		equal(t, source, step(t, "{command: x, retry: {manual: "+source+"}}").Command.Retry.Manual, want)
	}
}

func TestParse_ReadsSoftFail(t *testing.T) {
	for source, want := range map[string]SoftFail{
		`true`:                                   {Always: true},
		`false`:                                  {},
		`~`:                                      {},
		`[]`:                                     {},
		`[{exit_status: "*"}, {exit_status: 1}]`: {ExitStatus: ExitStatus{Any: true}},
		`[{exit_status: 1}, {exit_status: [2]}]`: {ExitStatus: ExitStatus{Codes: []int{1, 2}}},
	} {
		equal(t, source, step(t, "{command: x, soft_fail: "+source+"}").Command.SoftFail, want)
	}
}

func TestParse_RefusesWrongRetriesAndSoftFailures(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`retry: true`, `line 1, column 23: retry must be a mapping with automatic and manual, found true`},
		{`retry: {automatic: often}`, `line 1, column 35: retry.automatic must be true, false, a rule, or a list of rules, found the text "often"`},
		{`retry: {automatic: [1]}`, `line 1, column 36: retry.automatic must be a rule, with exit_status, signal, signal_reason and limit, found 1`},
		{`retry: {automatic: [~]}`, `line 1, column 36: retry.automatic must be a rule, with exit_status, signal, signal_reason and limit, found nothing`},
		{`retry: {automatic: {exit_status: 256}}`, `line 1, column 49: retry.automatic.exit_status must be a whole number from -1 to 255, a list of them, or "*", found 256`},
		{`retry: {automatic: {exit_status: [1, -2]}}`, `line 1, column 53: retry.automatic.exit_status must be a whole number from -1 to 255, a list of them, or "*", found -2`},
		{`retry: {automatic: {signal: "a b"}}`, `line 1, column 44: retry.automatic.signal must be the name of a signal such as SIGTERM, none, or "*", found the text "a b"`},
		{`retry: {automatic: {signal_reason: bored}}`, `line 1, column 51: retry.automatic.signal_reason must be one of cancel, agent_stop, agent_refused, agent_incompatible, agent_lost, process_run_error, signature_rejected, stack_error, none, *, found the text "bored"`},
		{`retry: {automatic: {limit: 11}}`, `line 1, column 43: retry.automatic.limit must be a whole number from 0 to 10, found 11`},
		{`retry: {manual: never}`, `line 1, column 32: retry.manual must be true, false, or a mapping with allowed, permit_on_passed and reason, found the text "never"`},
		{`retry: {manual: {allowed: 1}}`, `line 1, column 42: retry.manual.allowed must be true or false, found 1`},
		{`retry: {manual: {reason: [a]}}`, `line 1, column 41: retry.manual.reason must be text, found a list`},
		{`soft_fail: {exit_status: 1}`, `line 1, column 27: soft_fail must be true, false, or a list of mappings with exit_status, found a mapping`},
		{`soft_fail: [{}]`, `line 1, column 28: an entry of soft_fail has no key exit_status`},
		{`soft_fail: [{exit_status: bad}]`, `line 1, column 42: soft_fail.exit_status must be a whole number from -1 to 255, a list of them, or "*", found the text "bad"`},
	} {
		refuses(t, "- {command: x, "+c.source+"}", c.want)
	}
}

func TestParse_ReadsMatrix(t *testing.T) {
	s := step(t, `{command: x, matrix: [a, 1, true]}`)
	equal(t, "list", s.Command.Matrix, &Matrix{Dimensions: []Dimension{{Values: []string{"a", "1", "true"}}}})
	equal(t, "as written", s.Attributes["matrix"], []any{"a", int64(1), true})

	equal(t, "setup as a list", step(t, `{command: x, matrix: {setup: [a], adjustments: [{with: [b], skip: true}, {with: a, soft_fail: true}]}}`).Command.Matrix,
		&Matrix{
			Dimensions: []Dimension{{Values: []string{"a"}}},
			Adjustments: []Adjustment{
				{With: []string{"b"}, Skip: Skip{On: true}},
				{With: []string{"a"}, SoftFail: &SoftFail{Always: true}},
			},
		})
	equal(t, "setup as a mapping", step(t, `{command: x, matrix: {setup: {os: [linux, mac], go: [1.26]}, adjustments: [{with: {go: 1.25, os: bsd}}]}}`).Command.Matrix,
		&Matrix{
			Dimensions:  []Dimension{{"os", []string{"linux", "mac"}}, {"go", []string{"1.26"}}},
			Adjustments: []Adjustment{{With: []string{"bsd", "1.25"}}},
		})
}

func TestParse_RefusesWrongMatrices(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`a`, `line 1, column 24: matrix must be a list of values, or a mapping with setup and adjustments, found the text "a"`},
		{`[]`, `line 1, column 24: matrix must have at least one value`},
		{`[[a]]`, `line 1, column 25: a value of matrix must be text, a number, true or false, found a list`},
		{`[~]`, `line 1, column 25: a value of matrix must be text, a number, true or false, found nothing`},
		{`{adjustments: []}`, `line 1, column 24: matrix has no setup, which lists the values of each dimension`},
		{`{setup: {}}`, `line 1, column 32: matrix.setup must have 1 to 100 dimensions, found 0`},
		{`{setup: {os: []}}`, `line 1, column 37: matrix.setup."os" must have at least one value`},
		{`{setup: {os: ~}}`, `line 1, column 37: matrix.setup."os" must be a list of values, found nothing`},
		{`{setup: {o-s: [a]}}`, `line 1, column 33: the name of a dimension must consist of letters, digits and underscores, found "o-s"`},
		{`{setup: [a], adjustments: {with: b}}`, `line 1, column 50: matrix.adjustments must be a list of adjustments, found a mapping`},
		{`{setup: [a], adjustments: [b]}`, `line 1, column 51: matrix.adjustments must be a mapping with the key with, found the text "b"`},
		{`{setup: [a], adjustments: [{skip: true}]}`, `line 1, column 51: an adjustment has no key with, which names the combination`},
		{`{setup: [a], adjustments: [{with: [b, c]}]}`, `line 1, column 58: matrix.adjustments.with must name one value, found 2`},
		{`{setup: {os: [a]}, adjustments: [{with: [a]}]}`, `line 1, column 64: matrix.adjustments.with must be a mapping of every dimension to a value, found a list`},
		{`{setup: {os: [a], go: [b]}, adjustments: [{with: {os: a}}]}`, `line 1, column 73: matrix.adjustments.with must name every dimension; "go" is missing`},
		{`{setup: {os: [a]}, adjustments: [{with: {os: a, so: b}}]}`, `line 1, column 72: matrix.adjustments.with names "so", which is not a dimension of the matrix; did you mean os?`},
	} {
		refuses(t, "- {command: x, matrix: "+c.source+"}", c.want)
	}
}
