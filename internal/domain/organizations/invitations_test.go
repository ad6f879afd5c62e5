package organizations_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/account"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const invitationsPath = "/v2/organizations/acme/invitations"

// invite invites an email and returns the token of the link.
func invite(t *testing.T, s *servertest.Server, email, role string) string {
	t.Helper()
	url := s.As(t, servertest.Ada).Post(invitationsPath, map[string]any{"email": email, "role": role}).Want(201).String("accept_url")
	token, ok := strings.CutPrefix(url, s.URL+"/signup/invitation/")
	if !ok {
		t.Fatalf("the link is %s", url)
	}
	return token
}

// services returns the services that accept invitations.
func services(s *servertest.Server) (*organizations.Service, *account.Service) {
	directory := identity.NewDirectory(s.DB, s.Clock.Now)
	return organizations.New(s.DB, directory, core.PublicURL(s.URL), s.Clock.Now), account.New(s.DB, directory, s.Clock.Now)
}

var somewhere = account.Origin{Address: netip.MustParseAddr("192.0.2.1"), UserAgent: "test"}

func TestInvitations_AreCreatedListedAndWithdrawnByAdministrators(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		bo.Get(invitationsPath).Want(403)
		bo.Post(invitationsPath, map[string]any{"email": "new@acme.test"}).Want(403)
		ada.Post(invitationsPath, map[string]any{"email": "nobody"}).WantFieldError("email", "is not an email address")
		ada.Post(invitationsPath, map[string]any{"email": "a@b.test", "role": "king"}).WantFieldError("role", "must be one of")
		ada.Post(invitationsPath, map[string]any{"email": "Bo@acme.test"}).WantFieldError("email", "is already a member")
		first := ada.Post(invitationsPath, map[string]any{"email": " New@Acme.test "}).Want(201)
		if first.String("email") != "new@acme.test" || first.String("role") != "member" || first.String("created_by.name") != "Ada" {
			t.Errorf("%s", first.Body)
		}
		again := ada.Post(invitationsPath, map[string]any{"email": "new@acme.test", "role": "admin"}).Want(201)
		list := ada.Get(invitationsPath).Want(200)
		if list.Len("") != 1 || list.String("0.id") != again.String("id") || list.Has("0.accept_url") {
			t.Errorf("after a second invitation of the same email: %s", list.Body)
		}
		ada.Delete(invitationsPath+"/"+first.String("id")).WantMessage(404, "No invitation found")
		bo.Delete(invitationsPath + "/" + again.String("id")).Want(403)
		ada.Delete(invitationsPath + "/" + again.String("id")).Want(204)
		if n := ada.Get(invitationsPath).Want(200).Len(""); n != 0 {
			t.Errorf("%d invitations after withdrawing the only one", n)
		}
	})
}

func TestSignUp_WorksOnceWithTheRoleOfTheInvitation(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		orgs, accounts := services(s)
		token := invite(t, s, "new@acme.test", "member")
		i, org, known, err := orgs.Invited(t.Context(), token)
		if err != nil || i.Email != "new@acme.test" || org.Slug != "acme" || known {
			t.Fatalf("%+v %+v %v %v", i, org, known, err)
		}
		if _, err := orgs.SignUp(t.Context(), accounts, token, " ", "short", somewhere, ""); core.KindOf(err) != core.Unprocessable || !strings.Contains(err.Error(), "name") || !strings.Contains(err.Error(), "new_password") {
			t.Errorf("%v", err)
		}
		value, err := orgs.SignUp(t.Context(), accounts, token, "Newcomer", "correct horse battery", somewhere, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := accounts.Session(t.Context(), value, somewhere); err != nil {
			t.Error(err)
		}
		members := s.As(t, servertest.Ada).Get("/v2/organizations/acme/members").Want(200)
		if last := members.Len("") - 1; members.String(strconv.Itoa(last)+".email") != "new@acme.test" || members.String(strconv.Itoa(last)+".role") != "member" {
			t.Errorf("%s", members.Body)
		}
		if _, err := orgs.SignUp(t.Context(), accounts, token, "Newcomer", "correct horse battery", somewhere, ""); core.KindOf(err) != core.Gone {
			t.Errorf("a second use: %v", err)
		}
	})
}

func TestInvitation_OfAUserNeedsThatUser(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		orgs, accounts := services(s)
		token := invite(t, s, "cy@rival.test", "admin")
		if _, _, known, err := orgs.Invited(t.Context(), token); err != nil || !known {
			t.Fatal(known, err)
		}
		if _, err := orgs.SignUp(t.Context(), accounts, token, "Cy", "correct horse battery", somewhere, ""); core.KindOf(err) != core.Unprocessable || !strings.Contains(err.Error(), "Sign in") {
			t.Errorf("the link set a password of a user: %v", err)
		}
		user := func(email string) (u identity.User) {
			err := s.DB.Read(t.Context(), func(q *db.Q) (err error) { u, err = account.UserByEmail(q, email); return err })
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		if err := orgs.Join(t.Context(), token, user("bo@acme.test")); core.KindOf(err) != core.Forbidden {
			t.Errorf("another user joined: %v", err)
		}
		if err := orgs.Join(t.Context(), token, user("cy@rival.test")); err != nil {
			t.Fatal(err)
		}
		if err := orgs.Join(t.Context(), token, user("cy@rival.test")); core.KindOf(err) != core.Gone {
			t.Errorf("a second use: %v", err)
		}
	})
}

func TestInvitation_ExpiresAndEndsWhenWithdrawn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		orgs, _ := services(s)
		token := invite(t, s, "new@acme.test", "member")
		s.Clock.Advance(organizations.InvitationLifetime - time.Second)
		if _, _, _, err := orgs.Invited(t.Context(), token); err != nil {
			t.Error(err)
		}
		s.Clock.Advance(time.Second)
		if _, _, _, err := orgs.Invited(t.Context(), token); core.KindOf(err) != core.Gone {
			t.Errorf("after it expired: %v", err)
		}
		if n := s.As(t, servertest.Ada).Get(invitationsPath).Want(200).Len(""); n != 0 {
			t.Errorf("%d invitations are listed after they expired", n)
		}
	})
}
