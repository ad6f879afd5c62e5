package connections_test

import (
	"strings"
	"testing"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
)

func TestApply_SealsTokensAndChangesOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		connections := func(spec string) string {
			return "organizations:\n  - slug: acme\n    source_connections:\n      - {" + spec + "}\n"
		}
		apply := func(spec string) []string { return s.Apply(connections(spec)) }
		servertest.WantEqual(t, "applied", strings.Join(apply("host: github.com, token: ghs_one"), "\n"), "created source_connection acme/github.com")
		servertest.WantEqual(t, "applied", strings.Join(apply("host: github.com, token: ghs_one"), "\n"), "")
		servertest.WantEqual(t, "applied", strings.Join(apply("host: github.com"), "\n"), "")
		servertest.WantEqual(t, "applied", strings.Join(apply("host: github.com, token: ghs_two"), "\n"), "changed source_connection acme/github.com")
		servertest.WantEqual(t, "applied", strings.Join(apply("host: github.com, api_url: 'https://api.example.test'"), "\n"), "changed source_connection acme/github.com")
		servertest.WantEqual(t, "applied", strings.Join(apply("host: code.example.test, provider: github, token: x"), "\n"), "created source_connection acme/code.example.test")
		for spec, want := range map[string]string{
			"host: git.example.test":                                 "line 4: source connection git.example.test: token is required",
			"host: 'https://github.com', token: x":                   "line 4: the host of a source connection must be a name",
			"host: GitHub.com, token: x":                             "line 4: the host of a source connection must be a name",
			"token: x":                                               "line 4: the host of a source connection must be a name",
			"host: github.com, provider: svn":                        "line 4: source connection github.com: provider must be one of github, github_enterprise",
			"host: github.com, api_url: 'ftp://x'":                   "line 4: source connection github.com: api_url must be a URL",
			"host: github.com, api_url: 'https://a:b@x'":             "line 4: source connection github.com: api_url must be a URL",
			"host: github.com, token: x}\n      - {host: github.com": "line 5: the source connection",
		} {
			_, err := orgfile.Apply(t.Context(), s.DB, s.Key, s.Clock.Now, []byte(connections(spec)))
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", spec, err, want)
			}
		}
	})
}
