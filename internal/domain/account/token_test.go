package account

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// request returns a token that Ada can create.
func (s *fixture) request() TokenRequest {
	return TokenRequest{Description: " laptop ", Scopes: identity.Scopes{identity.ReadBuilds}, OrganizationIDs: []string{s.org.ID}, ExpiresAt: s.now.Add(time.Hour)}
}

func (s *fixture) token() (value string, t AccessToken) {
	s.t.Helper()
	value, t, err := s.CreateToken(s.t.Context(), s.ada.ID, s.request())
	if err != nil {
		s.t.Fatal(err)
	}
	return value, t
}

func (s *fixture) tokens(u identity.User) []AccessToken {
	s.t.Helper()
	list, err := s.Tokens(s.t.Context(), u.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func TestCreateToken_WorksUntilItIsRevoked(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		value, made := s.token()
		caller, err := s.directory.Authenticate(t.Context(), value)
		if err != nil || caller.User.ID != s.ada.ID || !caller.HasScope(identity.ReadBuilds) || caller.HasScope(identity.WriteBuilds) || caller.Membership(s.org.ID) == nil {
			t.Fatalf("got %+v, %v", caller, err)
		}
		list := s.tokens(s.ada)
		if len(list) != 1 || list[0].ID != made.ID || list[0].Description != "laptop" || strings.Join(list[0].Organizations, "") != "Acme" || !list[0].ExpiresAt.Equal(s.now.Add(time.Hour)) {
			t.Errorf("got %+v", list)
		}
		wantKind(t, s.RevokeToken(t.Context(), s.bo.ID, made.ID), core.NotFound, "no such access token")
		if err := s.RevokeToken(t.Context(), s.ada.ID, made.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.directory.Authenticate(t.Context(), value); core.KindOf(err) != core.Unauthorized {
			t.Errorf("it still works: %v", err)
		}
	})
}

func TestCreateToken_ReportsAllProblems(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		elsewhere := identity.Organization{ID: core.NewID(), Slug: "rival", Name: "Rival", CreatedAt: s.now}
		s.exec(`INSERT INTO organizations (id, slug, name, features, limits, created_at) VALUES ($1, 'rival', 'Rival', '{}', '{}', 0)`, elsewhere.ID)
		for name, c := range map[string]struct {
			change func(*TokenRequest)
			want   string
		}{
			"no description":       {func(w *TokenRequest) { w.Description = "  " }, "description is required"},
			"a long description":   {func(w *TokenRequest) { w.Description = strings.Repeat("é", 256) }, "description must not be longer"},
			"no scope":             {func(w *TokenRequest) { w.Scopes = nil }, "scopes must be at least one"},
			"an unknown scope":     {func(w *TokenRequest) { w.Scopes = identity.Scopes{"fly"} }, "these are not: fly"},
			"no organization":      {func(w *TokenRequest) { w.OrganizationIDs = nil }, "organizations must be at least one of yours"},
			"another organization": {func(w *TokenRequest) { w.OrganizationIDs = append(w.OrganizationIDs, elsewhere.ID) }, "organizations must be at least one of yours"},
			"in the past":          {func(w *TokenRequest) { w.ExpiresAt = s.now }, "expires must be in the future"},
		} {
			t.Run(name, func(t *testing.T) {
				w := s.request()
				c.change(&w)
				_, _, err := s.CreateToken(t.Context(), s.ada.ID, w)
				wantKind(t, err, core.Unprocessable, c.want)
			})
		}
		if list := s.tokens(s.ada); len(list) != 0 {
			t.Errorf("%d were made", len(list))
		}
	})
}

func TestUses_AreWrittenTogetherAndNeverGoBack(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		_, made := s.token()
		here, there := NewUses(s.db, s.clock, slog.New(slog.DiscardHandler)), NewUses(s.db, s.clock, slog.New(slog.DiscardHandler))
		early := s.now
		there.Record(made.ID, netip.MustParseAddr("192.0.2.1"))
		s.now = s.now.Add(time.Minute)
		here.Record(made.ID, netip.MustParseAddr("192.0.2.2"))
		here.Record(core.NewID(), netip.MustParseAddr("192.0.2.2")) // revoked meanwhile
		if got := s.tokens(s.ada)[0]; !got.LastUsedAt.IsZero() {
			t.Errorf("a use cost a write: %+v", got)
		}
		if err := here.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := there.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.tokens(s.ada)[0]; !got.LastUsedAt.Equal(early.Add(time.Minute)) || got.LastUsedAddress != "192.0.2.2" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestUses_WritesWhatIsLeftWhenItEnds(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		_, made := s.token()
		uses := NewUses(s.db, s.clock, slog.New(slog.DiscardHandler))
		uses.Record(made.ID, netip.MustParseAddr("192.0.2.1"))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := uses.Run(ended); err != nil {
			t.Fatal(err)
		}
		if got := s.tokens(s.ada)[0]; got.LastUsedAt.IsZero() {
			t.Error("it was not written")
		}
	})
}
