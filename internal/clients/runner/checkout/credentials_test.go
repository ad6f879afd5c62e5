package checkout

import (
	"slices"
	"testing"
)

func TestCredentials(t *testing.T) {
	for repository, want := range map[string][]string{
		"https://git.example.test/acme/hello.git":               nil,
		"git@git.example.test:acme/hello.git":                   nil,
		"ssh://git@git.example.test/acme/hello.git":             nil,
		"ssh://git:hunter2@git.example.test/acme/hello.git":     {"hunter2", "hunter2"},
		"https://ci:hunter%2F2@git.example.test/acme/hello.git": {"hunter/2", "hunter%2F2"},
		"https://t%6Fken@git.example.test/acme/hello.git":       {"token", "t%6Fken"},
		"https://ci:@git.example.test/acme/hello.git":           {"", ""},
		"https://%zz@git.example.test/":                         nil,
		"/srv/git/hello.git":                                    nil,
	} {
		if got := Credentials(repository); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", repository, got, want)
		}
	}
}
