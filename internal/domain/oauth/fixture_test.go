package oauth

import (
	"net/netip"
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A fixture is two organizations: ada belongs to both, bo to acme, and cy to none. Robot is a confidential
// application of acme, tool a public one.
type fixture struct {
	*Service
	t       *testing.T
	now     *coretest.Clock
	acme    identity.Organization
	rival   identity.Organization
	ada     Visitor
	bo      Visitor
	cy      Visitor
	robot   Application
	tool    Application
	replica *identity.Directory // as another process would have it
}

func eachFixture(t *testing.T, fn func(t *testing.T, s *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { fn(t, newFixture(t, d)) })
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	now := coretest.NewClock(noon)
	s := &fixture{
		Service: New(d, identity.NewDirectory(d, now.Now), seal.NewKey(), "https://ci.test", now.Now),
		t:       t,
		now:     now,
		acme:    identity.Organization{ID: core.NewID(), Slug: "acme", Name: "Acme", CreatedAt: noon},
		rival:   identity.Organization{ID: core.NewID(), Slug: "rival", Name: "Rival", CreatedAt: noon},
		replica: identity.NewDirectory(d, now.Now),
	}
	for name, v := range map[string]*Visitor{"ada": &s.ada, "bo": &s.bo, "cy": &s.cy} {
		*v = Visitor{UserID: core.NewID(), Address: netip.MustParseAddr("192.0.2.1")}
		s.exec(`INSERT INTO users (id, email, name, created_at) VALUES ($1, $2, $2, 1)`, v.UserID, name)
	}
	s.write(func(q *db.Q) error {
		if err := identity.InsertOrganization(q, s.acme); err != nil {
			return err
		}
		return identity.InsertOrganization(q, s.rival)
	})
	s.join(s.ada, s.acme)
	s.join(s.ada, s.rival)
	s.join(s.bo, s.acme)
	s.robot = newApplication("robot", noon)
	s.robot.OrganizationID, s.robot.Confidential, s.robot.secretHash = s.acme.ID, true, seal.HashToken("robot-secret")
	s.robot.TokenExpiresIn, s.robot.RefreshTokens = 3600, true
	s.tool = newApplication("tool", noon)
	s.write(func(q *db.Q) error {
		if err := insertApplication(q, s.robot); err != nil {
			return err
		}
		return insertApplication(q, s.tool)
	})
	return s
}

func (s *fixture) write(fn func(q *db.Q) error) {
	s.t.Helper()
	if err := s.db.Write(s.t.Context(), fn); err != nil {
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

func (s *fixture) join(v Visitor, o identity.Organization) {
	s.t.Helper()
	s.exec(`INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ($1, $2, 'member', '[]', 'optional', 1)`, o.ID, v.UserID)
}

// ask has an application ask for access from a device.
func (s *fixture) ask(a Application, hint string) (deviceCode, userCode string) {
	s.t.Helper()
	deviceCode, userCode, err := s.addDevice(s.t.Context(), device{
		application: a, hintID: hint, scopes: identity.Scopes{"read_builds", "read_user"}, address: netip.MustParseAddr("203.0.113.9"), userAgent: "tool/1.0",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return deviceCode, userCode
}

// count returns how many rows a table has.
func (s *fixture) count(table string) (n int) {
	s.t.Helper()
	err := s.db.Read(s.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// wantKind fails the test unless an error is of a kind.
func wantKind(t *testing.T, what string, err error, kind core.Kind) {
	t.Helper()
	if core.KindOf(err) != kind {
		t.Errorf("%s: %v, want an error of kind %d", what, err, kind)
	}
}
