// Package account is what belongs to a person rather than to an organization: being signed in, the
// password, and the access tokens for their programs.
//
// A [Session] is somebody signed in, in one browser. The browser's cookie holds a random value of which
// only the hash is stored, and a value is accepted only if this package made it at the very moment of a
// sign-in, so nobody can be made to use a session that another prepared (session.go). A new password
// ends all sessions but the one it was set in.
//
// Guessing is limited by address, by account and by both together, whatever the replica (attempts.go).
// Where no user has a password yet, a link lets the first administrator set one (link.go). When access
// tokens were last used is gathered in memory and written in batches (use.go).
//
// The package speaks no HTTP; package web has the pages.
package account

import (
	"net/netip"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// Service is what people can do about themselves.
type Service struct {
	db        *db.DB
	directory *identity.Directory
	clock     core.Clock
}

// New returns the service.
func New(d *db.DB, directory *identity.Directory, clock core.Clock) *Service {
	return &Service{db: d, directory: directory, clock: clock}
}

// Origin is where a person's request comes from, to be shown to them.
type Origin struct {
	Address   netip.Addr
	UserAgent string
}

// maxUserAgent is how much of a browser's name is kept.
const maxUserAgent = 500

// userAgent returns the browser's name as text that a database can hold.
func (o Origin) userAgent() string {
	return strings.ToValidUTF8(o.UserAgent[:min(len(o.UserAgent), maxUserAgent)], "")
}

// Method is how somebody signed in.
type Method string

// The methods.
const (
	ByPassword Method = "password"
	ByLink     Method = "link"
	ByProvider Method = "provider" // OpenID Connect
)

// A Session is somebody signed in, in one browser.
type Session struct {
	ID        string
	UserID    string
	Method    Method
	Address   string // of the latest visit, to a few minutes
	UserAgent string
	CreatedAt time.Time
	SeenAt    time.Time // to a few minutes
	ExpiresAt time.Time
}
