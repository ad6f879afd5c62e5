package account

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

const password = "correct horse battery staple"

// passwordHash is computed once: hashing is slow on purpose.
var passwordHash = sync.OnceValue(func() string {
	hash, err := seal.HashPassword(password)
	if err != nil {
		panic(err)
	}
	return hash
})

// fixture has two users in an organization: Ada, an administrator with a password, and Bo without one.
type fixture struct {
	*Service
	t       *testing.T
	now     time.Time
	org     identity.Organization
	ada, bo identity.User
}

var home = Origin{Address: netip.MustParseAddr("192.0.2.7"), UserAgent: "Firefox"}

func each(t *testing.T, fn func(t *testing.T, s *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := &fixture{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		clock := func() time.Time { return s.now }
		s.Service = New(d, identity.NewDirectory(d, clock), clock)
		s.org = identity.Organization{ID: core.NewID(), Slug: "acme", Name: "Acme", CreatedAt: s.now}
		s.ada = identity.User{ID: core.NewID(), Email: "ada@acme.test", Name: "Ada", CreatedAt: s.now}
		s.bo = identity.User{ID: core.NewID(), Email: "bo@acme.test", Name: "Bo", CreatedAt: s.now}
		s.write(func(q *db.Q) error { return identity.InsertOrganization(q, s.org) })
		s.person(s.bo, identity.Member, "")
		s.person(s.ada, identity.Admin, passwordHash())
		fn(t, s)
	})
}

func (s *fixture) write(fn func(q *db.Q) error) {
	s.t.Helper()
	if err := s.directory.Change(s.t.Context(), fn); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) exec(query string, args ...any) {
	s.t.Helper()
	s.write(func(q *db.Q) error {
		_, err := q.Exec(query, args...)
		return err
	})
}

func (s *fixture) person(u identity.User, role identity.Role, hash string) {
	s.t.Helper()
	s.exec(`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)`, u.ID, u.Email, u.Name, db.Text(hash), db.Micros(s.now))
	s.exec(`INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ($1, $2, $3, '[]', 'optional', $4)`, s.org.ID, u.ID, role, db.Micros(s.now))
}

// signIn signs Ada in.
func (s *fixture) signIn(before string) string {
	s.t.Helper()
	value, err := s.SignIn(s.t.Context(), s.ada.Email, password, home, before)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

func (s *fixture) session(value string) *Session {
	s.t.Helper()
	session, err := s.Session(s.t.Context(), value, home)
	if err != nil {
		s.t.Fatal(err)
	}
	return session
}

func (s *fixture) wantSignedOut(value, why string) {
	s.t.Helper()
	if _, err := s.Session(s.t.Context(), value, home); core.KindOf(err) != core.Unauthorized {
		s.t.Errorf("%s: %v, want Unauthorized", why, err)
	}
}

// wantKind fails the test unless an error has a kind and contains a text.
func wantKind(t *testing.T, err error, kind core.Kind, text string) {
	t.Helper()
	if core.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error of kind %d that says %q", err, kind, text)
	}
}
