package organizations

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
	"stackyard/internal/identity"
	"stackyard/internal/seal"
)

// file is as much of an organization file as this room reads.
type file struct {
	OrganizationSpec `yaml:",inline"`
	Members          []MemberSpec `yaml:"members"`
	Teams            []TeamSpec   `yaml:"teams"`
}

// apply applies YAML, one document for each organization, as the organization file does: what was done,
// or the complaints.
func apply(t *testing.T, d *db.DB, source string) (lines []string, complaints string) {
	t.Helper()
	var files []file
	var found core.Complaints
	var everybody []MemberSpec
	decoder := yaml.NewDecoder(strings.NewReader(source))
	for {
		var f file
		if err := decoder.Decode(&f); err != nil {
			break
		}
		f.Check(&found)
		CheckMembers(&found, f.Members)
		CheckTeams(&found, f.Teams)
		everybody = append(everybody, f.Members...)
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("nothing to apply in:\n%s", source)
	}
	CheckPeople(&found, everybody)
	if len(found) > 0 {
		return nil, sentences(found)
	}
	passwords, err := HashPasswords(t.Context(), d, everybody)
	if err != nil {
		t.Fatal(err)
	}
	var changes core.Changes
	err = identity.NewDirectory(d, core.SystemClock).Change(t.Context(), func(q *db.Q) error {
		changes, found = core.Changes{}, nil
		for _, f := range files {
			org, err := ApplyOrganization(q, f.OrganizationSpec, noon, &changes, &found)
			if err != nil || org == nil {
				return err
			}
			if err := ApplyMembers(q, org, noon, f.Members, passwords, &changes, &found); err != nil {
				return err
			}
			if err := ApplyTeams(q, org, noon, f.Teams, &changes, &found); err != nil {
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

// mustApply applies YAML that is right, and checks what it says it did.
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
		if l := org.Limits; l.Stacks != 5 || l.RESTRequestsPerSecond != 0 || l.StackRequestsPerSecond["list-scheduled-jobs"] != 20 {
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
		err = d.Read(t.Context(), func(q *db.Q) error {
			ben, err := memberByEmail(q, org.ID, "ben@acme.test")
			if ben.User.Name != "ben" || ben.Role != identity.Member || fmt.Sprint(ben.Permissions) != "[manage_clusters stop_agents]" {
				t.Errorf("the member is %+v", ben)
			}
			stored, err2 := passwordHashes(q, map[string]string{"ada@acme.test": "", "ben@acme.test": ""})
			if !seal.CheckPassword(stored["ada@acme.test"], "correct horse battery staple") || stored["ben@acme.test"] != "" {
				t.Errorf("the password hashes are %v", stored)
			}
			return cmpErr(err, err2)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestApply_TwiceDoesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		apply(t, d, acme)
		mustApply(t, d, acme)
	})
}
