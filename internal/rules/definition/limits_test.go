package definition

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse_BoundsTheSource(t *testing.T) {
	comment := "# " + strings.Repeat("x", maxSource)
	refuses(t, comment, "line 1, column 1: the definition is larger than 1048576 bytes")
}

func TestParse_BoundsTheDepth(t *testing.T) {
	nested := func(n int) string {
		return "steps: [wait]\nx: " + strings.Repeat("[", n) + strings.Repeat("]", n)
	}
	parse(t, nested(maxDepth-1))
	refuses(t, nested(maxDepth), "line 2, column 103: lists and mappings are nested more than 100 deep")
	refuses(t, nested(20_000), "line 2, column 1: not valid YAML: lists and mappings are nested too deep")
}

func TestParse_BoundsTheDepthThatAliasesAddUpTo(t *testing.T) {
	refuses(t, "a: &a "+strings.Repeat("[", 60)+strings.Repeat("]", 60)+
		"\nb: &b "+strings.Repeat("[", 60)+"*a"+strings.Repeat("]", 60)+
		"\nsteps: [{command: x, cache: *b}]",
		"line 1, column 47: lists and mappings are nested more than 100 deep once aliases are expanded")
}

// laughs returns a short source with 10 to the power of n values.
func laughs(n int, use string) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {k0: v}\n")
	for i := range n {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return b.String() + strings.ReplaceAll(use, "TOP", fmt.Sprintf("a%d", n))
}

// merges returns a source of n mappings, each of which merges the previous one several times.
func merges(n, times, keys int) string {
	var b strings.Builder
	b.WriteString("a0: &a0\n")
	for i := range keys {
		fmt.Fprintf(&b, "  k%d: v\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "a%d: &a%d {<<: [%s]}\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), times))
	}
	fmt.Fprintf(&b, "steps: [{command: x, env: {<<: *a%d}}]", n)
	return b.String()
}

