package organizations

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/domain/account"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// file is the part of an organization file that this package reads.
type file struct {
	OrganizationSpec `yaml:",inline"`
	Members          []MemberSpec `yaml:"members"`
	Teams            []TeamSpec   `yaml:"teams"`
}

// apply applies YAML with one document per organization. It returns the reported changes, or the complaints.
func apply(t *testing.T, d *db.DB, source string) (lines []string, complaints string) {
	t.Helper()
	var files []file
	var found core.Complaints
	var members []MemberSpec
	decoder := yaml.NewDecoder(strings.NewReader(source))
	for {
		var f file
		if err := decoder.Decode(&f); err != nil {
			break
		}
		f.Check(&found)
		CheckMembers(&found, f.Members)
		CheckTeams(&found, f.Teams)
		members = append(members, f.Members...)
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("nothing to apply in:\n%s", source)
	}
	CheckUsers(&found, members)
	if len(found) > 0 {
		return nil, sentences(found)
	}
	passwords, err := HashPasswords(t.Context(), d, members)
	if err != nil {
		t.Fatal(err)
	}
	var changes core.Changes
	err = identity.NewDirectory(d, core.SystemClock).Change(t.Context(), func(q *db.Q) error {
		changes, found = core.Changes{}, nil
		for _, f := range files {
			org, err := ApplyOrganization(q, f.OrganizationSpec, noon, &changes, &found)
			if err != nil {
				return err
			}
			if org == nil {
				continue
			}
			in := identity.Applying{Q: q, Org: org, Now: noon, Changes: &changes, Complaints: &found}
			if err := ApplyMembers(in, f.Members, passwords); err != nil {
				return err
			}
			if err := ApplyTeams(in, f.Teams); err != nil {
				return err
			}
		}
		return found.Err()
	})
	if err != nil && len(found) == 0 {
		t.Fatal(err)
	}
	return changes.Lines, sentences(found)
}

