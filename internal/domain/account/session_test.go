package account

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

func TestSignIn_StartsASessionOfWhichOnlyTheHashIsStored(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		value, err := s.SignIn(t.Context(), "  ADA@acme.test ", password, home, "")
		if err != nil {
			t.Fatal(err)
		}
		got := s.session(value)
		if got.UserID != s.ada.ID || got.Method != ByPassword || got.Address != "192.0.2.7" || got.UserAgent != "Firefox" {
			t.Errorf("got %+v", got)
		}
		var stored string
		s.write(func(q *db.Q) error { return q.QueryRow(`SELECT hash FROM sessions`).Scan(&stored) })
		if stored != seal.HashToken(value) {
			t.Errorf("stored %q for %q", stored, value)
		}
	})
}

func TestSignIn_DoesNotRevealWhichEmailsHaveAccounts(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		for _, c := range [][2]string{{"ada@acme.test", "wrong"}, {"ada@acme.test", ""}, {"bo@acme.test", ""}, {"nobody@acme.test", password}, {"", ""}} {
			_, err := s.SignIn(t.Context(), c[0], c[1], home, "")
			wantKind(t, err, core.Unprocessable, "The email or the password is wrong")
		}
	})
}

func TestSignIn_GivesANewSessionAndEndsTheOneBefore(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		first := s.signIn("")
		second := s.signIn(first)
		if first == second {
			t.Error("the value stayed the same")
		}
		s.wantSignedOut(first, "the one before")
		planted := seal.NewToken("")
		if got := s.signIn(planted); got == planted {
			t.Error("a value that another chose became a session")
		}
		s.wantSignedOut(planted, "a value that another chose")
		s.session(second)
	})
}

func TestSession_EndsWithoutVisitsAndAtItsLongestLife(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		idle, busy := s.signIn(""), s.signIn("")
		for range 8 {
			s.now = s.now.Add(11 * 24 * time.Hour)
			s.session(busy)
		}
		s.wantSignedOut(idle, "idle for longer than two weeks")
		s.now = s.now.Add(3 * 24 * time.Hour)
		s.wantSignedOut(busy, "the longest life is over")
		s.signIn("")
		list, err := s.Sessions(t.Context(), s.ada.ID)
		if err != nil || len(list) != 1 {
			t.Errorf("%d sessions, %v", len(list), err)
		}
		var stored int
		s.write(func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM sessions`).Scan(&stored) })
		if stored != 1 {
			t.Errorf("%d sessions are kept, want those that expired to be gone", stored)
		}
	})
}

func TestSession_KnowsTheLatestVisitToAFewMinutes(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		value := s.signIn("")
		began := s.now
		away := Origin{Address: netip.MustParseAddr("2001:db8::1")}
		s.now = s.now.Add(time.Minute)
		if got, err := s.Session(t.Context(), value, away); err != nil || !got.SeenAt.Equal(began) {
			t.Errorf("got %+v, %v", got, err)
		}
		s.now = s.now.Add(seenResolution)
		if _, err := s.Session(t.Context(), value, away); err != nil {
			t.Fatal(err)
		}
		list, err := s.Sessions(t.Context(), s.ada.ID)
		if err != nil || !list[0].SeenAt.Equal(s.now) || list[0].Address != "2001:db8::1" {
			t.Errorf("got %+v, %v", list, err)
		}
	})
}

func TestSessions_CanBeEndedElsewhereAndOnlyByTheirUser(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		here, there, third := s.signIn(""), s.signIn(""), s.signIn("")
		wantKind(t, s.EndSession(t.Context(), s.bo.ID, s.session(there).ID), core.NotFound, "not signed in there")
		if err := s.EndSession(t.Context(), s.ada.ID, s.session(there).ID); err != nil {
			t.Fatal(err)
		}
		s.wantSignedOut(there, "ended from elsewhere")
		if err := s.EndOtherSessions(t.Context(), s.session(here)); err != nil {
			t.Fatal(err)
		}
		s.wantSignedOut(third, "all others were ended")
		if err := s.SignOut(t.Context(), here); err != nil {
			t.Fatal(err)
		}
		s.wantSignedOut(here, "signed out")
		s.wantSignedOut("", "no cookie")
	})
}

func TestSession_KeepsBrowserNamesThatAreLongOrNotText(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		odd := Origin{UserAgent: strings.Repeat("é", 400) + "\xff"}
		value, err := s.SignIn(t.Context(), s.ada.Email, password, odd, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.session(value).UserAgent; len(got) > maxUserAgent || !strings.HasPrefix(got, "éé") {
			t.Errorf("kept %q", got)
		}
	})
}

func TestSignInVerified_IsForMembersOnly(t *testing.T) {
	each(t, func(t *testing.T, s *fixture) {
		value, err := s.SignInVerified(t.Context(), "Bo@Acme.test", home, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.session(value); got.UserID != s.bo.ID || got.Method != ByProvider {
			t.Errorf("got %+v", got)
		}
		_, err = s.SignInVerified(t.Context(), "nobody@acme.test", home, "")
		wantKind(t, err, core.Forbidden, "No user has the email nobody@acme.test")
		s.exec(`DELETE FROM memberships WHERE user_id = $1`, s.bo.ID)
		_, err = s.SignInVerified(t.Context(), s.bo.Email, home, "")
		wantKind(t, err, core.Forbidden, "No user has the email bo@acme.test")
	})
}
