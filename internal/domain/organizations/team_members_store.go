package organizations

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noTeamMember = "No team member found"

const selectTeamMember = `
	SELECT ` + identity.UserColumns + `, m.role, m.created_at
	FROM team_members m
	JOIN users u ON u.id = m.user_id`

func scanTeamMember(scan db.Scan) (TeamMember, error) {
	var m TeamMember
	return m, scan(append(identity.UserDest(&m.User), &m.Role, db.ToTime(&m.JoinedAt))...)
}

// listTeamMembers returns one page of a team's members, oldest membership first, and the total.
func listTeamMembers(q *db.Q, teamID string, limit, offset int) ([]TeamMember, int, error) {
	return db.ListPage(q, scanTeamMember, selectTeamMember+` WHERE m.team_id = $1 ORDER BY m.created_at, m.user_id`,
		`SELECT COUNT(*) FROM team_members WHERE team_id = $1`, limit, offset, teamID)
}

func teamMember(q *db.Q, team *Team, userID string) (TeamMember, error) {
	m, err := db.One(q, scanTeamMember, selectTeamMember+` WHERE m.team_id = $1 AND m.user_id = $2`, team.ID, userID)
	m.Team = team
	return m, db.OrNotFound(err, noTeamMember)
}

// addTeamMember adds a user to a team and reports whether the user was new to it.
func addTeamMember(q *db.Q, teamID, userID string, role identity.TeamRole, now time.Time) (added bool, err error) {
	n, err := teamMemberRows.Exec(q, teamID+"/"+userID, `
		INSERT INTO team_members (team_id, user_id, role, created_at)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, teamID, userID, role, db.Micros(now))
	return n == 1, err
}

// updateTeamMember changes the role of a team member, or returns a NotFound error.
func updateTeamMember(q *db.Q, teamID, userID string, role identity.TeamRole) error {
	n, err := teamMemberRows.Exec(q, teamID+"/"+userID, `UPDATE team_members SET role = $3 WHERE team_id = $1 AND user_id = $2`, teamID, userID, role)
	if err == nil && n == 0 {
		return core.Errorf(core.NotFound, noTeamMember)
	}
	return err
}

func deleteTeamMember(q *db.Q, teamID, userID string) error {
	_, err := teamMemberRows.Exec(q, teamID+"/"+userID, `DELETE FROM team_members WHERE team_id = $1 AND user_id = $2`, teamID, userID)
	return err
}
