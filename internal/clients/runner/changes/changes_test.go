package changes

import (
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	type list = []any
	for name, c := range map[string]struct {
		value any
		files string
		want  bool
	}{
		"file":                      {"README.md", "README.md", true},
		"other file":                {"README.md", "docs/README.md", false},
		"star":                      {"*.go", "main.go", true},
		"star in a folder":          {"*.go", "cmd/main.go", false},
		"two stars":                 {"**.go", "cmd/app/main.go", true},
		"two stars at the root":     {"**.go", "main.go", true},
		"folder":                    {"docs/**", "docs/a/b.md", true},
		"folder of a similar name":  {"docs/**", "docs2/a.md", false},
		"folder itself":             {"docs/**", "docs", false},
		"anywhere":                  {"**/go.mod", "a/b/go.mod", true},
		"anywhere, at the root":     {"**/go.mod", "go.mod", true},
		"anywhere, other name":      {"**/go.mod", "a/ago.mod", false},
		"between":                   {"a/**/z", "a/z", true},
		"between, deep":             {"a/**/z", "a/b/c/z", true},
		"between, extension":        {"internal/**.py", "internal/a/b.py", true},
		"question mark":             {"v?.txt", "v1.txt", true},
		"question mark is no slash": {"a?b", "a/b", false},
		"class":                     {"v[0-9].txt", "v7.txt", true},
		"class, not":                {"v[!0-9].txt", "v7.txt", false},
		"class with a bracket":      {"v[]x].txt", "v].txt", true},
		"braces":                    {"go.{mod,sum}", "go.sum", true},
		"braces with a space":       {"go.{mod, sum}", "go.sum", false},
		"braces in braces":          {"{**.go,go.{mod,sum}}", "go.mod", true},
		"commas":                    {"**.go,go.mod,fixtures/**", "fixtures/a.json", true},
		"dots are plain":            {"a.b", "axb", false},
		"escape":                    {`a\*b`, "a*b", true},
		"escape, other":             {`a\*b`, "axb", false},
		"unicode":                   {"tée/*", "tée/ü", true},
		"current folder":            {"./a/**", "a/b", true},
		"case":                      {"readme.md", "README.md", false},
		"one of the files":          {"docs/**", "main.go docs/a", true},
		"no file":                   {"**", "", false},
		"list":                      {list{"app/**", "spec/**"}, "spec/a", true},
		"list, none":                {list{"app/**", "spec/**"}, "lib/a", false},
		"include":                   {map[string]any{"include": "spec/**"}, "spec/a", true},
		"exclude":                   {map[string]any{"include": "spec/**", "exclude": "spec/slow/**"}, "spec/slow/a", false},
		"exclude one file only":     {map[string]any{"include": list{"api/**", "internal/**"}, "exclude": list{"api/docs/**", "internal/**.py"}}, "internal/a.py api/a", true},
	} {
		condition, err := Parse(c.value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := condition.Match(strings.Fields(c.files)); got != c.want {
			t.Errorf("%s: %v on %q is %t", name, c.value, c.files, got)
		}
	}
}

func TestParse_RefusesWhatIsWrong(t *testing.T) {
	for want, value := range map[string]any{
		"must be a pattern":        7,
		"or a list of patterns":    []any{"a", 7},
		"such as docs/**":          "",
		`{ without }`:              "go.{mod,sum",
		`[ without ]`:              "v[0-9",
		"at most 2000 bytes":       strings.Repeat("a", 2001),
		"more than 10 deep":        strings.Repeat("{", 11) + strings.Repeat("}", 11),
		"it can have include":      map[string]any{"include": "a", "only": "b"},
		"if_changed needs include": map[string]any{"exclude": "a"},
		"exclude of if_changed":    map[string]any{"include": "a", "exclude": 7},
		"at most 200 are possible": slices.Repeat([]any{"a"}, 201),
		`"v[z-a]" is not valid`:    "v[z-a]",
	} {
		if _, err := Parse(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", value, err, want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"**.go", "{a,b{c,d}}", "[!a-z]", `\`, "a,b", "[]"} {
		f.Add(seed, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, pattern, file string) {
		if c, err := Parse(pattern); err == nil {
			c.Match([]string{file})
		}
	})
}