func sentences(complaints core.Complaints) string {
	var all []string
	for _, c := range complaints {
		all = append(all, c.Message)
	}
	return strings.Join(all, "\n")
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// mustApply applies valid YAML and checks the reported changes.
func mustApply(t *testing.T, d *db.DB, source string, want ...string) {
	t.Helper()
	lines, complaints := apply(t, d, source)
	if complaints != "" {
		t.Fatalf("complaints:\n%s", complaints)
	}
	if !slices.Equal(lines, want) {
		t.Fatalf("applying did\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

const acme = `
slug: acme
name: Acme Inc
id: 0190c0de-0000-7000-8000-0000000000aa
features: {teams: true, tracestate: false}
limits:
  stacks: 5
  stack_requests_per_second: {list-scheduled-jobs: 20}
  rest_requests_per_second: 0
  build_retention_days: 90
  fair_share: {enabled: true, weights: {deploy: 3}}
members:
  - email: Ada@Acme.test
    id: 0190C0DE-0000-7000-8000-000000000001
    name: Ada
    role: admin
    password: correct horse battery staple
    access_tokens:
      - description: everything
        token: svcua_ada-everything
        scopes: ["*"]
      - description: builds only
        token: svcua_ada-builds
        scopes: [read_builds, write_builds]
        expires_at: 2030-01-01T00:00:00Z
  - email: ben@acme.test
    permissions: [stop_agents, manage_clusters]
teams:
  - name: Everyone
    slug: everyone
    members: [ada@acme.test, BEN@acme.test]
  - name: Release Crew
`

func TestApply_MakesWhatTheFileSays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		mustApply(t, d, acme,
			"created organization acme",
			"created member acme/ada@acme.test",
			"created access_token ada@acme.test/everything",
			"created access_token ada@acme.test/builds only",
			"created member acme/ben@acme.test",
			"created team acme/everyone",
			"created team acme/release-crew",
		)
		dir := identity.NewDirectory(d, core.SystemClock)
		org, err := dir.Organization(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if org.ID != "0190c0de-0000-7000-8000-0000000000aa" || org.Name != "Acme Inc" || org.Suspended || !org.CreatedAt.Equal(noon) {
			t.Errorf("the organization is %+v", org)
		}
		features := identity.DefaultFeatures
		features.Teams, features.Tracestate = true, false
		if org.Features != features {
			t.Errorf("features are %+v", org.Features)
		}
		if l := quotas.Of(org); l.Stacks != 5 || l.RESTRequestsPerSecond != 0 || l.BuildRetentionDays != 90 || !l.FairShare.On || l.FairShare.Weight("deploy") != 3 || l.FairShare.Weight("other") != 1 || l.StackRequestsPerSecond["list-scheduled-jobs"] != 20 {
			t.Errorf("limits are %+v", l)
		}
		ada, err := dir.Authenticate(t.Context(), "svcua_ada-everything")
		if err != nil {
			t.Fatal(err)
		}
		if u := ada.User; u.ID != "0190c0de-0000-7000-8000-000000000001" || u.Email != "ada@acme.test" || u.Name != "Ada" {
			t.Errorf("the user is %+v", u)
		}
		m := ada.Membership(org.ID)
		if m == nil || m.Role != identity.Admin || m.SSOMode != identity.SSOOptional || len(m.Teams) != 1 || m.Teams[0].Slug != "everyone" {
			t.Errorf("the membership is %+v", m)
		}
		builds, err := dir.Authenticate(t.Context(), "svcua_ada-builds")
		if err != nil {
			t.Fatal(err)
		}
		if tok := builds.Token; !slices.Equal(tok.Scopes, identity.Scopes{"read_builds", "write_builds"}) || !tok.ExpiresAt.Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("the token is %+v", tok)
		}
		ben := memberByEmailOf(t, d, "acme", "ben@acme.test")
		if ben.User.Name != "ben" || ben.Role != identity.Member || fmt.Sprint(ben.Permissions) != "[manage_clusters stop_agents]" {
			t.Errorf("the member is %+v", ben)
		}
		if !hasPassword(t, d, "ada@acme.test", "correct horse battery staple") || hasPassword(t, d, "ben@acme.test", "") {
			t.Error("the passwords are not those of the file")
		}
	})
}

// memberByEmailOf returns the member of an organization with an email.
func memberByEmailOf(t *testing.T, d *db.DB, slug, email string) (m Member) {
	t.Helper()
	err := d.Read(t.Context(), func(q *db.Q) error {
		org, err := identity.OrganizationBySlug(q, slug)
		if err != nil {
			return err
		}
		m, err = memberByEmail(q, org.ID, email)
		return err
	})
	if err != nil {
		t.Fatalf("%s in %s: %v", email, slug, err)
	}
	return m
}

func hasPassword(t *testing.T, d *db.DB, email, password string) (has bool) {
	t.Helper()
	err := d.Read(t.Context(), func(q *db.Q) error {
		stored, err := account.PasswordHashes(q, []string{email})
		has = seal.CheckPassword(stored[email], password)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// organizationsOf returns the slugs of the organizations that a token has access to.
func organizationsOf(t *testing.T, d *db.DB, token string) []string {
	t.Helper()
	caller, err := identity.NewDirectory(d, core.SystemClock).Authenticate(t.Context(), token)
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	var slugs []string
	err = d.Read(t.Context(), func(q *db.Q) error {
		orgs, _, err := identity.OrganizationsByID(q, caller.Organizations(), 100, 0)
		slugs = nil
		for _, o := range orgs {
			slugs = append(slugs, o.Slug)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slugs
}

// teamsOf returns the user's teams in an organization as "slug role".
func teamsOf(t *testing.T, d *db.DB, slug, email string) []string {
	t.Helper()
	var teams []string
	err := d.Read(t.Context(), func(q *db.Q) (err error) {
		teams, err = db.All(q, func(scan db.Scan) (string, error) {
			var team, role string
			err := scan(&team, &role)
			return team + " " + role, err
		}, `
			SELECT t.slug, m.role
			FROM team_members m
			JOIN teams t ON t.id = m.team_id
			JOIN users u ON u.id = m.user_id
			JOIN organizations o ON o.id = t.organization_id
			WHERE o.slug = $1 AND u.email = $2
			ORDER BY t.slug`, slug, email)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return teams
}

func TestApply_TwiceDoesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		apply(t, d, acme)
		mustApply(t, d, acme)
	})
}

func TestApply_ByTwoAtOnceCreatesOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		source := "{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: x, token: svcua_x, scopes: []}]}], teams: [{name: A, members: [ada@acme.test]}]}"
		var wg sync.WaitGroup
		var did [4][]string
		for i := range did {
			wg.Go(func() { did[i], _ = apply(t, d, source) })
		}
		wg.Wait()
		if lines := slices.Concat(did[:]...); len(lines) != 4 {
			t.Errorf("did %q", lines)
		}
	})
}

func TestApply_LeavesAloneWhatTheFileDoesNotName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		apply(t, d, acme)
		mustApply(t, d, "{slug: acme, members: [{email: ada@acme.test}, {email: ben@acme.test}], teams: [{name: Everyone}]}")
		mustApply(t, d, "{slug: acme, suspended: true, features: {teams: false}, limits: {stack_requests_per_second: {show-job: 7}}}", "changed organization acme")
		org, err := identity.NewDirectory(d, core.SystemClock).Organization(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if !org.Suspended || org.Name != "Acme Inc" || org.Features.Teams || org.Features.Tracestate || quotas.Of(org).Stacks != 5 {
			t.Errorf("the organization is %+v", org)
		}
		if got := fmt.Sprint(quotas.Of(org).StackRequestsPerSecond); got != "map[list-scheduled-jobs:20 show-job:7]" {
			t.Errorf("the stacks API's limits are %s", got)
		}
	})
}

func TestApply_ChangesMembers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		apply(t, d, acme)
		for _, change := range []string{"role: admin", "permissions: []", "name: Ben", "password: secret", "password: other"} {
			source := "{slug: acme, members: [{email: ben@acme.test, " + change + "}]}"
			mustApply(t, d, source, "changed member acme/ben@acme.test")
			mustApply(t, d, source)
		}
		ben := memberByEmailOf(t, d, "acme", "ben@acme.test")
		if ben.User.Name != "Ben" || ben.Role != identity.Admin || len(ben.Permissions) != 0 {
			t.Errorf("the member is %+v", ben)
		}
		if hasPassword(t, d, "ben@acme.test", "secret") || !hasPassword(t, d, "ben@acme.test", "other") {
			t.Error("the password was not changed")
		}
	})
}

