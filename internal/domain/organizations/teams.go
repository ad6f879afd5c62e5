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
	maxName        = 255      // in characters
	maxDescription = 16 << 10 // in bytes
)

// Privacy decides who sees a team.
type Privacy string

// Only its members and administrators see a Secret team.
const (
	Visible Privacy = "visible"
	Secret  Privacy = "secret"
)

// Values lists all values.
func (Privacy) Values() []string { return []string{string(Visible), string(Secret)} }

// A Team is a group of an organization's members that gives them access to pipelines.
type Team struct {
	ID                          string
	OrganizationID              string
	Slug                        string // made from the first name; renaming keeps it
	Name                        string
	Description                 string
	Privacy                     Privacy
	Default                     bool // new members of the organization join it
	DefaultMemberRole           identity.TeamRole
	MembersCanCreatePipelines   bool
	MembersCanCreateSuites      bool
	MembersCanCreateRegistries  bool
	MembersCanDestroyRegistries bool
	MembersCanDestroyPackages   bool
	CreatedBy                   *identity.User // nil: none, or a deleted user
	CreatedAt                   time.Time
}

// newTeam returns a team with default values and without a name.
func newTeam(organizationID string, now time.Time) Team {
	return Team{
		ID:                core.NewID(),
		OrganizationID:    organizationID,
		Privacy:           Visible,
		DefaultMemberRole: identity.TeamMember,
		CreatedAt:         now,
	}
}

// validTeamSlug reports whether a team can have this slug. A team called enable would have the path of the
// endpoint that enables teams.
func validTeamSlug(slug string) bool { return core.ValidSlug(slug) && slug != "enable" }

// validate returns all errors in the fields that callers set.
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
	return validationError(problems)
}

// validationError returns nil without problems, else an error whose message lists all of them. The teams
// endpoints report errors this way.
func validationError(problems core.Problems) error {
	if len(problems) == 0 {
		return nil
	}
	rules := make([]string, len(problems))
	for i, p := range problems {
		rules[i] = p.Field + " " + p.Code
	}
	return &core.Error{Kind: core.Unprocessable, Message: "Validation failed: " + strings.Join(rules, ", "), Fields: problems}
}

// fieldError returns the validation error of one field.
func fieldError(field, rule string) error {
	return validationError(core.Problems{{Field: field, Code: rule}})
}

// FieldError returns the error for one field that breaks a rule, in the form of the teams endpoints.
func FieldError(field, rule string) error { return fieldError(field, rule) }

// enumerated is a string type that lists its values.
type enumerated interface {
	~string
	Values() []string
}

func oneOf[E enumerated](e E) bool { return slices.Contains(e.Values(), string(e)) }

// list joins the values of e's type for a message.
func list[E enumerated](e E) string { return strings.Join(e.Values(), ", ") }

func requireOneOf[E enumerated](problems *core.Problems, field string, e E) {
	if !oneOf(e) {
		problems.Add(field, "must be one of %s", list(e))
	}
}

// Permits allows administrators everything, and maintainers of the team ManageTeam.
func (t *Team) Permits(r *route.Request, p identity.Permission) bool {
	if r.Member.Can(identity.ManageTeams, r.Org) {
		return true
	}
	return p == identity.ManageTeam && slices.ContainsFunc(r.Member.Teams, func(m identity.TeamMembership) bool {
		return m.TeamID == t.ID && m.Role == identity.TeamMaintainer
	})
}

// Refusal returns the message for callers who are no maintainers of the team.
func (t *Team) Refusal(p identity.Permission) string {
	if p != identity.ManageTeam {
		return ""
	}
	return "Forbidden: this needs an organization administrator, or a maintainer of the team (permission " + string(p) + ")"
}

// A viewer is the caller of a request and which teams and pipelines the caller can see.
type viewer struct {
	userID       string
	allTeams     bool // including secret teams
	allPipelines bool // including pipelines outside the viewer's teams
}

func viewerOf(r *route.Request) viewer {
	administrator := r.Member.Can(identity.ManageTeams, r.Org)
	return viewer{
		userID:       r.Caller.User.ID,
		allTeams:     administrator,
		allPipelines: administrator || !r.Org.Features.Teams,
	}
}
