package web_test

import (
	"regexp"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

const acmeMembers = "/organizations/acme/settings/members"

func TestMemberPages_InvitePeople(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		ada.get("/organizations/acme/settings").wantRedirect(acmeMembers)
		ada.get(acmeMembers).want(200, "ada@acme.test", "bo@acme.test", "Invite people")
		bo.get(acmeMembers).want(200, "ada@acme.test").wantNot("Invite people")
		bo.post(acmeMembers+"/invite", "email", "x@acme.test", "role", "admin").want(403)
		ada.post(acmeMembers+"/invite", "email", "x").want(422, "Email is not an email address")
		link := invitationLink(ada.post(acmeMembers+"/invite", "email", "new@acme.test", "role", "member").want(201, "will not be shown again"), s.URL)
		ada.get(acmeMembers).want(200, "Open invitations", "new@acme.test")

		bo.get(link).want(200, "You are signed in as bo@acme.test")
		guest := visit(t, s)
		guest.get(link).want(200, "Join Acme Inc", "new@acme.test", "Your name")
		guest.post(link, "name", "Grace", "new_password", "short").want(422, "Password must have at least 10 characters")
		guest.post(link, "name", "Grace", "new_password", "correct horse battery").wantRedirect("/acme")
		guest.get("/acme").want(200, "Welcome to Acme Inc", "Hello")
		guest.get(acmeMembers).want(200, "Grace").wantNot("Invite people")
		guest.post(acmeClusters, "name", "Mine").want(403)
		visit(t, s).get(link).want(410, "used or withdrawn")

		old := invitationLink(ada.post(acmeMembers+"/invite", "email", "cy@rival.test", "role", "admin").want(201), s.URL)
		visit(t, s).get(old).want(200, "You have an account here").wantLink("/login?return_to=" + old)
		cy := signIn(t, s, "cy@rival.test")
		cy.get(old).want(200, "Join Acme Inc")
		cy.post(old).wantRedirect("/acme")
		cy.get(acmeMembers).want(200, "Invite people")

		withdrawn := invitationLink(ada.post(acmeMembers+"/invite", "email", "late@acme.test", "role", "member").want(201), s.URL)
		id := s.As(t, servertest.Ada).Get("/v2/organizations/acme/invitations").String("0.id")
		ada.post("/organizations/acme/settings/invitations/" + id + "/withdraw").wantRedirect(acmeMembers)
		visit(t, s).get(withdrawn).want(410)

		ada.post(acmeMembers+"/"+servertest.BoID+"/role", "role", "admin").wantRedirect(acmeMembers)
		ada.post(acmeMembers + "/" + servertest.BoID + "/remove").wantRedirect(acmeMembers)
		bo.get(acmeMembers).want(404)
	})
}

func invitationLink(p *page, url string) string {
	p.t.Helper()
	link := regexp.MustCompile(`/signup/invitation/[A-Za-z0-9_-]+`).FindString(p.Body)
	if link == "" {
		p.t.Fatalf("no link in %s", p.text())
	}
	return strings.TrimPrefix(link, url)
}

func TestSettingsPages_OfAnOrganization(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		const settings = "/organizations/acme/settings"
		ada.get(settings+"/teams").want(200, "Teams are not enabled", "Everyone")
		ada.post(settings + "/teams/enable").wantRedirect(settings + "/teams")
		ada.post(settings+"/teams", "name", "", "privacy", "visible", "default_member_role", "member").want(422, "Name")
		ada.post(settings+"/teams", "name", "Builders", "privacy", "visible", "default_member_role", "member").wantRedirect(settings + "/teams")
		team := settings + "/teams/builders"
		ada.post(team+"/members", "user_id", servertest.BoID, "role", "member").wantRedirect(team)
		ada.post(team+"/pipelines", "pipeline_id", servertest.AcmePipelineID, "access_level", "read_only").wantRedirect(team)
		ada.get(team).want(200, "Bo", "hello", "Members can see it")
		bo.get(team).want(200, "Bo").wantNot("Add a member")
		bo.post(team + "/delete").want(403)
		ada.post(team + "/members/" + servertest.BoID + "/remove").wantRedirect(team)
		ada.post(team + "/delete").wantRedirect(settings + "/teams")

		ada.get(settings+"/pipelines").want(200, "Default branch of new pipelines", "Advanced queue metrics")
		ada.post(settings+"/pipelines", "default_branch", "trunk", "default_timeout_in_minutes", "x").want(422)
		ada.post(settings+"/pipelines", "default_branch", "trunk", "default_timeout_in_minutes", "30").wantRedirect(settings + "/pipelines")
		ada.get(settings+"/pipelines").want(200, "Settings saved").wantHTML(`value="trunk"`, `value="30"`)
		ada.post(settings+"/pipelines/switch", "setting", "public-pipelines", "on", "true").wantRedirect(settings + "/pipelines")
		ada.get(settings+"/pipelines").want(200, "Turned on by Ada")
		bo.post(settings+"/pipelines/switch", "setting", "public-pipelines").want(403)

		ada.get(settings+"/connections").want(200, "No connections yet")
		ada.post(settings+"/connections", "host", "github.com", "token", "ghp_hidden").wantRedirect(settings + "/connections")
		ada.get(settings+"/connections").want(200, "github.com").wantNot("ghp_hidden")
		bo.get(settings+"/connections").want(403, "Only administrators")

		const templates = "/organizations/acme/pipeline-templates"
		ada.post(templates, "name", "Shared", "configuration", "steps: [").want(422, "Steps")
		ada.post(templates, "name", "Shared", "configuration", "steps: [{command: date}]", "available", "true").wantRedirect(templates)
		ada.get(templates).want(200, "Shared")
		bo.get(templates).want(200, "Shared").wantNot("New template")
		bo.post(templates, "name", "Mine", "configuration", "steps: [{command: date}]").want(403)
	})
}

func TestSetUpPage_MakesAnOrganization(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		token, err := account.New(d, identity.NewDirectory(d, s.Clock.Now), s.Clock.Now).SetUpLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := visit(t, s)
		v.get("/signup/setup/wrong").want(410, "set-up link")
		at := "/signup/setup/" + token
		v.get(at).want(200, "Organization", "Your name", "Password")
		v.post(at, "organization", "Acme", "name", "Ada", "email", "ada@acme.test", "new_password", "short").want(422, "Password must have").wantHTML(`value="Acme"`)
		v.post(at, "organization", "Acme", "name", "Ada", "email", "ada@acme.test", "new_password", "correct horse battery").want(201, "Stackyard is ready", "stackyard agent --endpoint", "Start the first build")
		v.get("/acme").want(200, "Hello")
		v.get(at).want(410)
		v.post("/acme/hello/builds", "commit", "HEAD", "branch", "main", "message", "First build").wantRedirect("/acme/hello/builds/1")
	})
}
