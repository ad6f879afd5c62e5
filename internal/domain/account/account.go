// Package account manages what belongs to a user rather than to an organization: sessions, the password, and
// access tokens. It does not handle HTTP; package web has the pages.
//
// A [Session] is one browser in which a user is signed in. Its cookie contains a random value of which only the
// hash is stored. Every sign-in creates a new value, so an attacker cannot plant a session (session.go).
// Changing the password ends all other sessions.
//
// Guesses are limited per address, per account and per both, across replicas (attempts.go). While no user has a
// password, a link lets the first administrator set one (link.go). The last use of access tokens is collected
// in memory and written in batches (use.go).
package account

import (
	"net/netip"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// Service manages sessions, passwords and access tokens of users.
type Service struct {
	db        *db.DB
	directory *identity.Directory
	clock     core.Clock
}

// New returns a Service.
func New(d *db.DB, directory *identity.Directory, clock core.Clock) *Service {
	return &Service{db: d, directory: directory, clock: clock}
}

// Origin is where a request comes from. Users see it in their list of sessions.
type Origin struct {
	Address   netip.Addr
	UserAgent string
}

// maxUserAgent limits how much of a user agent is stored.
const maxUserAgent = 500

// userAgent returns the user agent as text that a database can store.
func (o Origin) userAgent() string {
	return strings.ToValidUTF8(o.UserAgent[:min(len(o.UserAgent), maxUserAgent)], "")
}

// Method is how a user signed in.
type Method string

const (
	ByPassword Method = "password"
	ByLink     Method = "link"
	ByProvider Method = "provider" // OpenID Connect
)

// A Session is one browser in which a user is signed in.
type Session struct {
	ID        string
	UserID    string
	Method    Method
	Address   string // of the latest request, accurate to a few minutes
	UserAgent string
	CreatedAt time.Time
	SeenAt    time.Time // accurate to a few minutes
	ExpiresAt time.Time
}
