package oauth

import (
	"slices"

	"stackyard/internal/platform/db"
)

func insertGrant(q *db.Q, g grant) error {
	_, err := grantRows.Exec(q, g.id, `
		INSERT INTO oauth_grants (id, application_id, user_id, organization_id, scopes, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		g.id, g.applicationID, g.userID, g.organizationID, db.JSON(g.scopes), db.Micros(g.createdAt))
	return err
}

// authorizedApplications returns the grants of a user, grouped by application and organization.
func authorizedApplications(q *db.Q, userID string) ([]AuthorizedApplication, error) {
	grants, err := db.All(q, scanAuthorized, `
		SELECT g.scopes, g.created_at, (SELECT MAX(t.last_used_at) FROM access_tokens t WHERE t.grant_id = g.id), o.id, o.slug, o.name, `+applicationColumns+`
		FROM oauth_grants g
		JOIN oauth_applications a ON a.id = g.application_id
		JOIN organizations o ON o.id = g.organization_id
		WHERE g.user_id = $1
		ORDER BY a.name, a.id, o.name, o.id, g.created_at`, userID)
	list := []AuthorizedApplication{}
	for _, g := range grants {
		last := len(list) - 1
		if last < 0 || list[last].Application.ID != g.Application.ID || list[last].OrganizationID != g.OrganizationID {
			list = append(list, g)
			continue
		}
		list[last].Approvals++
		list[last].LastAt = g.LastAt
		if g.LastUsedAt.After(list[last].LastUsedAt) {
			list[last].LastUsedAt = g.LastUsedAt
		}
		list[last].Scopes = append(list[last].Scopes, g.Scopes...)
	}
	for i := range list {
		slices.Sort(list[i].Scopes)
		list[i].Scopes = slices.Compact(list[i].Scopes)
	}
	return list, err
}

func scanAuthorized(scan db.Scan) (AuthorizedApplication, error) {
	l := AuthorizedApplication{Approvals: 1}
	err := scan(append([]any{db.ToJSON(&l.Scopes), db.ToTime(&l.FirstAt), db.ToTime(&l.LastUsedAt), &l.OrganizationID, &l.OrganizationSlug, &l.OrganizationName},
		applicationDest(&l.Application)...)...)
	l.LastAt = l.FirstAt
	return l, err
}

// grantsTo returns the ids of a user's grants to an application in an organization.
func grantsTo(q *db.Q, userID, applicationID, organizationID string) ([]string, error) {
	return db.Strings(q, `
		SELECT id FROM oauth_grants WHERE user_id = $1 AND application_id = $2 AND organization_id = $3`,
		userID, applicationID, organizationID)
}

// removeGrants deletes grants with their tokens. Rows that lead to a grant are deleted first, because redeeming
// locks them before the grant.
func removeGrants(q *db.Q, ids []string) error {
	for _, table := range []string{"oauth_device_requests", "oauth_authorization_codes", "oauth_refresh_tokens"} {
		in, arg := q.In("grant_id", 1, ids)
		if _, err := q.Exec(`DELETE FROM `+table+` WHERE `+in, arg); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if _, err := grantRows.Exec(q, id, `DELETE FROM oauth_grants WHERE id = $1`, id); err != nil {
			return err
		}
	}
	return nil
}