func TestApply_GeneratesATokenOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		source := "{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: my laptop, scopes: [read_user]}]}]}"
		lines, _ := apply(t, d, source)
		if len(lines) != 4 || lines[2] != "created access_token ada@acme.test/my laptop" {
			t.Fatalf("did %q", lines)
		}
		token, ok := strings.CutPrefix(lines[3], "token access_token ada@acme.test/my laptop ")
		if !ok || !strings.HasPrefix(token, "svcua_") || !slices.Equal(organizationsOf(t, d, token), []string{"acme"}) {
			t.Errorf("the line is %q", lines[3])
		}
		mustApply(t, d, source)
	})
}

func TestApply_ChangesTokens(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		token := func(fields string) string {
			return "{slug: acme, members: [{email: ada@acme.test, access_tokens: [{" + fields + "}]}]}"
		}
		apply(t, d, token("description: a, token: svcua_1, scopes: [read_user, read_builds]"))
		mustApply(t, d, token("description: a, scopes: [read_builds, read_user]"))
		mustApply(t, d, token("description: a, scopes: [read_builds]"), "changed access_token ada@acme.test/a")
		mustApply(t, d, token("description: a, scopes: [read_builds], expires_at: 2000-01-01T00:00:00Z"), "changed access_token ada@acme.test/a")
		mustApply(t, d, token("description: a, scopes: [read_builds], expires_at: 2999-01-01T00:00:00.1234567Z"), "changed access_token ada@acme.test/a")
		mustApply(t, d, token("description: a, scopes: [read_builds], expires_at: 2999-01-01T00:00:00.1234567Z"))
		mustApply(t, d, token("description: b, token: svcua_1, scopes: [read_builds]"), "changed access_token ada@acme.test/b")
		mustApply(t, d, token("description: b, token: svcua_2, scopes: [read_builds]"), "changed access_token ada@acme.test/b")
		organizationsOf(t, d, "svcua_2")
		if _, err := identity.NewDirectory(d, core.SystemClock).Authenticate(t.Context(), "svcua_1"); core.KindOf(err) != core.Unauthorized {
			t.Errorf("the replaced token still works: %v", err)
		}
	})
}