func TestParse_BoundsWhatAliasesExpandTo(t *testing.T) {
	for name, source := range map[string]string{
		"an attribute":           laughs(12, "steps: [{command: x, cache: *TOP}]"),
		"plugins":                laughs(12, "steps: [{command: x, plugins: [{p: *TOP}]}]"),
		"an unknown key":         laughs(12, "steps: [{command: x, unknown: *TOP}]"),
		"notifications":          laughs(12, "notify: *TOP\nsteps: [wait]"),
		"merges of merges":       merges(20, 3, 1),
		"a long chain of merges": merges(5_000, 1, 5_000),
	} {
		_, err := Parse([]byte(source))
		if err == nil || !strings.Contains(err.Error(), "the definition has more than 200000 keys and values once its aliases are expanded") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParse_LeavesAliasesInFreeKeysAlone(t *testing.T) {
	parse(t, laughs(12, "steps: [wait]"))
}

func TestParse_BoundsTheTextThatAliasesExpandTo(t *testing.T) {
	source := "a: &a " + strings.Repeat("x", 500_000) + "\nsteps: [{command: x, cache: [" + strings.Repeat("*a,", 20) + "]}]"
	refuses(t, source, "line 2, column 78: the definition has more than 8388608 bytes of text once its aliases are expanded")
}

func TestParse_BoundsTheFormats(t *testing.T) {
	field := "  - {text: a, key: b, format: " + strings.Repeat("x", 1000) + "}\n"
	parse(t, "- block: a\n  fields:\n"+strings.Repeat(field, 20))
	refuses(t, "- block: a\n  fields:\n"+strings.Repeat(field, 21),
		"line 23, column 31: the formats of all fields together have more than 20000 bytes")
}

func TestParse_RefusesAnAliasInsideItsAnchor(t *testing.T) {
	refuses(t, "steps: &a [wait, *a]", "line 1, column 18: the alias *a stands inside its own anchor")
	refuses(t, "x: &x\n  y: &y [*x]\nsteps: [wait]", "line 2, column 10: the alias *x stands inside its own anchor")
	refuses(t, "steps:\n- &a {command: x, <<: *a}", "line 2, column 23: the alias *a stands inside its own anchor")
}

func TestParse_BoundsTheJobs(t *testing.T) {
	const tooMany = "with this step the build has more than 4000 jobs"
	fits := []string{
		strings.Repeat("- wait\n", 4000),
		"- {command: x, parallelism: 4000}",
		"- {command: x, matrix: {setup: {a: [" + strings.Repeat("1,", 40) + "], b: [" + strings.Repeat("1,", 100) + "]}}}",
	}
	for _, source := range fits {
		parse(t, source)
		_, err := Parse([]byte(source + "\n- wait\n"))
		if err == nil || !strings.HasSuffix(err.Error(), tooMany) {
			t.Errorf("one job more than %.40q: %v", source, err)
		}
	}
	dimension := "[" + strings.Repeat("1,", 1000) + "]"
	for source, want := range map[string]string{
		"- {command: x, parallelism: 4000}\n- {trigger: a, parallelism: 0}":   "line 2, column 3: " + tooMany,
		"- group: a\n  steps:\n  - wait\n  - {command: x, parallelism: 4000}": "line 4, column 5: " + tooMany,
		"- {command: x, matrix: {setup: {a: " + dimension + ", b: " + dimension + ", c: " + dimension + ", d: " + dimension + ", e: " + dimension + ", f: " + dimension + ", g: " + dimension + "}}}": "line 1, column 3: " + tooMany,
		"- {command: x, parallelism: 3998}\n- {command: x, matrix: {setup: [a, b], adjustments: [{with: b}, {with: c}, {with: c}]}}":                                                                  "line 2, column 3: " + tooMany,
	} {
		refuses(t, source, want)
	}
}

func TestParse_ReportsABoundedNumberOfProblems(t *testing.T) {
	_, err := Parse([]byte(strings.Repeat("- bad\n", 1000)))
	problems, _ := err.(Errors)
	equal(t, "problems", len(problems), maxProblems)

	p := parse(t, strings.Repeat("- {wait: ~, bad: 1}\n", 1000))
	equal(t, "warnings", len(p.Warnings), maxProblems)
}

func TestParse_RefusesDuplicateKeysEverywhere(t *testing.T) {
	refuses(t, "free: {a: 1, a: 2}\nsteps:\n- command: x\n  label: y\n  command: z\n- {wait: ~, 1: a, \"1\": b}",
		`line 1, column 14: the key "a" is already defined on line 1`,
		`line 5, column 3: the key "command" is already defined on line 3`,
		`line 6, column 19: the key "1" is already defined on line 6`)
	refuses(t, "a: &a {x: 1}\nsteps:\n- command: x\n  <<: *a\n  <<: *a",
		`line 5, column 3: << stands twice in this mapping; merge several with a list: "<<: [*one, *two]"`)
}

func TestParse_RefusesKeysThatAreNotText(t *testing.T) {
	refuses(t, "? [a]\n: b\nsteps: [wait]", "line 1, column 3: a key must be text, found a list")
}

func TestParse_RefusesMergesOfOtherThings(t *testing.T) {
	refuses(t, "- {command: x, <<: 5}", "line 1, column 20: << merges a mapping or a list of mappings, found 5")
	refuses(t, "- {command: x, <<: [5]}", "line 1, column 21: << merges mappings, found 5")
}

func TestParse_RefusesCharactersThatCannotBeKept(t *testing.T) {
	refuses(t, "steps:\n- \xff", "line 2, column 3: this is not valid UTF-8")
	refuses(t, "steps:\n- é\x00", "line 2, column 4: the character U+0000 cannot stand in YAML; inside double quotes it can be written as an escape")
	refuses(t, "steps:\n- \x1b", "line 2, column 3: the character U+001B cannot stand in YAML; inside double quotes it can be written as an escape")
	refuses(t, `- {command: "a\0b"}`, "line 1, column 13: the text contains the character U+0000, which cannot be stored")
}

func TestParse_RefusesASecondDocument(t *testing.T) {
	refuses(t, "steps: [wait]\n---\nsteps: [wait]", "line 2, column 1: a second document begins here; a definition is one document")
	parse(t, "---\nsteps: [wait]\n...\n")
}

func TestParse_ReportsTheLineOfASyntaxError(t *testing.T) {
	for source, want := range map[string]string{
		"steps:\n  - command: x\n   bad: y\n":             `line 3, column 4: not valid YAML: a list item beginning with "-" was expected on this line; check its indentation against the lines above`,
		"a: 1\nsteps:\n  - env:\n      A: 1\n     B: 2\n": `line 5, column 6: not valid YAML: a key was expected on this line; check its indentation against the lines above`,
		"steps:\n  - a: [1, 2\n  - d\n":                   `line 3, column 3: not valid YAML: a list in brackets is still open on this line; "," or "]" was expected`,
		"steps:\n  - a: {b\n  - d\n":                      `line 3, column 3: not valid YAML: a mapping in braces is still open on this line; "," or "}" was expected`,
		"steps:\n  - command: \"x\n\n\n":                  "line 2, column 3: not valid YAML: the quotes that open on this line are never closed",
		"steps:\n\t- command: x\n":                        "line 2, column 2: not valid YAML: a value on this line begins with a character that cannot begin one; indent with spaces instead of tabs, and quote text that begins with @ or `",
		"steps:\n  - command: echo a: b\n":                `line 2, column 3: not valid YAML: a value after ":" cannot stand where this line has it; quote the text if the colon belongs to it, or check the indentation`,
		"steps:\n  - label: x\n  foo\n  - bar: y\n":       `line 3, column 3: not valid YAML: ":" was expected after the key on this line`,
		"steps:\n  - \"\\q\"\n":                           `line 2, column 3: not valid YAML: there is no such escape in double quotes as this line has; write "\\" for a backslash, or use single quotes`,
		"steps:\n  - command: x\n    <<: *foo\n":          "line 3, column 9: the alias *foo has no anchor &foo above it",
		"steps: [wait]\n---\na: [1":                       `line 3, column 1: not valid YAML: a list in brackets is still open on this line; "," or "]" was expected`,
		"steps: [wait]\nx: !a!b c":                        "line 2, column 1: not valid YAML: a tag on this line is not defined",
		"[wait":                                           `line 1, column 1: not valid YAML: a list in brackets is still open on this line; "," or "]" was expected`,
	} {
		refuses(t, source, want)
	}
}
