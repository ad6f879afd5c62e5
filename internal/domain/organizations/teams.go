package organizations

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const (
	maxName        = 255      // characters of a name
	maxDescription = 16 << 10 // bytes of a description
)

// Privacy says who sees a team.
type Privacy string

// The privacies. A secret team is seen by its members and administrators only.
const (
	Visible Privacy = "visible"
	Secret  Privacy = "secret"
)

// Values lists every privacy.
func (Privacy) Values() []string { return []string{string(Visible), string(Secret)} }

// A Team is a group of an organization's members. It has access to pipelines on their behalf.
type Team struct {
	ID                          string
	OrganizationID              string
	Slug                        string // from the first name; it stays when the team is renamed
	Name                        string
	Description                 string
	Privacy                     Privacy
	Default                     bool // who becomes a member of the organization joins it
	DefaultMemberRole           identity.TeamRole
	MembersCanCreatePipelines   bool
	MembersCanCreateSuites      bool
	MembersCanCreateRegistries  bool
	MembersCanDestroyRegistries bool
	MembersCanDestroyPackages   bool
	CreatedBy                   *identity.User // nil: nobody, or somebody who is gone
	CreatedAt                   time.Time
}

// newTeam returns a team with the defaults, without a name.
func newTeam(organizationID string, now time.Time) Team {
	return Team{
		ID:                core.NewID(),
		OrganizationID:    organizationID,
		Privacy:           Visible,
		DefaultMemberRole: identity.TeamMember,
		CreatedAt:         now,
	}
}

// validTeamSlug reports whether a team may have this slug. The path of a team called enable would be
// that of enabling teams.
func validTeamSlug(slug string) bool { return core.ValidSlug(slug) && slug != "enable" }

// validate tells everything that is wrong with what somebody made of a team.
func (t *Team) validate() error {
	var problems core.Problems
	switch {
	case strings.TrimSpace(t.Name) == "":
		problems.Add("name", "is required")
	case utf8.RuneCountInString(t.Name) > maxName:
		problems.Add("name", "must have at most %d characters", maxName)
	case !validTeamSlug(t.Slug):
		problems.Add("name", "must have a letter or digit, and not be a word of this API")
	}
	if len(t.Description) > maxDescription {
		problems.Add("description", "must have at most %d bytes", maxDescription)
	}
	requireOneOf(&problems, "privacy", t.Privacy)
	requireOneOf(&problems, "default_member_role", t.DefaultMemberRole)
	return refuse(problems)
}

// refuse returns nil when there are no problems, else an error that tells all of them in its message,
// as the teams endpoints do.
func refuse(problems core.Problems) error {
	if len(problems) == 0 {
		return nil
	}
	rules := make([]string, len(problems))
	for i, p := range problems {
		rules[i] = p.Field + " " + p.Code
	}
	return &core.Error{Kind: core.Unprocessable, Message: "Validation failed: " + strings.Join(rules, ", "), Fields: problems}
}

// refuseField returns the error for one field that breaks a rule.
func refuseField(field, rule string) error {
	return refuse(core.Problems{{Field: field, Code: rule}})
}

// enumerated is a string type that lists its values.
type enumerated interface {
	~string
	Values() []string
}

func oneOf[E enumerated](e E) bool { return slices.Contains(e.Values(), string(e)) }

// list names the values of e's type.
func list[E enumerated](e E) string { return strings.Join(e.Values(), ", ") }

func requireOneOf[E enumerated](problems *core.Problems, field string, e E) {
	if !oneOf(e) {
		problems.Add(field, "must be one of %s", list(e))
	}
}

// Permits lets administrators do everything, and maintainers what ManageTeam stands for.
func (t *Team) Permits(r *route.Request, p identity.Permission) bool {
	if r.Member.Can(identity.ManageTeams, r.Org) {
		return true
	}
	return p == identity.ManageTeam && slices.ContainsFunc(r.Member.Teams, func(m identity.TeamMembership) bool {
		return m.TeamID == t.ID && m.Role == identity.TeamMaintainer
	})
}

// viewer is who looks at teams and what they have access to.
type viewer struct {
	userID       string
	allTeams     bool // secret ones too
	allPipelines bool // also those that none of the viewer's teams has access to
}

func viewerOf(r *route.Request) viewer {
	administrator := r.Member.Can(identity.ManageTeams, r.Org)
	return viewer{
		userID:       r.Caller.User.ID,
		allTeams:     administrator,
		allPipelines: administrator || !r.Org.Features.Teams,
	}
}
