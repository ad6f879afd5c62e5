package oauth

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

func TestUserCode_IsReadHoweverItIsEntered(t *testing.T) {
	for entered, want := range map[string]string{
		"BCDF-GHJK":             "BCDF-GHJK",
		"bcdfghjk":              "BCDF-GHJK",
		"  b c d f – g-h-j-k\n": "BCDF-GHJK",
		"bcdf\u00a0ghjk":        "BCDF-GHJK",
		"":                      "",
		"BCDF-GHJ":              "",
		"BCDF-GHJKL":            "",
		"BCDF-GHJA":             "",
		"BCDF_GHJK":             "",
		"BCDF-GHJ1":             "",
	} {
		code, ok := ParseUserCode(entered)
		if code != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", entered, code, want)
		}
	}
}

func TestNewUserCode_HasTheFormThatIsReadBack(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		code := newUserCode()
		again, ok := ParseUserCode(strings.ToLower(code))
		if !ok || again != code || len(code) != 9 || code[4] != '-' || strings.Trim(code[:4]+code[5:], userCodeLetters) != "" {
			t.Fatalf("made %q, read back %q", code, again)
		}
		seen[code] = true
	}
	if len(seen) < 990 {
		t.Errorf("only %d different codes of 1000", len(seen))
	}
}

func TestDeviceRequest_ShowsWhoAsksForWhatFromWhere(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		_, code := s.ask(s.robot, s.rival.ID)
		got, err := s.DeviceRequest(t.Context(), s.ada, strings.ToLower(code))
		if err != nil {
			t.Fatal(err)
		}
		if got.UserCode != code || got.Application.Name != "robot" || got.Owner != "Acme" || len(got.Scopes) != 2 ||
			got.Address != "203.0.113.9" || got.UserAgent != "tool/1.0" || !got.ExpiresAt.Equal(noon.Add(600*time.Second)) {
			t.Errorf("got %+v", got)
		}
		if len(got.Organizations) != 2 || got.Preselected != s.rival.ID {
			t.Errorf("may choose %+v, beginning with %s", got.Organizations, got.Preselected)
		}
	})
}

func TestDeviceRequest_PreselectsTheHintOnlyWhereTheUserMayAuthorizeIt(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		for _, c := range []struct {
			name string
			v    Visitor
			hint string
			want string
		}{
			{"a hint at one of several", s.ada, s.acme.ID, s.acme.ID},
			{"no hint, several", s.ada, "", ""},
			{"a hint at another user's, one of their own", s.bo, s.rival.ID, s.acme.ID},
			{"a hint, and none of their own", s.cy, s.acme.ID, ""},
		} {
			_, code := s.ask(s.tool, c.hint)
			got, err := s.DeviceRequest(t.Context(), c.v, code)
			if err != nil || got.Preselected != c.want || got.Owner != "" {
				t.Errorf("%s: %q of %q, %v, want %q", c.name, got.Preselected, got.Owner, err, c.want)
			}
		}
		s.exec(`UPDATE organizations SET suspended = TRUE WHERE id = $1`, s.acme.ID)
		_, code := s.ask(s.tool, s.acme.ID)
		got, err := s.DeviceRequest(t.Context(), s.ada, code)
		if err != nil || got.Preselected != s.rival.ID || len(got.Organizations) != 1 {
			t.Errorf("with acme suspended: %+v, %v", got, err)
		}
		wantKind(t, "approving for a suspended organization", s.ApproveDevice(t.Context(), s.ada, code, s.acme.ID), core.Unavailable)
	})
}

func TestApproveDevice_IsForOneOfTheUsersOwnOrganizations(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		_, code := s.ask(s.tool, "")
		wantKind(t, "a stranger's", s.ApproveDevice(t.Context(), s.bo, code, s.rival.ID), core.Unprocessable)
		wantKind(t, "none", s.ApproveDevice(t.Context(), s.bo, code, ""), core.Unprocessable)
		if s.count("oauth_grants") != 0 {
			t.Error("a refused approval left a grant")
		}
		if err := s.ApproveDevice(t.Context(), s.bo, code, s.acme.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestDeviceRequest_IsDecidedOnce(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		approve := func(code string) error { return s.ApproveDevice(t.Context(), s.ada, code, s.acme.ID) }
		deny := func(code string) error { return s.DenyDevice(t.Context(), s.ada, code) }
		for name, first := range map[string]func(string) error{"approved": approve, "denied": deny} {
			_, code := s.ask(s.tool, "")
			if err := first(code); err != nil {
				t.Fatal(err)
			}
			_, err := s.DeviceRequest(t.Context(), s.ada, code)
			wantKind(t, "seeing what was "+name, err, core.Conflict)
			wantKind(t, "approving what was "+name, approve(code), core.Conflict)
			wantKind(t, "denying what was "+name, deny(code), core.Conflict)
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not say that it was %s", err, name)
			}
		}
		_, code := s.ask(s.tool, "")
		s.now.Advance(deviceLife)
		wantKind(t, "approving what has expired", approve(code), core.Gone)
		_, code = s.ask(s.tool, "")
		s.exec(`UPDATE oauth_applications SET enabled = FALSE WHERE id = $1`, s.tool.ID)
		wantKind(t, "approving a disabled application", approve(code), core.Gone)
	})
}

func TestApproveDevice_HappensOnceWhenManyApprove(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		_, code := s.ask(s.tool, "")
		var approved atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if s.ApproveDevice(t.Context(), s.ada, code, s.acme.ID) == nil {
					approved.Add(1)
				}
			})
		}
		all.Wait()
		if n := s.count("oauth_grants"); approved.Load() != 1 || n != 1 {
			t.Errorf("approved %d times, with %d grants", approved.Load(), n)
		}
	})
}

