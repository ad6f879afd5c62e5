package definition

import (
	"strings"
	"testing"
)

func TestParse_ReadsBlockAndInput(t *testing.T) {
	p := parse(t, `
- block: Release
  prompt: Release it?
  submit: Yes
  blocked_state: running
  allowed_teams: [release, ops]
  fields:
    - text: Version
      key: version
      hint: such as 1.2
      format: "[0-9.]+"
      default: 1.0
    - select: Where
      key: where
      required: false
      multiple: true
      default: [eu, us]
      options:
        - {label: Europe, value: eu}
        - {label: America, value: us}
- input: Who?
  allowed_teams: ops
`)
	equal(t, "label", p.Steps[0].Label, "Release")
	equal(t, "block", p.Steps[0].Manual, &Manual{
		Prompt: "Release it?", Submit: "Yes", BlockedState: BlockedRunning, AllowedTeams: []string{"release", "ops"},
		Fields: []Field{
			{Kind: FieldText, Label: "Version", Key: "version", Hint: "such as 1.2", Required: true, Default: []string{"1.0"}, Format: "[0-9.]+"},
			{Kind: FieldSelect, Label: "Where", Key: "where", Default: []string{"eu", "us"}, Multiple: true,
				Options: []Option{{"Europe", "eu"}, {"America", "us"}}},
		},
	})
	equal(t, "input", p.Steps[1].Manual, &Manual{BlockedState: BlockedPassed, AllowedTeams: []string{"ops"}})
	equal(t, "warnings", p.Warnings, []Problem(nil))
}

func TestParse_RefusesWrongBlocks(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`prompt: [a]`, `line 1, column 22: prompt must be text, found a list`},
		{`blocked_state: green`, `line 1, column 29: blocked_state must be one of passed, failed, running, found the text "green"`},
		{`allowed_teams: {a: b}`, `line 1, column 29: allowed_teams must be text or a list of texts, found a mapping`},
		{`allowed_teams: [` + strings.Repeat("a,", 101) + `]`, `line 1, column 29: allowed_teams must name at most 100 teams, found 101`},
		{`fields: {text: a}`, `line 1, column 22: fields must be a list of fields, found a mapping`},
		{`fields: [a]`, `line 1, column 23: a field must be a mapping with text or select, and a key, found the text "a"`},
		{`fields: [{key: a}]`, `line 1, column 23: a field must have one of the keys text and select`},
		{`fields: [{text: a, select: b, key: c}]`, `line 1, column 23: a field must have one of the keys text and select`},
		{`fields: [{text: a}]`, `line 1, column 23: a field must have a key, under which its value is kept`},
		{`fields: [{text: a, key: b, required: 1}]`, `line 1, column 51: field.required must be true or false, found 1`},
		{`fields: [{text: a, key: b, format: "(a"}]`, "line 1, column 49: field.format must be a regular expression: missing closing ): `(a`"},
		{`fields: [{text: a, key: b, format: "a)(b"}]`, "line 1, column 49: field.format must be a regular expression: unexpected ): `a)(b`"},
		{`fields: [{text: a, key: b, format: ` + strings.Repeat("x", 1001) + `}]`, `line 1, column 49: field.format must be at most 1000 bytes, found 1001`},
		{`fields: [{text: a, key: b, default: [c, d]}]`, `line 1, column 41: field.default must be one value unless multiple is true, found 2`},
		{`fields: [{select: a, key: b}]`, `line 1, column 23: a select field must have options`},
		{`fields: [{select: a, key: b, options: [c]}]`, `line 1, column 53: an option must be a mapping with label and value, found the text "c"`},
		{`fields: [{select: a, key: b, options: [{label: c}]}]`, `line 1, column 53: an option must have a label and a value`},
	} {
		refuses(t, "- {block: a, "+c.source+"}", c.want)
	}
}
