package clusters

import (
	"time"

	"stackyard/internal/domain/builds/jobqueues"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noCluster = "No cluster found"

const selectCluster = `
	SELECT c.id, c.organization_id, c.name, c.description, c.emoji, c.color, c.is_default, c.hosted, c.default_queue_id,
		c.hosted_git_mirror_enabled, c.hosted_container_cache_enabled, c.created_at, ` + identity.UserColumns + `
	FROM clusters c
	LEFT JOIN users u ON u.id = c.created_by`

func scanCluster(scan db.Scan) (Cluster, error) {
	var c Cluster
	var by identity.User
	err := scan(append([]any{
		&c.ID, &c.OrganizationID, &c.Name, &c.Description, db.ToText(&c.Emoji), db.ToText(&c.Color), &c.Default, &c.Hosted, db.ToText(&c.DefaultQueueID),
		&c.GitMirror, &c.ContainerCache, db.ToTime(&c.CreatedAt),
	}, identity.UserDest(&by)...)...)
	c.CreatedBy = by.OrNil()
	return c, err
}

// ByID returns a cluster of an organization, or a NotFound error.
func ByID(q *db.Q, organizationID, id string) (Cluster, error) {
	return oneCluster(q, `WHERE c.organization_id = $1 AND c.id = $2`, organizationID, id)
}

// ByName returns the cluster of an organization with exactly this name, or a NotFound error.
func ByName(q *db.Q, organizationID, name string) (Cluster, error) {
	return oneCluster(q, `WHERE c.organization_id = $1 AND c.name = $2`, organizationID, name)
}

// Default returns the default cluster of an organization, or a NotFound error if it has none.
func Default(q *db.Q, organizationID string) (Cluster, error) {
	return oneCluster(q, `WHERE c.organization_id = $1 AND c.is_default`, organizationID)
}

// Lock returns a cluster of an organization, or a NotFound error, and locks it until the end of the
// transaction: no other transaction can change or delete it or change its set of queues. Callers that are about
// to reference a cluster lock it first.
func Lock(q *db.Q, organizationID, id string) (Cluster, error) {
	if err := q.Lock("clusters", id); err != nil {
		return Cluster{}, err
	}
	return ByID(q, organizationID, id)
}

func oneCluster(q *db.Q, where string, args ...any) (Cluster, error) {
	return db.Find(q, noCluster, scanCluster, selectCluster+` `+where+` AND c.deleted_at IS NULL`, args...)
}

// listClusters returns one page of an organization's clusters, oldest first, and the total.
func listClusters(q *db.Q, organizationID string, limit, offset int) ([]Cluster, int, error) {
	return db.ListPage(q, scanCluster, selectCluster+`
		WHERE c.organization_id = $1 AND c.deleted_at IS NULL
		ORDER BY c.created_at, c.id`,
		`SELECT COUNT(*) FROM clusters WHERE organization_id = $1 AND deleted_at IS NULL`,
		limit, offset, organizationID)
}

func insertCluster(q *db.Q, c Cluster) error {
	_, err := clusterRows.Exec(q, c.ID, `
		INSERT INTO clusters (id, organization_id, name, description, emoji, color, is_default, hosted, default_queue_id,
			hosted_git_mirror_enabled, hosted_container_cache_enabled, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		c.ID, c.OrganizationID, c.Name, c.Description, db.Text(c.Emoji), db.Text(c.Color), c.Default, c.Hosted, db.Text(c.DefaultQueueID),
		c.GitMirror, c.ContainerCache, c.CreatedBy.IDOrNull(), db.Micros(c.CreatedAt))
	return err
}

// updateCluster writes all columns that can change. When the cluster gets a default queue, jobs that named no
// queue move into it.
func updateCluster(q *db.Q, c Cluster) error {
	var before string
	if err := q.QueryRow(`SELECT default_queue_id FROM clusters WHERE id = $1`, c.ID).Scan(db.ToText(&before)); err != nil {
		return err
	}
	_, err := clusterRows.Exec(q, c.ID, `
		UPDATE clusters SET name = $2, description = $3, emoji = $4, color = $5, is_default = $6, hosted = $7, default_queue_id = $8,
			hosted_git_mirror_enabled = $9, hosted_container_cache_enabled = $10
		WHERE id = $1`,
		c.ID, c.Name, c.Description, db.Text(c.Emoji), db.Text(c.Color), c.Default, c.Hosted, db.Text(c.DefaultQueueID),
		c.GitMirror, c.ContainerCache)
	if err != nil || before != "" || c.DefaultQueueID == "" {
		return err
	}
	return jobqueues.MoveToDefault(q, c.OrganizationID, c.ID, c.DefaultQueueID)
}

// markDeleted hides a cluster and everything in it, and frees its name. The row gets a random name that cannot
// collide.
func markDeleted(q *db.Q, id string, now time.Time) error {
	_, err := clusterRows.Exec(q, id, `
		UPDATE clusters SET deleted_at = $2, name = $3, is_default = FALSE, default_queue_id = NULL
		WHERE id = $1`, id, db.Micros(now), "deleted "+core.NewID())
	return err
}

// RemoveDeleted removes the row of a deleted cluster with its queues, tokens, secrets and maintainers. Builds
// and agents no longer reference it then.
func RemoveDeleted(q *db.Q, id string) error {
	_, err := q.Exec(`DELETE FROM clusters WHERE id = $1 AND deleted_at IS NOT NULL`, id)
	return err
}

// countPipelines returns the number of pipelines in a cluster.
func countPipelines(q *db.Q, clusterID string) (int, error) {
	return db.Count(q, `SELECT COUNT(*) FROM pipelines WHERE cluster_id = $1 AND deleted_at IS NULL`, clusterID)
}
