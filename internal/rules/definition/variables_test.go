package definition

import (
	"strings"
	"testing"
)

// parseWith parses YAML that must be valid, with variables.
func parseWith(t *testing.T, source string, variables map[string]string) *Pipeline {
	t.Helper()
	p, err := ParseWith([]byte(source), environment(variables))
	if err != nil {
		t.Fatalf("ParseWith:\n%v\nof:\n%.500s", err, source)
	}
	return p
}

// refusesWith checks the exact problems of invalid YAML with variables.
func refusesWith(t *testing.T, source string, variables map[string]string, want ...string) {
	t.Helper()
	_, err := ParseWith([]byte(source), environment(variables))
	if err == nil {
		t.Fatalf("no error for:\n%.500s", source)
	}
	equal(t, source, err.Error(), strings.Join(want, "\n"))
}

func TestParseWith_FillsInEveryText(t *testing.T) {
	p := parseWith(t, `
steps:
  - label: Test $OS
    key: ${OS}-test
    command: ["make ${TARGET:-all}", "echo $$HOME"]
    parallelism: $N
    soft_fail: $SOFT
    timeout_in_minutes: "${MINUTES:-10}"
    env: {"$OS": "$OS"}
    agents: {queue: $OS}
    plugins: [{"docker#$N": {image: "$OS:latest", "$OS": [$N]}}]
    if: build.branch == "$BRANCH" && build.tag !~ /x$$/
    retry: {automatic: [{exit_status: $N, limit: $N}], manual: $SOFT}
    concurrency: $N
    concurrency_group: "$OS/deploy"
  - trigger: $OS
    async: $SOFT
  - block: Go
    blocked_state: $STATE
    skip: $SOFT
`, map[string]string{"OS": "linux", "N": "3", "SOFT": "true", "BRANCH": "main", "STATE": "failed"})
	s := p.Steps[0]
	equal(t, "label", s.Label, "Test linux")
	equal(t, "key", s.Key, "linux-test")
	equal(t, "if", s.If, `build.branch == "main" && build.tag !~ /x$/`)
	c := s.Command
	equal(t, "script", c.Script, "make all\necho $HOME")
	equal(t, "parallelism", *c.Parallelism, 3)
	equal(t, "soft_fail", c.SoftFail.Always, true)
	equal(t, "timeout", *c.TimeoutInMinutes, 10)
	equal(t, "env", c.Env, Env{{"linux", "linux"}})
	equal(t, "agents", c.Agents, []string{"queue=linux"})
	equal(t, "plugins", c.Plugins, []Plugin{{"docker#3", map[string]any{"image": "linux:latest", "linux": []any{"3"}}}})
	equal(t, "retry", c.Retry, Retry{Automatic: []RetryRule{{ExitStatus: ExitStatus{Codes: []int{3}}, Limit: 3}}, Manual: ManualRetry{Allowed: true}})
	equal(t, "concurrency", c.Concurrency, &Concurrency{Group: "linux/deploy", Limit: 3, Method: Ordered})
	equal(t, "trigger", p.Steps[1].Trigger, &Trigger{Pipeline: "linux", Async: true})
	equal(t, "blocked_state", p.Steps[2].Manual.BlockedState, BlockedFailed)
}

func TestParseWith_LetsWhatIsGivenWinOverTheDefinitionsEnv(t *testing.T) {
	p := parseWith(t, `
shared: &shared {BASE: "$GIVEN/base"}
steps: [{command: "$FIRST $SECOND $THIRD $BASE $LATE"}]
env:
  FIRST: $SECOND
  <<: *shared
  SECOND: own
  OWN: mine
  THIRD: "$SECOND $OWN $BASE"
  "$OWN-x": late
`, map[string]string{"SECOND": "given", "GIVEN": "here", "LATE": "given"})
	equal(t, "env", p.Env, Env{{"FIRST", "given"}, {"BASE", "here/base"}, {"SECOND", "own"}, {"OWN", "mine"}, {"THIRD", "given mine here/base"}, {"mine-x", "late"}})
	equal(t, "script", p.Steps[0].Command.Script, "given given given mine here/base here/base given")
}

func TestParseWith_FillsInAnAnchoredTextOnce(t *testing.T) {
	p := parseWith(t, `
text: &text "$$A"
steps: [{command: *text}, {command: *text, key: a}]
env: {X: *text}
`, map[string]string{"A": "no"})
	equal(t, "first", p.Steps[0].Command.Script, "$A")
	equal(t, "second", p.Steps[1].Command.Script, "$A")
	equal(t, "env", p.Env.Map()["X"], "$A")
}

