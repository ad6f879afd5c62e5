package identity

import (
	"net/netip"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
)

// scene is an organization with one member, one access token and one agent token.
type scene struct {
	d     *db.DB
	clock *coretest.Clock
	here  *Directory
	there *Directory // as in another process
	org   Organization
	user  User
	token string
	agent string
}

func newScene(t *testing.T, d *db.DB) *scene {
	t.Helper()
	s := &scene{
		d:     d,
		clock: coretest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		org:   Organization{ID: core.NewID(), Slug: "acme", Name: "Acme", Features: DefaultFeatures},
		user:  User{ID: core.NewID(), Email: "ada@acme.test", Name: "Ada"},
		token: seal.NewToken(AccessTokenPrefix),
		agent: seal.NewToken(AgentTokenPrefix),
	}
	s.here, s.there = NewDirectory(d, s.clock.Now), NewDirectory(d, s.clock.Now)
	s.org.CreatedAt, s.user.CreatedAt = s.clock.Now(), s.clock.Now()
	now := db.Micros(s.clock.Now())
	exec := func(q *db.Q, query string, args ...any) {
		if _, err := q.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	err := s.here.Change(t.Context(), func(q *db.Q) error {
		if err := InsertOrganization(q, s.org); err != nil {
			return err
		}
		exec(q, `INSERT INTO users (id, email, name, created_at) VALUES ($1, $2, $3, $4)`, s.user.ID, s.user.Email, s.user.Name, now)
		exec(q, `INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at) VALUES ($1, $2, 'member', '["stop_agents"]', 'optional', $3)`, s.org.ID, s.user.ID, now)
		exec(q, `INSERT INTO access_tokens (id, user_id, hash, description, scopes, created_at) VALUES ('t', $1, $2, 'test', '["read_builds"]', $3)`, s.user.ID, seal.HashToken(s.token), now)
		exec(q, `INSERT INTO access_token_organizations (token_id, organization_id) VALUES ('t', $1)`, s.org.ID)
		exec(q, `INSERT INTO clusters (id, organization_id, name, description, is_default, hosted, hosted_git_mirror_enabled, hosted_container_cache_enabled, created_at) VALUES ('c', $1, 'Default', '', TRUE, FALSE, FALSE, FALSE, $2)`, s.org.ID, now)
		exec(q, `INSERT INTO agent_tokens (id, cluster_id, hash, description, allowed_ip_addresses, created_at) VALUES ('a', 'c', $1, 'boot', '["192.0.2.0/24"]', $2)`, seal.HashToken(s.agent), now)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) change(t *testing.T, query string, args ...any) {
	t.Helper()
	err := s.here.Change(t.Context(), func(q *db.Q) error {
		_, err := q.Exec(query, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuthenticate_KnowsWhoHoldsAToken(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		c, err := s.here.Authenticate(t.Context(), s.token)
		if err != nil {
			t.Fatal(err)
		}
		if c.User != s.user {
			t.Errorf("user %+v, want %+v", c.User, s.user)
		}
		if !c.HasScope(ReadBuilds) || c.HasScope(WriteBuilds) {
			t.Errorf("scopes %v", c.Token.Scopes)
		}
		m := c.Membership(s.org.ID)
		if !m.Can(StopAgents, &s.org) || m.Can(ManageClusters, &s.org) {
			t.Errorf("membership %+v", m)
		}
		if c.Membership(core.NewID()) != nil {
			t.Error("a membership in an organization that does not exist")
		}
		for _, bad := range []string{"", "x", s.token + "x", s.agent} {
			if _, err := s.here.Authenticate(t.Context(), bad); core.KindOf(err) != core.Unauthorized {
				t.Errorf("token %q: %v, want Unauthorized", bad, err)
			}
		}
	})
}

// deleteToken deletes the access token of a scene.
func deleteToken(q *db.Q) error {
	_, err := q.Exec(`DELETE FROM access_tokens WHERE id = $1`, "t")
	return err
}

func TestChange_TakesEffectAtOnceHereAndWithinASecondThere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		for _, dir := range []*Directory{s.here, s.there} {
			if _, err := dir.Authenticate(t.Context(), s.token); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.here.Change(t.Context(), deleteToken); err != nil {
			t.Fatal(err)
		}
		if _, err := s.here.Authenticate(t.Context(), s.token); core.KindOf(err) != core.Unauthorized {
			t.Errorf("here: %v, want Unauthorized", err)
		}
		s.clock.Advance(900 * time.Millisecond)
		if _, err := s.there.Authenticate(t.Context(), s.token); core.KindOf(err) != core.Unauthorized {
			t.Errorf("there: %v, want Unauthorized", err)
		}
	})
}

func TestAuthenticate_RefusesAnExpiredTokenAlsoWhenRemembered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		s.change(t, `UPDATE access_tokens SET expires_at = $1`, db.Micros(s.clock.Now().Add(100*time.Millisecond)))
		if _, err := s.here.Authenticate(t.Context(), s.token); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(100 * time.Millisecond)
		if _, err := s.here.Authenticate(t.Context(), s.token); core.KindOf(err) != core.Unauthorized {
			t.Errorf("%v, want Unauthorized", err)
		}
	})
}

