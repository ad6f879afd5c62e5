package organizations

import (
	"cmp"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A TeamSpec describes a team in the organization file. The slug identifies the team.
type TeamSpec struct {
	Line    int      `yaml:"-"`
	ID      string   `yaml:"id"`
	Name    string   `yaml:"name"`
	Slug    string   `yaml:"slug"` // "": from the name
	Members []string `yaml:"members"`
}

func (s TeamSpec) slug() string { return cmp.Or(s.Slug, core.Slugify(s.Name)) }

// Check reports errors in the spec that can be found without a database.
func (s TeamSpec) Check(c *core.Complaints) {
	c.CheckID(s.Line, s.ID)
	checkName(c, s.Line, s.Name)
	if !validTeamSlug(s.slug()) {
		c.Add(s.Line, "%q cannot be the slug of a team: it takes lower-case letters, digits and hyphens", s.slug())
	}
	for _, email := range s.Members {
		checkEmail(c, s.Line, normalizeEmail(email))
	}
}

// CheckTeams reports errors in the teams of one organization.
func CheckTeams(c *core.Complaints, specs []TeamSpec) {
	for _, s := range specs {
		s.Check(c)
	}
	core.ComplainTwice(c, specs, "team", func(s TeamSpec) (int, string) { return s.Line, s.slug() })
}

// ApplyTeams creates or updates the teams of an organization. It runs after ApplyMembers. Team members that the
// spec does not list are kept.
func ApplyTeams(in identity.Applying, specs []TeamSpec) error {
	a := applier{in}
	for _, spec := range specs {
		if err := a.team(spec); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) team(spec TeamSpec) error {
	name := a.Org.Slug + "/" + spec.slug()
	team, err := TeamBySlug(a.Q, a.Org.ID, spec.slug())
	created := core.KindOf(err) == core.NotFound
	switch {
	case created:
		if team, err = a.newTeam(spec); err != nil || team.ID == "" {
			return err
		}
		a.Changes.Created("team", name)
	case err != nil:
		return err
	}
	if id, given := core.ParseID(spec.ID); given && id != team.ID {
		a.Complaints.Add(spec.Line, "the team %s exists with the id %s, which cannot be changed", team.Slug, team.ID)
		return nil
	}
	changed, err := a.teamMembers(team, spec)
	if err != nil {
		return err
	}
	if team.Name != spec.Name {
		changed, team.Name = true, spec.Name
		if err := updateTeam(a.Q, team); err != nil {
			return err
		}
	}
	if changed && !created {
		a.Changes.Changed("team", name)
	}
	return nil
}

// newTeam inserts a team. The team has no id after a complaint.
func (a *applier) newTeam(spec TeamSpec) (Team, error) {
	id, ok, err := db.FreeID(a.Q, "teams", spec.ID)
	if err != nil {
		return Team{}, err
	}
	if !ok {
		a.Complaints.Add(spec.Line, "the id %s belongs to another team", id)
		return Team{}, nil
	}
	team := newTeam(a.Org.ID, a.Now)
	team.ID, team.Slug, team.Name = id, spec.slug(), spec.Name
	return team, insertTeam(a.Q, team)
}

// teamMembers adds the members that the spec lists to a team and reports whether any was new.
func (a *applier) teamMembers(team Team, spec TeamSpec) (added bool, err error) {
	for _, email := range spec.Members {
		member, err := memberByEmail(a.Q, a.Org.ID, normalizeEmail(email))
		if core.KindOf(err) == core.NotFound {
			a.Complaints.Add(spec.Line, "%s is not a member of the organization %s", email, a.Org.Slug)
			continue
		}
		if err != nil {
			return false, err
		}
		isNew, err := addTeamMember(a.Q, team.ID, member.User.ID, team.DefaultMemberRole, a.Now)
		if err != nil {
			return false, err
		}
		added = added || isNew
	}
	return added, nil
}
