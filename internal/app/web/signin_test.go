package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestSignIn_LeadsToWhereOneWantedToGo(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := visit(t, s)
		v.get("/settings/sessions").wantRedirect("/login?return_to=%2Fsettings%2Fsessions")
		v.get("/login?return_to=%2Fsettings%2Fsessions").want(200, "Sign in")
		v.post("/login", "email", "ada@acme.test", "password", password, "return_to", "/settings/sessions").wantRedirect("/settings/sessions")
		v.get("/settings/sessions").want(200, "this session")
		v.get("/login?return_to=/settings/password").wantRedirect("/settings/password")
		v.get("/").want(200, "Hello, Ada", "Acme Inc", "admin").wantNot("Rival")
	})
}

func TestSignIn_LeadsNowhereElse(t *testing.T) {
	s := onSQLite(t)
	v := signIn(t, s, "ada@acme.test")
	for _, evil := range []string{
		"https://evil.test/", "//evil.test", `/\evil.test`, `\\evil.test`, "http:evil.test", "evil.test", "javascript:alert(1)",
		"/\tevil.test", "///evil.test", "/\n/evil.test", "https:///evil.test", "", "?x",
	} {
		v.get("/login?return_to=" + url.QueryEscape(evil)).wantRedirect("/")
		v.post("/login", "email", "ada@acme.test", "password", password, "return_to", evil).wantRedirect("/")
	}
}

func TestSignIn_RevealsNoDetailsOfAFailure(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := visit(t, s)
		for _, email := range []string{"ada@acme.test", "nobody@acme.test"} {
			p := v.post("/login", "email", email, "password", "wrong", "return_to", "/settings/tokens").want(422, "The email or the password is wrong")
			if p.find(`name="return_to" value="([^"]*)"`) != "/settings/tokens" || p.find(`name="email"[^>]* value="([^"]*)"`) != email {
				t.Error("what was entered is lost")
			}
			if strings.Contains(p.Body, "wrong\"") || v.sessionCookie() != "" {
				t.Error("the page holds the password, or the visitor is signed in")
			}
		}
	})
}

func TestSignIn_IsLimitedWithAClearPage(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := visit(t, s)
		for range 10 {
			v.post("/login", "email", "ada@acme.test", "password", "wrong").want(422)
		}
		p := v.post("/login", "email", "ada@acme.test", "password", password).want(429, "Too many attempts", "Try again in 15 minutes")
		if p.Header.Get("Retry-After") != "900" {
			t.Errorf("Retry-After is %q", p.Header.Get("Retry-After"))
		}
		other := visit(t, s)
		other.header.Set("X-Forwarded-For", "198.51.100.4")
		other.post("/login", "email", "ada@acme.test", "password", password).wantRedirect("/")
	})
}

func TestSignIn_CannotBeFixed(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		attacker, victim := signIn(t, s, "cy@rival.test"), visit(t, s)
		planted := attacker.sessionCookie()
		victim.setSessionCookie(planted)
		victim.post("/login", "email", "ada@acme.test", "password", password).wantRedirect("/")
		if victim.sessionCookie() == planted {
			t.Fatal("the planted session is kept")
		}
		attacker.get("/").want(200, "Sign in")

		victim.setSessionCookie("chosen-by-another")
		victim.get("/").want(200, "Sign in")
		victim.post("/login", "email", "ada@acme.test", "password", password).wantRedirect("/")
		attacker.setSessionCookie("chosen-by-another")
		attacker.get("/").want(200, "Sign in")
	})
}

func TestSignOut_EndsTheSessionAndNotOnlyTheCookie(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		v := signIn(t, s, "ada@acme.test")
		kept := v.sessionCookie()
		v.get("/logout").want(405)
		v.get("/").want(200, "Hello, Ada")
		v.post("/logout").wantRedirect("/login")
		if v.sessionCookie() != "" {
			t.Error("the cookie is still there")
		}
		v.get("/login").want(200, "You are signed out")
		v.get("/login").wantNot("You are signed out")
		v.setSessionCookie(kept)
		v.get("/settings/password").wantRedirect("/login?return_to=%2Fsettings%2Fpassword")
	})
}

func TestPassword_ChangeEndsEveryOtherSession(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		here, there := signIn(t, s, "ada@acme.test"), signIn(t, s, "ada@acme.test")
		change := func(current, password, again string) *page {
			return here.post("/settings/password", "current_password", current, "new_password", password, "repeat_password", again)
		}
		change("wrong", "a brand new password", "a brand new password").want(422, "The current password is wrong")
		change(password, "short", "short").want(422, "The new password must have at least 10 characters")
		change(password, "a brand new password", "another").want(422, "This is not the same as the new password")
		there.get("/").want(200, "Hello, Ada")
		change(password, "a brand new password", "a brand new password").wantRedirect("/settings/password")
		here.get("/settings/password").want(200, "Password changed")
		there.get("/").want(200, "Sign in")
		there.post("/login", "email", "ada@acme.test", "password", password).want(422)
		there.post("/login", "email", "ada@acme.test", "password", "a brand new password").wantRedirect("/")
		s.Apply(`organizations: [{slug: acme, members: [{email: ada@acme.test, password: ` + password + `}]}]`)
		there.get("/").want(200, "Sign in")
	})
}

func TestSessions_CanBeEndedElsewhere(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		here, there, third := signIn(t, s, "ada@acme.test"), signIn(t, s, "ada@acme.test"), signIn(t, s, "ada@acme.test")
		cy := signIn(t, s, "cy@rival.test")
		end := here.get("/settings/sessions").find(`action="(/settings/sessions/[0-9a-f-]{36}/end)"`)
		cy.post(end).want(404)
		cy.post("/settings/sessions/x/end").want(404)
		here.post(end).wantRedirect("/settings/sessions")
		left := 0
		for _, v := range []*visitor{there, third} {
			if strings.Contains(v.get("/").text(), "Hello, Ada") {
				left++
			}
		}
		if left != 1 {
			t.Errorf("%d of two are still signed in", left)
		}
		here.post("/settings/sessions/end-others").wantRedirect("/settings/sessions")
		there.get("/").want(200, "Sign in")
		third.get("/").want(200, "Sign in")
		here.get("/settings/sessions").want(200, "Signed out of all other sessions")
	})
}

func TestStart_GreetsProgramsWithJSON(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	resp := s.As(t, "").Get("/").Want(200)
	resp.String("message")
	if _, ok := resp.At("timestamp").(float64); !ok || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%v %s", resp.Header, resp.Body)
	}
	visit(t, s).get("/").want(http.StatusOK, "Sign in")
}