func TestParseWith_JudgesWhatVariablesBecame(t *testing.T) {
	variables := map[string]string{"N": "many", "SLUG": "Not A Slug", "KEY": "a", "NUL": "\x00", "BAD": "build.brunch == 1"}
	for source, want := range map[string]string{
		`- {command: x, parallelism: $N}`:                     `line 1, column 29: parallelism must be a whole number from 0 to 4000, found the text "many"`,
		`- {command: x, parallelism: $$5}`:                    `line 1, column 29: parallelism must be a whole number from 0 to 4000, found the text "$5"`,
		`- {trigger: $SLUG}`:                                  `line 1, column 13: trigger must be the slug of a pipeline, found "Not A Slug"; did you mean not-a-slug?`,
		"- {command: x, key: $KEY}\n- {command: x, key: a}":   `line 2, column 21: the key "a" is already used on line 1`,
		`- {command: x, env: {a: 1, $KEY: 2}}`:                `line 1, column 28: the key "a" is already defined on line 1`,
		`- {command: x, label: $NUL}`:                         `line 1, column 23: the text contains the character U+0000, which cannot be stored`,
		`- {command: x, if: $BAD}`:                            `line 1, column 20: if: there is no variable "build.brunch"; did you mean build.branch?`,
		`- {command: x, depends_on: $UNSET}`:                  `line 1, column 28: depends_on must be a step's key, found the text ""`,
		`- {command: "echo ${UNSET?is needed}", if: "${UNS"}`: "line 1, column 19: the variable UNSET is not set: is needed\n" + `line 1, column 45: the brace of "${UNS" is never closed`,
		"- command: |\n    make\n    make ${X[0]}":            `line 3, column 10: "${X" must be followed by "}" or by one of the operators - :- ? :? and :; write "$${" for the characters themselves`,
	} {
		refusesWith(t, source, variables, want)
	}
}

func TestParseWith_BoundsWhatVariablesBecome(t *testing.T) {
	variables := map[string]string{"A": strings.Repeat("x", 1<<20)}
	refusesWith(t, "- command: ["+strings.Repeat("$A,", 100)+"]", variables,
		"line 1, column 37: the definition has more than 8388608 bytes of text once its variables are filled in")
	refusesWith(t, "a: &a {<<: *a}\nsteps: [wait]\nenv: *a", variables, "line 1, column 12: the alias *a stands inside its own anchor")
}

func TestParseWith_LeavesAnUploadAsItIs(t *testing.T) {
	p, err := ParseWith([]byte(`{"env": {"A": "$B"}, "steps": [{"command": "echo ${X[@]} $$"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "script", p.Steps[0].Command.Script, "echo ${X[@]} $$")
	if _, err := ParseWith([]byte("- {command: x, parallelism: $N}"), nil); err == nil {
		t.Error("a variable passed for a number")
	}
}

func TestParse_LeavesVariablesForTheBuild(t *testing.T) {
	p := parse(t, `
priority: $P
steps:
  - command: "make $TARGET"
    parallelism: $N
    soft_fail: $SOFT
    skip: ${SKIP:-false}
    timeout: $T
    if: $CONDITION
    retry: {automatic: $RETRY, manual: $RETRY}
    concurrency: $N
    concurrency_group: g
    concurrency_method: $M
    cancel_on_build_failing: $C
  - command: x
    soft_fail: [{exit_status: $S}]
    retry: {automatic: [{exit_status: [1, $S], signal: $SIG, signal_reason: $R, limit: $L}]}
    matrix: {setup: {"$DIMENSION": [a]}}
  - block: $TITLE
    blocked_state: $STATE
    fields: [{text: a, key: b, format: "^$X", required: $Q}]
  - trigger: $SLUG
`)
	c := p.Steps[0].Command
	equal(t, "script", c.Script, "make $TARGET")
	equal(t, "if", p.Steps[0].If, "$CONDITION")
	equal(t, "parallelism", c.Parallelism, (*int)(nil))
	equal(t, "concurrency", c.Concurrency, (*Concurrency)(nil))
	equal(t, "format", p.Steps[2].Manual.Fields[0].Format, "^$X")
	equal(t, "codes", p.Steps[1].Command.Retry.Automatic[0].ExitStatus.Codes, []int{1})

	refuses(t, `- {command: x, parallelism: $$5, timeout: $5}`,
		`line 1, column 29: parallelism must be a whole number from 0 to 4000, found the text "$$5"`,
		`line 1, column 43: timeout must be a whole number from 1 to 2147483647, found the text "$5"`)
	refuses(t, `- {command: "echo ${X[@]}", label: "é ${}", parallelism: "${"}`,
		`line 1, column 19: "${X" must be followed by "}" or by one of the operators - :- ? :? and :; write "$${" for the characters themselves`,
		`line 1, column 39: "${" must be followed by the name of a variable, which begins with a letter; write "$${" for the characters themselves`,
		`line 1, column 59: "${" must be followed by the name of a variable, which begins with a letter; write "$${" for the characters themselves`)
}