func TestAuthenticateAgent_ChecksExpiryAndAddress(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		inside, outside := netip.MustParseAddr("::ffff:192.0.2.7"), netip.MustParseAddr("198.51.100.1")
		a, err := s.here.AuthenticateAgent(t.Context(), s.agent, inside)
		if err != nil {
			t.Fatal(err)
		}
		if a.ClusterName != "Default" || a.Organization.Slug != "acme" {
			t.Errorf("got %+v", a)
		}
		if _, err := s.here.AuthenticateAgent(t.Context(), s.agent, outside); core.KindOf(err) != core.Unauthorized {
			t.Errorf("from outside: %v, want Unauthorized", err)
		}
		s.change(t, `UPDATE agent_tokens SET expires_at = $1`, db.Micros(s.clock.Now()))
		if _, err := s.here.AuthenticateAgent(t.Context(), s.agent, inside); core.KindOf(err) != core.Unauthorized {
			t.Errorf("expired: %v, want Unauthorized", err)
		}
	})
}

func TestDirectory_AsksNothingWhileWhatItKnowsIsFresh(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		if _, err := s.here.Authenticate(t.Context(), s.token); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.here.Authenticate(t.Context(), s.token); err != nil {
			t.Errorf("a cached token was loaded again: %v", err)
		}
	})
}

// A load that started before a change must not restore what the change removed.
func TestCached_DropsWhatChangedWhileItLoaded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		hash := seal.HashToken(s.token)
		old, err := cached(t.Context(), s.here, s.here.callers, hash, func(q *db.Q) (*Caller, error) {
			c, err := loadCaller(q, hash)
			done := make(chan error)
			go func() { done <- s.here.Change(t.Context(), deleteToken) }()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return c, err
		})
		if err != nil || old == nil {
			t.Fatalf("the slow load: %v", err)
		}
		if _, err := s.here.Authenticate(t.Context(), s.token); core.KindOf(err) != core.Unauthorized {
			t.Errorf("%v, want Unauthorized", err)
		}
	})
}

func TestOrganization_IsFoundBySlugAndNoticesChanges(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		if _, err := s.here.Organization(t.Context(), "nobody"); core.KindOf(err) != core.NotFound {
			t.Errorf("%v, want NotFound", err)
		}
		o, err := s.there.Organization(t.Context(), "acme")
		if err != nil || o.Suspended || !o.Features.CloneMirrors {
			t.Fatalf("%+v, %v", o, err)
		}
		s.change(t, `UPDATE organizations SET suspended = TRUE`)
		s.clock.Advance(time.Second)
		if o, _ = s.there.Organization(t.Context(), "acme"); !o.Suspended {
			t.Error("the other directory did not notice")
		}
	})
}

func TestCan_CreatePipelinesFollowsTeams(t *testing.T) {
	with, without := &Organization{Features: Features{Teams: true}}, &Organization{}
	for _, c := range []struct {
		name string
		m    *Membership
		org  *Organization
		want bool
	}{
		{"nobody", nil, without, false},
		{"a member without teams switched on", &Membership{Role: Member}, without, true},
		{"a member of no team", &Membership{Role: Member}, with, false},
		{"a member of a team that may not", &Membership{Role: Member, Teams: []TeamMembership{{}}}, with, false},
		{"a member of a team that may", &Membership{Role: Member, Teams: []TeamMembership{{CanCreatePipelines: true}}}, with, true},
		{"an administrator", &Membership{Role: Admin}, with, true},
	} {
		if got := c.m.Can(CreatePipelines, c.org); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestValidOrganizationSlug_RefusesTheServersOwnPaths(t *testing.T) {
	for slug, want := range map[string]bool{"acme": true, "v2": false, "oauth": false, "docs": false, "-x": false, "A": false, "": false} {
		if ValidOrganizationSlug(slug) != want {
			t.Errorf("%q: want %v", slug, want)
		}
	}
}

func BenchmarkAuthenticate_Remembered(b *testing.B) {
	d := dbtest.New(b, db.SQLite)
	dir := NewDirectory(d, time.Now)
	token := seal.NewToken(AccessTokenPrefix)
	err := dir.Change(b.Context(), func(q *db.Q) error {
		if _, err := q.Exec(`INSERT INTO users (id, email, name, created_at) VALUES ('u', 'e', 'n', 1)`); err != nil {
			return err
		}
		_, err := q.Exec(`INSERT INTO access_tokens (id, user_id, hash, description, scopes, created_at) VALUES ('t', 'u', $1, '', '["*"]', 1)`, seal.HashToken(token))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := dir.Authenticate(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
	took := b.Elapsed()
	began := time.Now()
	for range b.N {
		seal.HashToken(token)
	}
	b.ReportMetric(float64(took)/float64(time.Since(began)), "time/bare-hash")
}

func TestPerson_HasEveryScopeInEveryOrganizationOfTheirs(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newScene(t, d)
		c, err := s.here.Person(t.Context(), s.user.ID)
		if err != nil {
			t.Fatal(err)
		}
		if c.User != s.user || !c.HasScope(WriteBuilds) || !c.Membership(s.org.ID).Can(StopAgents, &s.org) {
			t.Errorf("got %+v", c)
		}
		s.change(t, `DELETE FROM memberships WHERE user_id = $1`, s.user.ID)
		if c, err = s.here.Person(t.Context(), s.user.ID); err != nil || c.Membership(s.org.ID) != nil {
			t.Errorf("still a member: %+v, %v", c, err)
		}
		if _, err := s.here.Person(t.Context(), core.NewID()); core.KindOf(err) != core.NotFound {
			t.Errorf("unknown user: %v", err)
		}
	})
}
