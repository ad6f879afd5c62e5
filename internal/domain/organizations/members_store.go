package organizations

import (
	"stackyard/internal/domain/account"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noMember = "No member found"

const selectMember = `
	SELECT ` + identity.UserColumns + `, m.role, m.permissions, m.sso_mode, m.created_at
	FROM memberships m
	JOIN users u ON u.id = m.user_id`

func scanMember(scan db.Scan) (Member, error) {
	var m Member
	return m, scan(append(identity.UserDest(&m.User), &m.Role, db.ToJSON(&m.Permissions), &m.SSOMode, db.ToTime(&m.CreatedAt))...)
}

func listMembers(q *db.Q, organizationID string, limit, offset int) ([]Member, int, error) {
	return db.ListPage(q, scanMember, selectMember+` WHERE m.organization_id = $1 ORDER BY m.created_at, m.user_id`,
		`SELECT COUNT(*) FROM memberships WHERE organization_id = $1`, limit, offset, organizationID)
}

func memberByID(q *db.Q, organizationID, userID string) (Member, error) {
	return db.Find(q, noMember, scanMember, selectMember+` WHERE m.organization_id = $1 AND m.user_id = $2`, organizationID, userID)
}

func memberByEmail(q *db.Q, organizationID, email string) (Member, error) {
	return db.Find(q, noMember, scanMember, selectMember+` WHERE m.organization_id = $1 AND u.email = $2`, organizationID, email)
}

func countAdministrators(q *db.Q, organizationID string) (int, error) {
	return db.Count(q, `SELECT COUNT(*) FROM memberships WHERE organization_id = $1 AND role = $2`, organizationID, identity.Admin)
}

// addMember adds a member, also to the organization's default teams.
func addMember(q *db.Q, organizationID string, m Member) error {
	_, err := memberRows.Exec(q, organizationID+"/"+m.User.ID, `
		INSERT INTO memberships (organization_id, user_id, role, permissions, sso_mode, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		organizationID, m.User.ID, m.Role, permissions(m), m.SSOMode, db.Micros(m.CreatedAt))
	if err != nil {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO team_members (team_id, user_id, role, created_at)
		SELECT id, $2, default_member_role, $3
		FROM teams
		WHERE organization_id = $1 AND is_default`,
		organizationID, m.User.ID, db.Micros(m.CreatedAt))
	return err
}

func updateMember(q *db.Q, organizationID string, m Member) error {
	_, err := memberRows.Exec(q, organizationID+"/"+m.User.ID, `
		UPDATE memberships SET role = $3, permissions = $4, sso_mode = $5
		WHERE organization_id = $1 AND user_id = $2`,
		organizationID, m.User.ID, m.Role, permissions(m), m.SSOMode)
	return err
}

// permissions returns the value of the permissions column: an array, never NULL.
func permissions(m Member) any {
	return db.JSON(append([]identity.Permission{}, m.Permissions...))
}

// removeMember deletes a user's membership and everything that comes with it.
func (s *Service) removeMember(q *db.Q, organizationID, userID string) error {
	_, err := q.Exec(`DELETE FROM team_members WHERE user_id = $2 AND team_id IN (SELECT id FROM teams WHERE organization_id = $1)`, organizationID, userID)
	if err != nil {
		return err
	}
	for _, remove := range append([]func(q *db.Q, organizationID, userID string) error{account.RemoveTokenAccess, oauth.RemoveGrants}, s.onMemberRemoved...) {
		if err := remove(q, organizationID, userID); err != nil {
			return err
		}
	}
	_, err = memberRows.Exec(q, organizationID+"/"+userID, `DELETE FROM memberships WHERE organization_id = $1 AND user_id = $2`, organizationID, userID)
	return err
}