func TestApply_SharesPeopleAndTokensBetweenOrganizations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		member := "members: [{email: ada@acme.test, name: Ada, password: secret, access_tokens: [{description: all, token: svcua_1, scopes: ['*']}]}]"
		source := "slug: acme\n" + member + "\n---\nslug: rival\n" + member
		mustApply(t, d, source,
			"created organization acme", "created member acme/ada@acme.test", "created access_token ada@acme.test/all",
			"created organization rival", "created member rival/ada@acme.test", "changed access_token ada@acme.test/all")
		mustApply(t, d, source)
		if got := organizationsOf(t, d, "svcua_1"); !slices.Equal(got, []string{"acme", "rival"}) {
			t.Errorf("the token reaches %q", got)
		}
		if a, b := memberByEmailOf(t, d, "acme", "ada@acme.test"), memberByEmailOf(t, d, "rival", "ada@acme.test"); a.User.ID != b.User.ID {
			t.Error("one email is two users")
		}
	})
}

func TestApply_NewMembersJoinDefaultTeams(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		apply(t, d, "{slug: acme, members: [{email: ada@acme.test}], teams: [{name: A}, {name: B}]}")
		err := d.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE teams SET is_default = TRUE, default_member_role = 'maintainer' WHERE slug = 'b'`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, d, "{slug: acme, members: [{email: ada@acme.test}, {email: ben@acme.test}]}", "created member acme/ben@acme.test")
		if got := teamsOf(t, d, "acme", "ben@acme.test"); !slices.Equal(got, []string{"b maintainer"}) {
			t.Errorf("the new member is in %q", got)
		}
		if got := teamsOf(t, d, "acme", "ada@acme.test"); len(got) > 0 {
			t.Errorf("who was there before is in %q", got)
		}
	})
}

func TestApply_ChangesTeams(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		apply(t, d, acme)
		mustApply(t, d, "{slug: acme, teams: [{name: All of us, slug: everyone}]}", "changed team acme/everyone")
		mustApply(t, d, "{slug: acme, teams: [{name: Release Crew, members: [ben@acme.test]}]}", "changed team acme/release-crew")
		if got := teamsOf(t, d, "acme", "ben@acme.test"); !slices.Equal(got, []string{"everyone member", "release-crew member"}) {
			t.Errorf("the member is in %q", got)
		}
	})
}

func TestApply_Complains(t *testing.T) {
	const other = "0190c0de-0000-7000-8000-0000000000ff"
	known := strings.Replace(acme, "password: correct horse battery staple", "", 1) // hashing is slow
	for name, c := range map[string]struct{ source, want string }{
		"a reserved slug":             {"slug: v2", `"v2" cannot be the slug of an organization`},
		"a slug in capitals":          {"slug: Acme", `"Acme" cannot be the slug`},
		"no slug":                     {"name: Acme", `"" cannot be the slug`},
		"a blank name":                {"{slug: acme, name: ' '}", "a name must have 1 to 255 characters"},
		"an id that is not one":       {"{slug: acme, id: 7}", `"7" is not a UUID`},
		"another id":                  {"{slug: acme, id: " + other + "}", "the organization acme exists with the id"},
		"another organization's id":   {"{slug: rival, id: 0190c0de-0000-7000-8000-0000000000aa}", "belongs to another organization"},
		"negative stacks":             {"{slug: acme, limits: {stacks: -1}}", "stacks must not be negative"},
		"a negative rate":             {"{slug: acme, limits: {rest_requests_per_second: -1}}", "rest_requests_per_second must not be negative"},
		"a negative retention":        {"{slug: acme, limits: {build_retention_days: -1}}", "build_retention_days must be an integer from 0"},
		"a weight of nothing":         {"{slug: acme, limits: {fair_share: {weights: {deploy: 0}}}}", "the weight of the pipeline deploy must be an integer from 1 to 1000"},
		"an unknown rate":             {"{slug: acme, limits: {stack_requests_per_second: {fly: 1}}}", `unknown scope "fly"`},
		"a rate of nothing":           {"{slug: acme, limits: {stack_requests_per_second: {default: 0}}}", "must be at least 1"},
		"an email without an at":      {"{slug: acme, members: [{email: ada}]}", `"ada" is not an email address`},
		"an email with a space":       {"{slug: acme, members: [{email: a da@acme.test}]}", "is not an email address"},
		"a member twice":              {"{slug: acme, members: [{email: a@b}, {email: A@b}]}", `the member "a@b" is already given`},
		"an unknown role":             {"{slug: acme, members: [{email: a@b, role: owner}]}", `"owner" is not a role; the roles are admin, member`},
		"an empty password":           {"{slug: acme, members: [{email: a@b, password: ''}]}", "a password must have"},
		"an unknown permission":       {"{slug: acme, members: [{email: a@b, permissions: [change_organization]}]}", `"change_organization" is not a permission`},
		"a member's other id":         {"{slug: acme, members: [{email: ben@acme.test, id: " + other + "}]}", "ben@acme.test exists with the id"},
		"another user's id":           {"{slug: acme, members: [{email: a@b, id: 0190c0de-0000-7000-8000-000000000001}]}", "belongs to another user"},
		"a token without description": {"{slug: acme, members: [{email: a@b, access_tokens: [{scopes: []}]}]}", "needs a description"},
		"a token without scopes":      {"{slug: acme, members: [{email: a@b, access_tokens: [{description: x}]}]}", "needs scopes"},
		"a token with spaces":         {"{slug: acme, members: [{email: a@b, access_tokens: [{description: x, scopes: [], token: a b}]}]}", "no spaces"},
		"an unknown scope":            {"{slug: acme, members: [{email: a@b, access_tokens: [{description: x, scopes: [fly]}]}]}", "unknown scopes: fly"},
		"a token twice":               {"{slug: acme, members: [{email: a@b, access_tokens: [{description: x, scopes: []}, {description: x, scopes: []}]}]}", `the access token "x" is already given`},
		"another user's token":        {"{slug: acme, members: [{email: ben@acme.test, access_tokens: [{description: x, scopes: [], token: svcua_ada-builds}]}]}", "already belongs to another user"},
		"a token's other id":          {"{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: everything, scopes: ['*'], id: " + other + "}]}]}", `the access token "everything" exists with the id`},
		"two names of one person":     {"{slug: acme, members: [{email: a@b, name: A}]}\n---\n{slug: rival, members: [{email: a@b, name: B}]}", "is the same person"},
		"two passwords of one person": {"{slug: acme, members: [{email: a@b, password: A}]}\n---\n{slug: rival, members: [{email: a@b, password: B}]}", "is the same person"},
		"two scopes of one token": {"{slug: acme, members: [{email: a@b, access_tokens: [{description: x, token: t, scopes: []}]}]}\n---\n" +
			"{slug: rival, members: [{email: a@b, access_tokens: [{description: x, token: t, scopes: ['*']}]}]}", "this is the same token"},
		"two owners of one token": {"{slug: acme, members: [{email: a@b, access_tokens: [{description: x, token: t, scopes: []}]}, " +
			"{email: b@b, access_tokens: [{description: x, token: t, scopes: []}]}]}", "this is the same token"},
		"a team without a name":   {"{slug: acme, teams: [{slug: x}]}", "a name must have"},
		"a team without a slug":   {"{slug: acme, teams: [{name: '!'}]}", `"" cannot be the slug of a team`},
		"a team called enable":    {"{slug: acme, teams: [{name: Enable}]}", `"enable" cannot be the slug of a team`},
		"a team twice":            {"{slug: acme, teams: [{name: A}, {name: a}]}", `the team "a" is already given`},
		"a team's other id":       {"{slug: acme, teams: [{name: Everyone, id: " + other + "}]}", "the team everyone exists with the id"},
		"a stranger in a team":    {"{slug: acme, teams: [{name: A, members: [x@y.test]}]}", "x@y.test is not a member of the organization acme"},
		"an address in no form":   {"{slug: acme, teams: [{name: A, members: [x]}]}", `"x" is not an email address`},
		"a member of another org": {"{slug: rival, teams: [{name: A, members: [ben@acme.test]}]}", "ben@acme.test is not a member of the organization rival"},
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.New(t, db.SQLite)
			apply(t, d, known)
			if _, complaints := apply(t, d, c.source); !strings.Contains(complaints, c.want) {
				t.Errorf("complains %q, want %q", complaints, c.want)
			}
		})
	}
}
