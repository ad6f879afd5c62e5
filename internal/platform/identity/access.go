package identity

import "slices"

// AccessLevel is what the members of a team can do with a pipeline.
type AccessLevel string

// The access levels; each includes the one before it.
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

// AtLeast reports whether the level includes another one. An invalid level includes none.
func (l AccessLevel) AtLeast(other AccessLevel) bool {
	return l.Valid() && slices.Index(accessLevels, l) >= slices.Index(accessLevels, other)
}

// TeamRole is the role of a user in a team.
type TeamRole string

// The roles in a team; a maintainer can change its members.
const (
	TeamMember     TeamRole = "member"
	TeamMaintainer TeamRole = "maintainer"
)

// Values lists every role.
func (TeamRole) Values() []string { return []string{string(TeamMember), string(TeamMaintainer)} }
