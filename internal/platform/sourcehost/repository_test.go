package sourcehost

import (
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://github.com/acme/hello.git":   "",
		"git@github.com:acme/hello.git":       "",
		"/srv/git/hello world.git":            "",
		"https://git.example.test/ünï/repo":   "",
		strings.Repeat("a", MaxURL):           "",
		"":                                    "must not be blank",
		" \t\n":                               "must not be blank",
		strings.Repeat("a", MaxURL+1):         "must be at most 2048 bytes long",
		"https://github.com/acme/he\x00llo":   "must not contain control characters",
		"https://github.com/acme/hello\n":     "must not contain control characters",
		"https://github.com/acme/hello\u0085": "must not contain control characters",
		"https://github.com/acme/\xff":        "must not contain control characters",
		"--upload-pack=touch /tmp/x":          "must not begin with a hyphen",
		"https://user:to/ken@host.test/hello": "is not a valid URL; write special characters in the user name and the password as %XX, such as %2F for a slash",
		"https://user:to%2Fken@host.test/x":   "",
	} {
		got := ""
		if err := CheckURL(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func TestParseRepository_ReadsEveryWayToWriteAURL(t *testing.T) {
	hello := Repository{Host: "github.com", Owner: "Acme", Name: "hello", Path: "Acme/hello"}
	for text, want := range map[string]Repository{
		"https://github.com/Acme/hello":                    hello,
		"https://github.com/Acme/hello.git":                hello,
		"https://github.com/Acme/hello.git/":               hello,
		"https://GitHub.com:443/Acme/hello.git":            hello,
		"https://user:token@github.com/Acme/hello.git":     hello,
		"http://www.github.com/Acme/hello":                 hello,
		"git://github.com/Acme/hello.git":                  hello,
		"ssh://git@github.com/Acme/hello.git":              hello,
		"ssh://git@ssh.github.com:443/Acme/hello.git":      hello,
		"git+ssh://git@github.com/Acme/hello.git":          hello,
		"git@github.com:Acme/hello.git":                    hello,
		"git@github.com:/Acme/hello.git":                   hello,
		"github.com:Acme/hello":                            hello,
		" git@github.com:Acme/hello.git ":                  hello,
		"git@github.com:Acme/hello.js.git":                 {"github.com", "Acme", "hello.js", "Acme/hello.js"},
		"https://gitlab.com/group/subgroup/project.git":    {"gitlab.com", "group/subgroup", "project", "group/subgroup/project"},
		"git@git.example.test:project.git":                 {"git.example.test", "", "project", "project"},
		"https://bitbucket.example.test/scm/PROJ/repo.git": {"bitbucket.example.test", "PROJ", "repo", "PROJ/repo"},
		"ssh://git@bitbucket.example.test:7999/PROJ/repo":  {"bitbucket.example.test", "PROJ", "repo", "PROJ/repo"},
		"https://git.example.test/scm/repo":                {"git.example.test", "scm", "repo", "scm/repo"},
		"https://[2001:db8::1]:8443/acme/hello":            {"2001:db8::1", "acme", "hello", "acme/hello"},
	} {
		got, err := ParseRepository(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestParseRepository_RefusesWhatLeadsToNoRepository(t *testing.T) {
	for _, text := range []string{
		"", " ", "hello", "/srv/git/hello.git", "./hello", "../a:b", "file:///srv/git/hello.git", "ftp://example.test/a/b",
		"https://", "https:///acme/hello", "https://github.com", "https://github.com/", "https://github.com/.git", "git@github.com:",
		"https://github.com/acme//hello", "https://github.com/acme/..", "https://github.com/%2e%2e/hello", "git@github.com:../hello",
		"https://github.com/acme/he\x00llo", "git@github.com:acme/he\nllo", "https://github.com/%zz", ":acme/hello", "@:acme",
		"https://github.com/" + strings.Repeat("a", MaxURL),
	} {
		if got, err := ParseRepository(text); err == nil {
			t.Errorf("%.60q gives %+v", text, got)
		}
	}
}

func TestSameRepository(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"https://github.com/Acme/Hello.git", "git@github.com:acme/hello", true},
		{"ssh://git@ssh.github.com:443/acme/hello.git", "https://www.github.com/acme/hello/", true},
		{"ssh://git@bitbucket.example.test:7999/proj/repo.git", "https://bitbucket.example.test/scm/PROJ/repo.git", true},
		{"https://gitlab.com/a/b/c", "git@gitlab.com:a/b/c.git", true},
		{"/srv/git/hello.git", "/srv/git/hello", true},
		{"https://github.com/acme/hello", "https://github.com/acme/hello2", false},
		{"https://github.com/acme/hello", "https://gitlab.com/acme/hello", false},
		{"https://github.com/acme/hello", "https://github.com/acme/hello/more", false},
	} {
		if got := SameRepository(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v, want %v (%q, %q)", c.a, c.b, got, c.want, Canonical(c.a), Canonical(c.b))
		}
	}
}

func TestCanonical_LetsPartsOfAURLBeFound(t *testing.T) {
	const stored = "git@github.com:Acme/Hello.git"
	for _, sought := range []string{
		"acme", "Acme/Hello", "hello.git", "github.com", "github.com/acme/hello", "https://github.com", "https://github.com/Acme/",
		"https://github.com/acme/hel", "git@github.com:acme/hello.git", "git@github.com:",
	} {
		if !strings.Contains(Canonical(stored), Canonical(sought)) {
			t.Errorf("%q (%q) is not found in %q", sought, Canonical(sought), Canonical(stored))
		}
	}
}

func FuzzRepository(f *testing.F) {
	for _, seed := range []string{"https://github.com/acme/hello.git", "git@github.com:acme/hello.git", "ssh://git@h:1/a/b/c", "/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ProviderOf(text)
		Canonical(text)
		repo, err := ParseRepository(text)
		if err != nil {
			return
		}
		if repo.Host == "" || repo.Name == "" || !strings.HasSuffix(repo.Path, repo.Name) || strings.Contains("/"+repo.Path+"/", "/../") {
			t.Fatalf("%q gives %+v", text, repo)
		}
	})
}

func TestHTTPURL(t *testing.T) {
	for given, want := range map[string]string{
		"https://robot:x@git.acme.test/app.git":       "https://robot:x@git.acme.test/app.git",
		"http://git.acme.test/app":                    "http://git.acme.test/app",
		"git@github.com:acme/app.git":                 "https://github.com/acme/app.git",
		"ssh://git@gitlab.acme.test:2222/a/b/app.git": "https://gitlab.acme.test/a/b/app.git",
		"ssh://git@bitbucket.acme.test:7999/acme/app": "https://bitbucket.acme.test/scm/acme/app.git",
		"git@git.acme.test:acme/app.git":              "", // nothing says where its https is
		"/srv/git/app.git":                            "",
		"file:///srv/git/app.git":                     "",
		"ext::sh -c id":                               "",
		"github.com:":                                 "",
	} {
		if got, ok := HTTPURL(given); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", given, got, ok)
		}
	}
}
