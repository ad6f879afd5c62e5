package orgfile

import (
	"context"
	"strings"
	"unicode/utf8"

	"stackyard/internal/domain/account"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A FirstRun is what the first person enters to set up an installation.
type FirstRun struct {
	Organization string // its name
	Name         string // of the person
	Email        string
	Password     string
}

// Prepared is a new installation.
type Prepared struct {
	Organization string // slug
	AgentToken   string // shown once
	Pipeline     string // slug
	Session      string // value of the person's cookie
}

// firstPipeline runs on any agent: it needs no repository.
const firstPipeline = `env:
  SERVICE_SKIP_CHECKOUT: "true" # remove it once the pipeline has a repository
steps:
  - label: Say hello
    command: echo "Hello from Stackyard"
`

// SetUp sets up an installation with a set-up link: an organization with its administrator, a cluster with a
// queue and an agent token, and a pipeline to try. The link ends in the same transaction.
func SetUp(ctx context.Context, d *db.DB, key seal.Key, accounts *account.Service, clock core.Clock, token string, first FirstRun, from account.Origin, before string) (Prepared, error) {
	if err := accounts.CheckSetUpLink(ctx, token); err != nil {
		return Prepared{}, err
	}
	f, err := first.file()
	if err != nil {
		return Prepared{}, err
	}
	passwords, err := organizations.HashPasswords(ctx, d, f.members())
	if err != nil {
		return Prepared{}, err
	}
	org := f.Organizations[0]
	made := Prepared{Organization: org.Slug, Pipeline: org.Pipelines[0].Slug, AgentToken: org.Clusters[0].AgentTokens[0].Token}
	err = d.Write(ctx, func(q *db.Q) error {
		if err := accounts.UseSetUpLink(q, token); err != nil {
			return err
		}
		var changes core.Changes
		if err := f.apply(q, key, passwords, clock(), &changes); err != nil {
			return err
		}
		user, err := account.UserByEmail(q, account.NormalizeEmail(first.Email))
		if err != nil {
			return err
		}
		if made.Session, err = accounts.StartSession(q, user.ID, account.ByLink, from, before); err != nil {
			return err
		}
		return identity.NoteChange(q)
	})
	return made, err
}

// file returns the organization file of a first run, or an error with the fields that are wrong.
func (f FirstRun) file() (*file, error) {
	var problems core.Problems
	name, person := strings.TrimSpace(f.Organization), strings.TrimSpace(f.Name)
	slug := core.Slugify(name)
	switch {
	case name == "" || utf8.RuneCountInString(name) > 255:
		problems.Add("organization", "needs a name of 1 to 255 characters")
	case !identity.ValidOrganizationSlug(slug):
		problems.Add("organization", "cannot have this name: its address would be /%s", slug)
	}
	if person == "" || utf8.RuneCountInString(person) > 255 {
		problems.Add("name", "must have 1 to 255 characters")
	}
	account.CheckNewPassword(&problems, f.Email, f.Password)
	admin, yes, cluster, hello, repository, steps := identity.Admin, true, "Default", "Hello", "https://git.example.test/hello.git", firstPipeline
	o := organization{
		OrganizationSpec: organizations.OrganizationSpec{Slug: slug, Name: &name},
		Members:          []organizations.MemberSpec{{Email: f.Email, Name: &person, Role: &admin, Password: &f.Password}},
		Clusters: []clusters.Spec{{
			Name: cluster, Default: &yes,
			Queues:      []clusters.QueueSpec{{Key: "default", Default: &yes}},
			AgentTokens: []clusters.AgentTokenSpec{{Description: "First agents", Token: seal.NewToken(identity.AgentTokenPrefix)}},
		}},
		Pipelines: []pipeline{{Spec: pipelines.Spec{Slug: "hello", Name: &hello, Repository: &repository, Cluster: &cluster, Configuration: &steps}}},
	}
	var complaints core.Complaints
	organizations.CheckMembers(&complaints, o.Members)
	if len(complaints) > 0 && len(problems) == 0 {
		problems.Add("email", "is not an email address")
	}
	return &file{Organizations: []organization{o}}, problems.Err()
}
