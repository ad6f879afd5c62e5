package account

import (
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

func TestChangePassword_EndsEverySessionButThePresentOne(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		here, there := s.signIn(""), s.signIn("")
		if err := s.ChangePassword(t.Context(), s.session(here), password, "a brand new password", home); err != nil {
			t.Fatal(err)
		}
		s.session(here)
		s.wantSignedOut(there, "the password changed")
		_, err := s.SignIn(t.Context(), s.ada.Email, password, home, "")
		wantKind(t, err, core.Unprocessable, "wrong")
		if _, err := s.SignIn(t.Context(), s.ada.Email, "a brand new password", home, ""); err != nil {
			t.Error(err)
		}
	})
}

func TestChangePassword_AsksForTheCurrentOneAndForAGoodOne(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		here := s.session(s.signIn(""))
		for _, c := range []struct{ current, password, want string }{
			{"wrong", "a brand new password", "current_password is wrong"},
			{password, "short", "at least 10 characters"},
			{password, strings.Repeat("x", 1025), "not be longer than 1024 bytes"},
			{password, "ADA@acme.test", "must not be your email"},
		} {
			wantKind(t, s.ChangePassword(t.Context(), here, c.current, c.password, home), core.Unprocessable, c.want)
		}
		for range maxPerAddressAndAccount {
			s.fail(1, s.ada.Email, "192.0.2.7")
		}
		wantKind(t, s.ChangePassword(t.Context(), here, password, "a brand new password", home), core.RateLimited, "Too many")
	})
}

func TestChangePassword_NeedsNoCurrentOneWhereThereIsNone(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		value, err := s.start(t.Context(), s.bo.ID, ByProvider, home, "")
		if err != nil {
			t.Fatal(err)
		}
		if has, err := s.HasPassword(t.Context(), s.bo.ID); has || err != nil {
			t.Errorf("has a password: %v, %v", has, err)
		}
		if err := s.ChangePassword(t.Context(), s.session(value), "", "a brand new password", home); err != nil {
			t.Fatal(err)
		}
		if has, err := s.HasPassword(t.Context(), s.bo.ID); !has || err != nil {
			t.Errorf("has a password: %v, %v", has, err)
		}
	})
}

func TestFirstLink_IsForTheFirstAdministratorUntilAUserHasAPassword(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		if token, _, err := s.FirstLink(t.Context()); token != "" || err != nil {
			t.Errorf("a link %q although somebody has a password, %v", token, err)
		}
		s.exec(`UPDATE users SET password_hash = NULL`)
		first, user, err := s.FirstLink(t.Context())
		if err != nil || user.ID != s.ada.ID {
			t.Fatalf("for %+v, %v", user, err)
		}
		second, _, err := s.FirstLink(t.Context())
		if err != nil || second == first {
			t.Fatal(second, err)
		}
		if l, err := s.Link(t.Context(), first); err != nil || l.User != s.ada || l.HasPassword {
			t.Errorf("got %+v, %v", user, err)
		}
		_, err = s.UseLink(t.Context(), first, "short", home, "")
		wantKind(t, err, core.Unprocessable, "at least 10")
		value, err := s.UseLink(t.Context(), first, "a brand new password", home, "")
		if err != nil || s.session(value).Method != ByLink {
			t.Fatal(err)
		}
		for _, used := range []string{first, second, ""} {
			_, err = s.UseLink(t.Context(), used, "a brand new password", home, "")
			wantKind(t, err, core.Gone, "has been used")
		}
	})
}

func TestSignInLink_SignsInOnceAndKeepsThePassword(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		token, err := s.SignInLink(t.Context(), s.ada.Email)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := s.Link(t.Context(), token); err != nil || l.User != s.ada || !l.HasPassword {
			t.Errorf("got %+v, %v", l, err)
		}
		value, err := s.UseLink(t.Context(), token, "an ignored password", home, "")
		if err != nil || s.session(value).Method != ByLink {
			t.Fatal(err)
		}
		s.signIn("") // with the password, which is the same
		_, err = s.UseLink(t.Context(), token, "", home, "")
		wantKind(t, err, core.Gone, "has been used")
		_, err = s.SignInLink(t.Context(), "unknown@acme.test")
		wantKind(t, err, core.NotFound, "unknown@acme.test")
	})
}

func TestFirstLink_ExpiresAndNeedsAnAdministrator(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		s.exec(`UPDATE users SET password_hash = NULL`)
		token, _, err := s.FirstLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(LinkLifetime + time.Second)
		_, err = s.Link(t.Context(), token)
		wantKind(t, err, core.Gone, "older than an hour")
		s.exec(`UPDATE memberships SET role = $1`, identity.Member)
		if token, _, err := s.FirstLink(t.Context()); token != "" || err != nil {
			t.Errorf("a link %q although there is no administrator, %v", token, err)
		}
	})
}
