package checkout

import (
	"net/url"
	"strings"
)

// Credentials returns the secrets in a repository URL, as written and decoded: the password, or for http and
// https a user name without password, which is a token.
func Credentials(repository string) []string {
	u, err := url.Parse(repository)
	if err != nil || u.User == nil {
		return nil
	}
	_, rest, _ := strings.Cut(repository, "://")
	written, _, _ := strings.Cut(rest, "@")
	if password, ok := u.User.Password(); ok {
		_, written, _ = strings.Cut(written, ":")
		return []string{password, written}
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		return []string{u.User.Username(), written}
	}
	return nil
}
