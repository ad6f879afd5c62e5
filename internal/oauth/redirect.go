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

// loopback are the hosts that mean the user's own machine.
var loopback = []string{"127.0.0.1", "::1", "localhost"}

// validRedirectURI reports whether an application may have a redirect URI: https anywhere, or http on
// the user's own machine, without fragment and credentials.
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

// redirectsTo reports whether the application may have browsers sent back to a URI. One that it has
// registered must be the same, character by character, except that on the user's own machine any port
// will do: the program listens on whichever was free. An application that has registered none may have
// them sent to any path there, and nowhere else.
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

// withoutPort returns a URI on the user's own machine, with its port left out.
func withoutPort(u *url.URL) string {
	bare := *u
	bare.Host = u.Hostname()
	return bare.String()
}

// sendBack returns where to send a browser: the redirect URI with parameters added.
func sendBack(redirectURI string, add url.Values) string {
	u, err := url.Parse(redirectURI)
	if err != nil {
		panic(err) // it was checked
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += add.Encode()
	return u.String()
}
