package definition

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	published "github.com/buildkite/interpolate"
)

// environment returns a lookup function for variables.
func environment(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}
}

var someVariables = map[string]string{"A": "abc", "EMPTY": "", "N": "3", "Ä1_": "ümlaut", "NESTED": "$A ${A} $$"}

func TestInterpolate_FillsInVariables(t *testing.T) {
	for text, want := range map[string]string{
		``:                           ``,
		`nothing`:                    `nothing`,
		`$A`:                         `abc`,
		`x$A-${A}x$A_`:               `xabc-abcx`,
		`$Ä1_`:                       `ümlaut`,
		`$UNSET ${UNSET}.`:           ` .`,
		`$NESTED`:                    `$A ${A} $$`,
		`${A:-x}${EMPTY:-x}`:         `abcx`,
		`${A-x}${EMPTY-x}${UNSET-x}`: `abcx`,
		`${UNSET:-}${UNSET-}`:        ``,
		`${UNSET:-$A ${N} x}`:        `abc 3 x`,
		`${UNSET:-${EMPTY:-${A}}}`:   `abc`,
		`${A:-${UNSET?unused}}`:      `abc`,
		`${A?x}${A:?x}${EMPTY?x}`:    `abcabc`,
		`${A:1}${A:0:2}${A:1:1}`:     `bcabb`,
		`${A: -2}${A: -2:1}${A:-1:}`: `bcbabc`,
		`${A:0:-1}${A:2:-2}${A:9}`:   `ab`,
		`${A: -9}${A:1:99}`:          `abcbc`,
		`${Ä1_:0:1}${Ä1_:1:2}`:       `üml`,
		`${UNSET:0:2}`:               ``,
		`${A:0:9223372036854775807}`: `abc`,
		`${A:1:9223372036854775807}`: `bc`,

		`$$A \$A $${A} \${A}`:     `$A $A ${A} ${A}`,
		`$$$A $$$$ \\$A \\\$A`:    `$abc $$ \\abc \\$A`,
		`a\b \ $ $5 $_X $( $A) $`: `a\b \ $ $5 $_X $( abc) $`,
		`${UNSET:-$$A\$A\\}`:      `$A$A\\`,
		`${UNSET:-$${A}}`:         `${A}`,
		`/^v\d+$$/ /a$/`:          `/^v\d+$/ /a$/`,
	} {
		budget := 1000
		got, err := interpolate(text, environment(someVariables), &budget)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestInterpolate_ReportsErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`${`, `"${" must be followed by the name of a variable, which begins with a letter; write "$${" for the characters themselves`},
		{`${1}`, `"${" must be followed by the name of a variable, which begins with a letter; write "$${" for the characters themselves`},
		{`${A`, `the brace of "${A" is never closed`},
		{`${A:-x`, `the brace of "${A" is never closed`},
		{`${A:1`, `the brace of "${A" is never closed`},
		{`${A[@]}`, `"${A" must be followed by "}" or by one of the operators - :- ? :? and :; write "$${" for the characters themselves`},
		{`${A:+x}`, `"${A:" must be followed by a whole number, or two with a colon between them; write "${A:-…}" for a default`},
		{`${A:1:x}`, `"${A:" must be followed by a whole number, or two with a colon between them; write "${A:-…}" for a default`},
		{`${UNSET?}`, `the variable UNSET is not set`},
		{`${UNSET?set it, $A}`, `the variable UNSET is not set: set it, abc`},
		{`${EMPTY:?}`, `the variable EMPTY is not set`},
		{`${UNSET:-${B?x}}`, `the variable B is not set: x`},
		{strings.Repeat("${A:-", 101), "variables are nested more than 100 deep"},
		{`$A$A$A$A`, errTooLong.Error()},
		{`${A:0:1}${A:0:1}${A:0:1}`, errTooLong.Error()},
	} {
		budget := 10
		if strings.Contains(c.text, "set it") {
			budget = 100
		}
		_, err := interpolate(c.text, environment(someVariables), &budget)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestInterpolate_TakesTimeThatGrowsWithTheText(t *testing.T) {
	budget := maxText
	text := strings.Repeat("$${A:-", 100_000)
	got, err := interpolate(text, environment(nil), &budget)
	if err != nil || len(got) != len(text)-100_000 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// FuzzInterpolate compares the result with that of the published library where the two are comparable.
func FuzzInterpolate(f *testing.F) {
	for _, seed := range []string{
		`$A ${A} ${UNSET:-$N} ${EMPTY-x} ${A?y} ${A:1:2}`, `$$A \$A \\$A $${A} ${UNSET:-$$}`, `${A: -1}`, `${`, `${A:`, `$`, `\`, `$(`,
		`${UNSET?no}`, `${A:?x}`, `${A:9:9}`, `${A:-${UNSET-${N}}}`, "\xff$A", `$Ä1_ ${Ä1_:1}`, `${A:0:9223372036854775807}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		budget := maxText
		got, err := interpolate(text, environment(someVariables), &budget)
		found, scanErr := scanVariables(text)
		if scanErr != nil && err == nil {
			t.Fatalf("%q is wrong, and still became %q: %v", text, got, scanErr)
		}
		if err == nil && !found && strings.Contains(got, "abc") && !strings.Contains(text, "abc") {
			t.Fatalf("%q has no variable and became %q", text, got)
		}
		if incomparable(text) {
			return
		}
		want, wantErr := published.Interpolate(published.NewMapEnv(someVariables), text)
		if (err == nil) != (wantErr == nil) || err == nil && got != want {
			t.Fatalf("%q became %q, %v; the published library makes it %q, %v", text, got, err, want, wantErr)
		}
	})
}

// long matches numbers with which the published library may panic.
var long = regexp.MustCompile(`\d{9}`)

// incomparable reports whether the published library hangs, panics or differs for a text: it slices bytes
// instead of characters, replaces invalid UTF-8, has no :? and no limits.
func incomparable(text string) bool {
	escapes := strings.Count(text, "$$") + strings.Count(text, `\$`)
	return escapes > 5 || strings.Count(text, "${") > maxDepth || long.MatchString(text) || !utf8.ValidString(text) ||
		strings.Contains(text, "Ä1_:") || strings.Contains(text, ":?")
}
