package builds

import (
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/plan"
)

// Context returns the values that the conditions of a build's steps refer to.
func (b *Build) Context(org *identity.Organization, p *pipelines.Pipeline, creatorTeams []string, env plan.Lookup) *condition.Context {
	c := &condition.Context{
		Build: condition.Build{
			ID:      b.ID,
			Number:  int64(b.Number),
			Branch:  b.Branch,
			Commit:  b.Commit,
			Tag:     core.OrNull(b.Tag),
			Message: core.OrNull(b.Message),
			Source:  string(b.Source),
			State:   string(b.State),
		},
		Pipeline:     condition.Pipeline{ID: p.ID, Slug: p.Slug, DefaultBranch: p.DefaultBranch, Repository: p.Repository},
		Organization: condition.Organization{ID: org.ID, Slug: org.Slug},
		Env:          env,
	}
	if a := b.Author; a != nil {
		c.Build.Author = &condition.Person{Name: a.Name, Email: a.Email}
	}
	if u := b.Creator; u != nil {
		c.Build.Creator = &condition.Person{ID: u.ID, Name: u.Name, Email: u.Email, Teams: creatorTeams}
	}
	if pr := b.PullRequest; pr != nil {
		c.Build.PullRequest = pr.Condition()
	}
	if e := b.SourceEvent; e != nil {
		c.Build.SourceEvent, c.Build.SourceAction = core.OrNull(e.Name), core.OrNull(e.Action)
		c.Build.MergeQueue = e.MergeQueue.Condition()
	}
	return c
}

// Condition returns the pull request as conditions see it.
func (pr *PullRequest) Condition() *condition.PullRequest {
	return &condition.PullRequest{
		ID:         pr.ID,
		BaseBranch: pr.Base,
		Draft:      pr.Draft,
		Labels:     append([]string{}, pr.Labels...),
		Label:      core.OrNull(pr.Label),
		Repository: pr.Repository,
		Fork:       pr.Fork,
	}
}

// Condition returns the merge queue as conditions see it.
func (m *MergeQueue) Condition() *condition.MergeQueue {
	if m == nil {
		return nil
	}
	return &condition.MergeQueue{BaseBranch: m.BaseBranch, BaseCommit: m.BaseCommit}
}

// TeamsOf returns the slugs of a user's teams in an organization.
func TeamsOf(q *db.Q, orgID string, u *identity.User) ([]string, error) {
	if u == nil {
		return nil, nil
	}
	return db.Strings(q, `
		SELECT t.slug FROM team_members m JOIN teams t ON t.id = m.team_id
		WHERE t.organization_id = $1 AND m.user_id = $2
		ORDER BY t.slug`, orgID, u.ID)
}
