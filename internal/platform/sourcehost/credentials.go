package sourcehost

import (
	"net/url"
	"strings"
)

// WithoutCredentials returns a repository URL that can be shown: without user names and passwords, and for http
// and https without query and fragment, which can contain a token. SSH keeps the login name: it is no secret,
// and the URL does not work without it.
//
// It works on text, so that it also finds credentials in invalid URLs, and in URLs after the name of a
// transport helper, for example "https::https://user:password@host/path".
func WithoutCredentials(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return withoutPassword(text)
	}
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	name := strings.ToLower(scheme[strings.LastIndexByte(scheme, ':')+1:])
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, _ := strings.Cut(authority[:at], ":")
		authority = authority[at+1:]
		if strings.Contains(name, "ssh") && user != "" {
			authority = user + "@" + authority
		}
	}
	if name == "http" || name == "https" {
		if end := strings.IndexAny(path, "?#"); end >= 0 {
			path = path[:end]
		}
	}
	return scheme + "://" + authority + path
}

// unreadableCredentials reports whether a URL seems to have credentials whose end cannot be determined.
func unreadableCredentials(text string) bool {
	if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") || !strings.Contains(text, "@") {
		return false
	}
	_, err := url.Parse(text)
	return err != nil
}

// withoutPassword removes the password of user:password@host, which Git does not support but people write.
func withoutPassword(text string) string {
	host, path := text, ""
	if end := strings.IndexByte(text, '/'); end >= 0 {
		host, path = text[:end], text[end:]
	}
	colon, at := strings.IndexByte(host, ':'), strings.IndexByte(host, '@')
	if colon < 0 || at < colon {
		return text
	}
	return host[:colon] + host[at:] + path
}
