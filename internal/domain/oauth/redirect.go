package oauth

import (
	"net/url"
	"slices"
	"strings"
)

const (
	maxRedirectURIs = 20
	maxRedirectURI  = 2000
)

// loopback lists the hosts of the user's own machine.
var loopback = []string{"127.0.0.1", "::1", "localhost"}

// validRedirectURI reports whether an application can register a redirect URI: https anywhere, or http on
// loopback, without fragment and credentials.
func validRedirectURI(uri string) bool {
	u, ok := parseRedirectURI(uri)
	return ok && (u.Scheme == "https" || isLoopback(u))
}

func parseRedirectURI(uri string) (*url.URL, bool) {
	u, err := url.Parse(uri)
	ok := err == nil && len(uri) <= maxRedirectURI && u.Hostname() != "" && u.User == nil && u.Opaque == "" &&
		!strings.Contains(uri, "#") && !strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' })
	return u, ok
}

func isLoopback(u *url.URL) bool {
	return u.Scheme == "http" && slices.Contains(loopback, u.Hostname())
}

// redirectsTo reports whether the application can redirect to a URI. A registered URI must match exactly,
// except that loopback allows any port, because programs listen on a free one. Without registered URIs, any
// loopback URI is allowed and nothing else.
func (a Application) redirectsTo(uri string) bool {
	u, ok := parseRedirectURI(uri)
	if !ok {
		return false
	}
	if len(a.RedirectURIs) == 0 {
		return isLoopback(u)
	}
	return slices.ContainsFunc(a.RedirectURIs, func(known string) bool {
		if known == uri {
			return true
		}
		k, ok := parseRedirectURI(known)
		return ok && isLoopback(k) && isLoopback(u) && withoutPort(k) == withoutPort(u)
	})
}

// withoutPort returns a loopback URI without its port.
func withoutPort(u *url.URL) string {
	bare := *u
	bare.Host = u.Hostname()
	return bare.String()
}

// sendBack returns the redirect URI with added parameters.
func sendBack(redirectURI string, add url.Values) string {
	u, err := url.Parse(redirectURI)
	if err != nil {
		panic(err) // already validated
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += add.Encode()
	return u.String()
}
