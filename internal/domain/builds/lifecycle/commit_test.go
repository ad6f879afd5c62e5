package lifecycle

import (
	"strings"
	"testing"
	"unicode/utf8"

	"stackyard/internal/domain/builds"
)

func TestReadCommit(t *testing.T) {
	const full = "0123456789abcdef0123456789abcdef01234567"
	long := full + full[:24]
	for name, c := range map[string]struct {
		text string
		want Commit
	}{
		"whole":            {"commit " + full + "\nabbrev-commit 0123\nAuthor: A B <a@b.test>\n\n    One\n    \n    Two\n", Commit{full, builds.Author{Name: "A B", Email: "a@b.test"}, "One\n\nTwo"}},
		"line ends":        {"commit " + full + "\r\nAuthor: A <a>\r\n\r\n    One\r\n", Commit{full, builds.Author{Name: "A", Email: "a"}, "One"}},
		"sha256":           {"commit " + long, Commit{SHA: long}},
		"no mail":          {"Author: A B\n\n    x", Commit{Author: builds.Author{Name: "A B"}, Message: "x"}},
		"mail alone":       {"Author: <a@b.test>", Commit{Author: builds.Author{Email: "a@b.test"}}},
		"deeper":           {"\n\n    list:\n      - one", Commit{Message: "list:\n  - one"}},
		"short SHA":        {"commit 0123", Commit{}},
		"upper case":       {"commit " + strings.ToUpper(full), Commit{}},
		"author in a text": {"commit " + full + "\n\n    Author: C <c>", Commit{SHA: full, Message: "Author: C <c>"}},
	} {
		if got := readCommit(c.text); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func FuzzReadCommit(f *testing.F) {
	f.Add("commit 0123456789abcdef0123456789abcdef01234567\nAuthor: A B <a@b.test>\n\n    One\n")
	f.Add("Author: <<>>\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		c := readCommit(text)
		if c.SHA != "" && !sha.MatchString(c.SHA) {
			t.Errorf("the SHA is %q", c.SHA)
		}
		for what, got := range map[string]struct {
			text string
			most int
		}{
			"message": {c.Message, MaxMessage}, "name": {c.Author.Name, MaxName}, "mail": {c.Author.Email, MaxName},
		} {
			if !utf8.ValidString(got.text) || utf8.RuneCountInString(got.text) > got.most {
				t.Errorf("%s: %q", what, got.text)
			}
		}
	})
}