func TestDeviceRequest_LimitsGuesses(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		_, code := s.ask(s.tool, "")
		for range userMisses {
			_, err := s.DeviceRequest(t.Context(), s.bo, "BBBB-BBBB")
			wantKind(t, "a wrong code", err, core.NotFound)
			_, err = s.DeviceRequest(t.Context(), s.bo, "not a code")
			wantKind(t, "what is no code, which is not a guess", err, core.Unprocessable)
		}
		_, err := s.DeviceRequest(t.Context(), s.bo, code)
		wantKind(t, "one guess too many", err, core.RateLimited)
		if e, ok := err.(*core.Error); !ok || e.RetryAfter < 1 || e.RetryAfter > int(countWindow/time.Second)+1 {
			t.Errorf("the error is %#v", err)
		}
		wantKind(t, "approving after that", s.ApproveDevice(t.Context(), s.bo, code, s.acme.ID), core.RateLimited)
		wantKind(t, "denying after that", s.DenyDevice(t.Context(), s.bo, code), core.RateLimited)
		if _, err := s.DeviceRequest(t.Context(), s.ada, code); err != nil {
			t.Errorf("another user from the same address: %v", err)
		}
		s.now.Advance(countWindow)
		_, code = s.ask(s.tool, "")
		if _, err := s.DeviceRequest(t.Context(), s.bo, code); err != nil {
			t.Errorf("after the window: %v", err)
		}
	})
}

func TestDeviceRequest_LimitsGuessesFromOneAddress(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		_, code := s.ask(s.tool, "")
		at := func(address string, user string) Visitor {
			return Visitor{UserID: user, Address: netip.MustParseAddr(address)}
		}
		for i := range addressMisses {
			_, err := s.DeviceRequest(t.Context(), at("2001:db8::1", "user"+string(rune('a'+i/userMisses))), "BBBB-BBBB")
			wantKind(t, "a wrong code", err, core.NotFound)
		}
		_, err := s.DeviceRequest(t.Context(), at("2001:db8::2", s.bo.UserID), code)
		wantKind(t, "from the same network", err, core.RateLimited)
		if _, err = s.DeviceRequest(t.Context(), at("2001:db8:0:1::2", s.bo.UserID), code); err != nil {
			t.Errorf("from another network: %v", err)
		}
	})
}

func TestDeviceRequest_CountsGuessesThatComeTogether(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		var missed atomic.Int32
		var all sync.WaitGroup
		for range 3 * userMisses {
			all.Go(func() {
				_, err := s.DeviceRequest(t.Context(), s.bo, "BBBB-BBBB")
				if core.KindOf(err) == core.NotFound {
					missed.Add(1)
				}
			})
		}
		all.Wait()
		if missed.Load() != userMisses {
			t.Errorf("%d guesses were looked up, want %d", missed.Load(), userMisses)
		}
	})
}

func TestAuthorizedApplications_GathersApprovalsAndRevokesThemTogether(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		approve := func(v Visitor, a Application, o identity.Organization) {
			t.Helper()
			_, code := s.ask(a, "")
			if err := s.ApproveDevice(t.Context(), v, code, o.ID); err != nil {
				t.Fatal(err)
			}
			s.now.Advance(time.Minute)
		}
		approve(s.ada, s.tool, s.acme)
		approve(s.ada, s.tool, s.rival)
		approve(s.ada, s.tool, s.acme)
		approve(s.ada, s.robot, s.acme)
		approve(s.bo, s.tool, s.acme)
		list, err := s.AuthorizedApplications(t.Context(), s.ada.UserID)
		if err != nil || len(list) != 3 {
			t.Fatalf("got %+v, %v", list, err)
		}
		if l := list[1]; l.Application.ID != s.tool.ID || l.OrganizationName != "Acme" || l.OrganizationSlug != "acme" || l.Approvals != 2 ||
			!l.FirstAt.Equal(noon) || !l.LastAt.Equal(noon.Add(2*time.Minute)) || len(l.Scopes) != 2 {
			t.Errorf("the second is %+v", l)
		}
		wantKind(t, "revoking what is another user's", s.RevokeApplication(t.Context(), s.cy.UserID, s.tool.ID, s.acme.ID), core.NotFound)
		if err := s.RevokeApplication(t.Context(), s.ada.UserID, s.tool.ID, s.acme.ID); err != nil {
			t.Fatal(err)
		}
		wantKind(t, "revoking again", s.RevokeApplication(t.Context(), s.ada.UserID, s.tool.ID, s.acme.ID), core.NotFound)
		if list, _ = s.AuthorizedApplications(t.Context(), s.ada.UserID); len(list) != 2 {
			t.Errorf("left are %+v", list)
		}
		if list, _ = s.AuthorizedApplications(t.Context(), s.bo.UserID); len(list) != 1 {
			t.Errorf("of bo are left %+v", list)
		}
	})
}

func TestAddDevice_LimitsWhatOneAddressAsks(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		s.ask(s.tool, "")
		s.exec(`UPDATE tries SET n = $1`, addressRequests)
		_, _, err := s.addDevice(t.Context(), device{application: s.tool, scopes: identity.Scopes{"read_user"}, address: netip.MustParseAddr("203.0.113.9")})
		wantKind(t, "one request too many", err, core.Unavailable)
		if _, _, err := s.addDevice(t.Context(), device{application: s.tool, scopes: identity.Scopes{"read_user"}, address: netip.MustParseAddr("203.0.113.8")}); err != nil {
			t.Errorf("from another address: %v", err)
		}
		s.now.Advance(countWindow)
		s.ask(s.tool, "")
	})
}
