package core

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTime_WritesMillisecondsInUTC(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	got, err := json.Marshal(At(time.Date(2026, 1, 2, 5, 4, 5, 678_900_000, zone)))
	if err != nil || string(got) != `"2026-01-02T03:04:05.678Z"` {
		t.Fatalf("got %s, %v", got, err)
	}
	if got, _ := json.Marshal(Time{}); string(got) != "null" {
		t.Fatalf("the zero time is %s, want null", got)
	}
}

func TestParseID_KnowsOnlyHyphenatedUUIDs(t *testing.T) {
	id := NewID()
	if got, ok := ParseID(strings.ToUpper(id)); !ok || got != id {
		t.Fatalf("ParseID of upper case: %q, %v", got, ok)
	}
	for _, bad := range []string{"", "x", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + "0"} {
		if _, ok := ParseID(bad); ok {
			t.Errorf("ParseID accepts %q", bad)
		}
	}
}

func TestSlugify(t *testing.T) {
	for name, want := range map[string]string{
		"My Pipeline":                  "my-pipeline",
		"  My   big  Pipeline  ":       "my-big-pipeline",
		"a_b.c/d":                      "a-b-c-d",
		"Déjà vu":                      "deja-vu",
		"Über Pipe":                    "uber-pipe",
		"ŁÓDŹ":                         "lodz",
		"Straße, Ærø & Þór":            "strasse-aero-thor",
		"İstanbul ışık":                "istanbul-isik",
		"e\u0301te\u0301":              "ete",
		"Ｆｕｌｌ ﬁ":                       "full-fi",
		"日本語":                          "",
		"日本 CI":                        "ci",
		"-x-":                          "x",
		"!!!":                          "",
		strings.Repeat("a", 150):       strings.Repeat("a", 100),
		strings.Repeat("a", 99) + " b": strings.Repeat("a", 99),
	} {
		if got := Slugify(name); got != want {
			t.Errorf("Slugify(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestFreeSlug(t *testing.T) {
	long := strings.Repeat("a", 150)
	for _, c := range []struct{ name, taken, want string }{
		{"Hello", "", "hello"},
		{"Hello", "hello", "hello"}, // the names are too similar
		{"日本語", "", "thing-2f84e39f1d20"},
		{long, "", strings.Repeat("a", 100)},
		{long, strings.Repeat("a", 100), strings.Repeat("a", 98) + "-2"},
		{long, strings.Repeat("a", 100) + " " + strings.Repeat("a", 98) + "-2", strings.Repeat("a", 98) + "-3"},
		{strings.Repeat("a", 97) + " bc def", strings.Repeat("a", 97) + "-bc", strings.Repeat("a", 97) + "-2"},
	} {
		taken := strings.Fields(c.taken)
		got := FreeSlug("thing", c.name, "0190c0de-0000-7000-8000-2f84e39f1d20", func(slug string) bool { return slices.Contains(taken, slug) })
		if got != c.want || !ValidSlug(got) {
			t.Errorf("%.20q: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBranchFilter(t *testing.T) {
	for _, c := range []struct {
		filter, branch string
		want           bool
	}{
		{"", "main", true},
		{"  ", "main", true},
		{"*", "main", true},
		{"main", "main", true},
		{"main", "main2", false},
		{"feature/*", "feature/x", true},
		{"feature/*", "features", false},
		{"*-release", "v1-release", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"a*a", "a", false},
		{"**", "anything", true},
		{"!main", "dev", true},
		{"!main", "main", false},
		{"main dev", "dev", true},
		{"* !wip-*", "wip-1", false},
		{"* !wip-*", "ok", true},
	} {
		if got := BranchFilter(c.filter).Match(c.branch); got != c.want {
			t.Errorf("%q on %q: %v, want %v", c.filter, c.branch, got, c.want)
		}
	}
}

func FuzzSlug(f *testing.F) {
	f.Add("My Pipeline")
	f.Add("ÜBER--x")
	f.Fuzz(func(t *testing.T, name string) {
		slug := Slugify(name)
		if slug != "" && !ValidSlug(slug) {
			t.Fatalf("Slugify(%q) = %q is not a valid slug", name, slug)
		}
		if again := Slugify(slug); again != slug {
			t.Fatalf("Slugify is not stable: %q, then %q", slug, again)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(Cursor{"2026", "id"}.String(), "a", "b")
	f.Fuzz(func(t *testing.T, stranger, a, b string) {
		if c, err := ParseCursor(stranger, 2); err == nil && len(c) != 2 {
			t.Fatalf("%q gives %d parts", stranger, len(c))
		}
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		c, err := ParseCursor(Cursor{a, b}.String(), 2)
		if strings.ContainsRune(a+b, 0) { // no database can store it, so no sort key contains it
			if err == nil {
				t.Fatalf("a cursor with U+0000 in %q, %q is accepted", a, b)
			}
			return
		}
		if err != nil || c[0] != a || c[1] != b {
			t.Fatalf("a cursor of %q, %q reads back as %q, %v", a, b, c, err)
		}
	})
}

// The filter is compared with equivalent regular expressions, which are slower.
func FuzzBranchFilter(f *testing.F) {
	f.Add("main !x*", "main")
	f.Add("a*b*c", "aXbYc")
	f.Fuzz(func(t *testing.T, filter, branch string) {
		if !utf8.ValidString(filter) || !utf8.ValidString(branch) {
			return
		}
		positive, matched, refused := false, false, false
		for _, pattern := range strings.Fields(filter) {
			pattern, negative := strings.CutPrefix(pattern, "!")
			parts := strings.Split(pattern, "*")
			for i, part := range parts {
				parts[i] = regexp.QuoteMeta(part)
			}
			matches := regexp.MustCompile(`(?s)\A` + strings.Join(parts, `.*`) + `\z`).MatchString(branch)
			if negative {
				refused = refused || matches
			} else {
				positive, matched = true, matched || matches
			}
		}
		want := !refused && (matched || !positive)
		if got := BranchFilter(filter).Match(branch); got != want {
			t.Fatalf("%q on %q: %v, want %v", filter, branch, got, want)
		}
	})
}

func TestValidBranch_IsWhatGitTakes(t *testing.T) {
	for _, name := range []string{"main", "feature/x", "v1.2", "a@b", "größe", "x-", "a.lock.b", "A_B+c=d,e", strings.Repeat("a", MaxBranch)} {
		if !ValidBranch(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{
		"", "@", "HEAD", "-x", ".x", "x.", "a..b", "a/.b", "a.lock", "a.lock/b", "/a", "a/", "a//b",
		"a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", `a\b`, "a@{b", "a\tb", "a\x7fb", strings.Repeat("a", MaxBranch+1),
	} {
		if ValidBranch(name) {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestParseTime_ReadsISO8601WithAZone(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, text := range []string{
		"2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T08:34:05+05:30", "2026-01-02T08:34:05+0530", "2026-01-01T22:04:05-05",
		"2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05,0Z", "20260102T030405Z", "20260102T083405+0530",
	} {
		if got, ok := ParseTime(text); !ok || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	if got, ok := ParseTime("2026-01-02T03:04Z"); !ok || !got.Equal(want.Truncate(time.Minute)) {
		t.Errorf("without seconds: %v, %v", got, ok)
	}
	for _, text := range []string{"", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05Z ", "2026-01-02T03:04:05+99:00", "1767323045"} {
		if got, ok := ParseTime(text); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
