package definition

import (
	"strings"
	"testing"
)

func TestParse_ChecksConditionsWhereTheyStand(t *testing.T) {
	refuses(t, `
notify:
  - email: team@example.test
    if: build.stat == "failed"
  - slack
steps:
  - command: a
    if: build.brunch == "main"
  - command: b
    if: 'build.branch = "main"'
  - block: Go
    if: "é == build.tag"
  - wait: ~
    if: |
      // only tags
      build.tag != null &&
        build.tag =~ "v1"
  - trigger: other
    if: >
      build.branch
  - group: c
    if: build.branch
      == 5
    steps:
      - {command: d, if: pipeline.started_failing, notify: [{slack: x, if: nope}]}
      - {command: e, "if": "\x74rue &"}
`,
		`line 4, column 9: notify.if: there is no variable "build.stat"; did you mean build.state?`,
		`line 8, column 9: if: there is no variable "build.brunch"; did you mean build.branch?`,
		`line 10, column 23: if: "=" is no operator; compare with "=="`,
		`line 12, column 10: if: the character 'é' cannot stand here`,
		`line 17, column 22: if: "=~" needs a regular expression such as /^v1/ on its right; "v1" is text`,
		`line 19, column 9: if: a condition must be true or false; build.branch is text`,
		`line 22, column 9: if: "==" compares values of one type; build.branch is text and 5 is a whole number`,
		`line 25, column 26: if: pipeline.started_failing is known only to the conditions of notifications`,
		`line 25, column 76: notify.if: there is no variable "nope"; put text into quotes`,
		`line 26, column 28: if: "&" is no operator; "and" is "&&"`,
	)
}

func TestParse_TakesABlankConditionForNone(t *testing.T) {
	for _, blank := range []string{`""`, `" "`, `~`} {
		equal(t, blank, step(t, `{command: x, if: `+blank+`}`).If, "")
	}
	equal(t, "true", step(t, `{command: x, if: true}`).If, "true")
}

func TestParse_BoundsTheRegularExpressionsOfConditions(t *testing.T) {
	var source strings.Builder
	for i := range 25 {
		source.WriteString("- {command: x, if: 'build.tag =~ /" + strings.Repeat("a", i+1) + "(?:bcdefghij){999}/'}\n")
	}
	_, err := Parse([]byte(source.String()))
	if err == nil || !strings.Contains(err.Error(), "the regular expressions of all conditions together are too large") {
		t.Errorf("got %v", err)
	}
}
