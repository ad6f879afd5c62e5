package identity

import "slices"

// AccessLevel is what a team's members may do with one of its pipelines.
type AccessLevel string

// The access levels; each allows everything that the one before it does.
const (
	ReadOnly           AccessLevel = "read_only"
	BuildAndRead       AccessLevel = "build_and_read"
	ManageBuildAndRead AccessLevel = "manage_build_and_read"
)

var accessLevels = []AccessLevel{ReadOnly, BuildAndRead, ManageBuildAndRead}

// Values lists every level, the weakest first.
func (AccessLevel) Values() []string {
	names := make([]string, len(accessLevels))
	for i, level := range accessLevels {
		names[i] = string(level)
	}
	return names
}

// Valid reports whether this is one of the levels.
func (l AccessLevel) Valid() bool { return slices.Contains(accessLevels, l) }

// AtLeast reports whether the level allows all that the other one does. What is not a level allows
// nothing.
func (l AccessLevel) AtLeast(other AccessLevel) bool {
	return l.Valid() && slices.Index(accessLevels, l) >= slices.Index(accessLevels, other)
}

// TeamRole is what a user is in one team.
type TeamRole string

// The roles in a team; a maintainer may change who is in it.
const (
	TeamMember     TeamRole = "member"
	TeamMaintainer TeamRole = "maintainer"
)

// Values lists every role.
func (TeamRole) Values() []string { return []string{string(TeamMember), string(TeamMaintainer)} }
