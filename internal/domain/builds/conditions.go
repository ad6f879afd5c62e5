package builds

import (
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/definition"
)

// ConditionFailed is why a step does not run whose condition is not met.
const ConditionFailed = "conditional_failed"

// context returns what the conditions of a build's steps can ask about.
func (b *Build) context(org *identity.Organization, p *pipelines.Pipeline, creatorTeams []string, env lookUp) *condition.Context {
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
		c.Build.PullRequest = &condition.PullRequest{ID: pr.ID, BaseBranch: pr.Base, Labels: append([]string{}, pr.Labels...), Repository: pr.Repository}
	}
	return c
}

// teamsOf returns the slugs of the teams of an organization that a user is in.
func teamsOf(q *db.Q, orgID string, u *identity.User) ([]string, error) {
	if u == nil {
		return nil, nil
	}
	return db.Strings(q, `
		SELECT t.slug FROM team_members m JOIN teams t ON t.id = m.team_id
		WHERE t.organization_id = $1 AND m.user_id = $2
		ORDER BY t.slug`, orgID, u.ID)
}

// holds reports whether the condition of a step, if it has one, is met. Many steps may share one, which
// is evaluated once.
func (p *planner) holds(s definition.Step) bool {
	if s.If == "" {
		return true
	}
	met, known := p.conditions[s.If]
	if !known {
		parsed, err := condition.Parse(s.If)
		if err != nil {
			panic(err) // it was checked when the definition was read
		}
		met = parsed.Eval(p.context)
		p.conditions[s.If] = met
	}
	return met
}
