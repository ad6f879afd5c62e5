package organizations

import (
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noInvitation = "No invitation found"

const selectInvitation = `
	SELECT i.id, i.organization_id, i.email, i.role, i.created_at, i.expires_at, ` + identity.UserColumns + `
	FROM invitations i
	LEFT JOIN users u ON u.id = i.created_by`

func scanInvitation(scan db.Scan) (i Invitation, err error) {
	var by identity.User
	err = scan(append([]any{&i.ID, &i.OrganizationID, &i.Email, &i.Role, db.ToTime(&i.CreatedAt), db.ToTime(&i.ExpiresAt)}, identity.UserDest(&by)...)...)
	i.CreatedBy = by.OrNil()
	return i, err
}

func listInvitations(q *db.Q, organizationID string, now time.Time, limit, offset int) ([]Invitation, int, error) {
	return db.ListPage(q, scanInvitation, selectInvitation+`
		WHERE i.organization_id = $1 AND i.expires_at > $2
		ORDER BY i.created_at DESC, i.id`,
		`SELECT COUNT(*) FROM invitations WHERE organization_id = $1 AND expires_at > $2`,
		limit, offset, organizationID, db.Micros(now))
}

func invitationByHash(q *db.Q, hash string, now time.Time) (Invitation, error) {
	i, err := db.One(q, scanInvitation, selectInvitation+` WHERE i.hash = $1 AND i.expires_at > $2`, hash, db.Micros(now))
	if errors.Is(err, db.ErrNoRows) {
		err = errInvitation
	}
	return i, err
}

func countInvitations(q *db.Q, organizationID string) (int, error) {
	return db.Count(q, `SELECT COUNT(*) FROM invitations WHERE organization_id = $1`, organizationID)
}

func insertInvitation(q *db.Q, i Invitation, hash string) error {
	_, err := invitationRows.Exec(q, i.ID, `
		INSERT INTO invitations (id, organization_id, email, role, hash, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		i.ID, i.OrganizationID, i.Email, i.Role, hash, i.CreatedBy.ID, db.Micros(i.CreatedAt), db.Micros(i.ExpiresAt))
	return err
}

// deleteStaleInvitations deletes the invitation of an email and those that have expired.
func deleteStaleInvitations(q *db.Q, organizationID, email string, now time.Time) error {
	_, err := q.Exec(`DELETE FROM invitations WHERE organization_id = $1 AND (email = $2 OR expires_at <= $3)`, organizationID, email, db.Micros(now))
	return err
}

func deleteInvitation(q *db.Q, organizationID, id string) error {
	n, err := invitationRows.Exec(q, id, `DELETE FROM invitations WHERE organization_id = $1 AND id = $2`, organizationID, id)
	if err == nil && n == 0 {
		err = core.Errorf(core.NotFound, noInvitation)
	}
	return err
}
