package sourcehost

import "testing"

func TestProviderOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.com/acme/hello.git":                "github",
		"git@github.com:acme/hello.git":                    "github",
		"ssh://git@ssh.github.com:443/acme/hello.git":      "github",
		"git://GITHUB.com/acme/hello":                      "github",
		"https://github.example.test/acme/hello":           "github_enterprise",
		"https://gitlab.com/acme/hello":                    "gitlab",
		"git@gitlab.example.test:acme/sub/hello.git":       "gitlab_ee",
		"https://bitbucket.org/acme/hello":                 "bitbucket",
		"ssh://git@bitbucket.example.test:7999/acme/hello": "bitbucket_server",
		"https://stash.example.test/scm/acme/hello.git":    "bitbucket_server",
		"https://gitea.com/acme/hello":                     "gitea",
		"https://gitea.example.test/acme/hello":            "gitea",
		"https://codeberg.org/acme/hello":                  "gitea",
		"https://git.example.test/acme/hello.git":          "git",
		"https://mygithub.com/acme/hello":                  "git",
		"https://example.test/github.com/hello":            "git",
		"https://github.com@example.test/acme/hello":       "git",
		"/srv/git/github.com/hello.git":                    "git",
		"file:///srv/git/hello.git":                        "git",
		"":                                                 "git",
	} {
		if got := ProviderOf(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
