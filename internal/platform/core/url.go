package core

import (
	"net/url"
	"strings"
)

// PublicURL is the base of every URL in a response: scheme, host and any path prefix, without a trailing slash.
type PublicURL string

// To returns the absolute URL of a path given by its segments, each escaped.
func (p PublicURL) To(segments ...string) string {
	var b strings.Builder
	b.WriteString(string(p))
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// Org returns the API URL of a path in an organization.
func (p PublicURL) Org(slug string, segments ...string) string {
	return p.To(append([]string{"v2", "organizations", slug}, segments...)...)
}

// Host returns the host and port, or "" for an empty URL.
func (p PublicURL) Host() string {
	u, err := url.Parse(string(p))
	if err != nil {
		return ""
	}
	return u.Host
}
