package organizations

import (
	"time"

	"stackyard/internal/db"
	"stackyard/internal/identity"
)

// addTeamMember puts a user into a team, and reports whether they were not in it before.
func addTeamMember(q *db.Q, teamID, userID string, role identity.TeamRole, now time.Time) (added bool, err error) {
	n, err := q.Exec(`
		INSERT INTO team_members (team_id, user_id, role, created_at)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, teamID, userID, role, db.Micros(now))
	return n == 1, err
}
