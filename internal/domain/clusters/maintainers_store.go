package clusters

import (
	"errors"

	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noMaintainer = "No cluster maintainer found"

const selectMaintainer = `
	SELECT m.cluster_id, m.id, m.created_at, t.id, t.slug, t.name, ` + identity.UserColumns + `
	FROM cluster_maintainers m
	LEFT JOIN teams t ON t.id = m.team_id
	LEFT JOIN users u ON u.id = m.user_id`

// clusterMaintainer is a maintainer with the cluster it maintains.
type clusterMaintainer struct {
	clusterID string
	Maintainer
}

func scanMaintainer(scan db.Scan) (clusterMaintainer, error) {
	var m clusterMaintainer
	var team Team
	var user identity.User
	err := scan(append([]any{
		&m.clusterID, &m.ID, db.ToTime(&m.CreatedAt), db.ToText(&team.ID), db.ToText(&team.Slug), db.ToText(&team.Name),
	}, identity.UserDest(&user)...)...)
	m.User = user.OrNil()
	if team.ID != "" {
		m.Team = &team
	}
	return m, err
}

// withMaintainers returns clusters with their maintainers, oldest first.
func withMaintainers(q *db.Q, list []Cluster) ([]maintained, error) {
	ids := make([]string, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	in, arg := q.In("m.cluster_id", 1, ids)
	all, err := db.All(q, scanMaintainer, selectMaintainer+` WHERE `+in+` ORDER BY m.created_at, m.id`, arg)
	if err != nil {
		return nil, err
	}
	byCluster := make(map[string][]Maintainer)
	for _, m := range all {
		byCluster[m.clusterID] = append(byCluster[m.clusterID], m.Maintainer)
	}
	result := make([]maintained, len(list))
	for i, c := range list {
		result[i] = maintained{c, byCluster[c.ID]}
	}
	return result, nil
}

// maintainedByID returns a cluster of an organization with its maintainers, or a NotFound error.
func maintainedByID(q *db.Q, organizationID, id string) (maintained, error) {
	c, err := ByID(q, organizationID, id)
	if err != nil {
		return maintained{}, err
	}
	list, err := withMaintainers(q, []Cluster{c})
	if err != nil {
		return maintained{}, err
	}
	return list[0], nil
}

// maintainerByID returns a maintainer of a cluster, or a NotFound error.
func maintainerByID(q *db.Q, clusterID, id string) (Maintainer, error) {
	m, err := db.One(q, scanMaintainer, selectMaintainer+` WHERE m.cluster_id = $1 AND m.id = $2`, clusterID, id)
	return m.Maintainer, db.OrNotFound(err, noMaintainer)
}

// insertMaintainer adds a maintainer and reports whether it was new.
func insertMaintainer(q *db.Q, clusterID string, m Maintainer) (added bool, err error) {
	var team any
	if m.Team != nil {
		team = m.Team.ID
	}
	n, err := maintainerRows.Exec(q, m.ID, `
		INSERT INTO cluster_maintainers (id, cluster_id, user_id, team_id, created_at)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT DO NOTHING`,
		m.ID, clusterID, m.User.IDOrNull(), team, db.Micros(m.CreatedAt))
	return n == 1, err
}

// deleteMaintainer removes a maintainer of a cluster, or returns a NotFound error.
func deleteMaintainer(q *db.Q, clusterID, id string) error {
	return deleteOne(q, maintainerRows, id, noMaintainer, `DELETE FROM cluster_maintainers WHERE cluster_id = $1 AND id = $2`, clusterID, id)
}

// RemoveUser removes a user from the maintainers of all clusters of an organization.
func (s *Service) RemoveUser(q *db.Q, organizationID, userID string) error {
	_, err := q.Exec(`
		DELETE FROM cluster_maintainers
		WHERE user_id = $2 AND cluster_id IN (SELECT id FROM clusters WHERE organization_id = $1)`, organizationID, userID)
	return err
}

// deleteOne runs a statement that deletes the row with an id. It returns a NotFound error if there was no such row.
func deleteOne(q *db.Q, rows *audit.Rows, id, notFound, statement string, args ...any) error {
	n, err := rows.Exec(q, id, statement, args...)
	if err == nil && n == 0 {
		return core.Errorf(core.NotFound, "%s", notFound)
	}
	return err
}

// memberByID returns a member of an organization, or nil when there is none with this id.
func memberByID(q *db.Q, organizationID, id string) (*identity.User, error) {
	u, err := db.One(q, identity.ScanUser, `
		SELECT `+identity.UserColumns+`
		FROM memberships m
		JOIN users u ON u.id = m.user_id
		WHERE m.organization_id = $1 AND m.user_id = $2`, organizationID, id)
	return orNil(&u, err)
}

// teamByID returns a team of an organization, or nil when there is none with this id.
func teamByID(q *db.Q, organizationID, id string) (*Team, error) {
	var t Team
	err := q.QueryRow(`SELECT id, slug, name FROM teams WHERE organization_id = $1 AND id = $2`, organizationID, id).
		Scan(&t.ID, &t.Slug, &t.Name)
	return orNil(&t, err)
}

func orNil[T any](t *T, err error) (*T, error) {
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return t, err
}
