package orgfile_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

var first = orgfile.FirstRun{Organization: "Acme Inc", Name: "Ada", Email: "Ada@acme.test", Password: "correct horse battery"}

func TestSetUp_PreparesAnInstallationOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		accounts := account.New(d, identity.NewDirectory(d, s.Clock.Now), s.Clock.Now)
		setUp := func(token string, f orgfile.FirstRun) (orgfile.Prepared, error) {
			return orgfile.SetUp(t.Context(), d, s.Key, accounts, s.Clock.Now, token, f, account.Origin{Address: netip.MustParseAddr("192.0.2.1")}, "")
		}
		link := func() string {
			t.Helper()
			token, err := accounts.SetUpLink(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		expired := link()
		s.Clock.Advance(account.SetUpLifetime)
		if _, err := setUp(expired, first); core.KindOf(err) != core.Gone {
			t.Errorf("an expired link: %v", err)
		}
		token, other := link(), link()
		for field, wrong := range map[string]orgfile.FirstRun{
			"organization": {Organization: "Settings", Name: "Ada", Email: "a@b.test", Password: first.Password},
			"name":         {Organization: "Acme", Email: "a@b.test", Password: first.Password},
			"email":        {Organization: "Acme", Name: "Ada", Email: "ada", Password: first.Password},
			"new_password": {Organization: "Acme", Name: "Ada", Email: "a@b.test", Password: "short"},
		} {
			if _, err := setUp(token, wrong); core.KindOf(err) != core.Unprocessable || !strings.Contains(err.Error(), field) {
				t.Errorf("a wrong %s: %v", field, err)
			}
		}
		made, err := setUp(token, first)
		if err != nil || made.Organization != "acme-inc" || made.Pipeline != "hello" {
			t.Fatal(made, err)
		}
		session, err := accounts.Session(t.Context(), made.Session, account.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		person, err := identity.NewDirectory(d, time.Now).Person(t.Context(), session.UserID)
		if err != nil || person.User.Email != "ada@acme.test" || person.Membership(person.Organizations()[0]).Role != identity.Admin {
			t.Errorf("%+v %v", person, err)
		}
		s.AsAgent(t, made.AgentToken).Get("/v3/token").Want(200)
		for _, used := range []string{token, other} {
			if _, err := setUp(used, first); core.KindOf(err) != core.Gone {
				t.Errorf("after the set-up: %v", err)
			}
		}
		if again := link(); again != "" {
			t.Error("a link for an installation with an organization")
		}
	})
}
