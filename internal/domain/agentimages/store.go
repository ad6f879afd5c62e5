package agentimages

import "stackyard/internal/platform/db"

const selectImage = `
	SELECT i.id, i.organization_id, i.cluster_id, i.name, i.dockerfile, i.base_image, i.status, i.version, i.image_ref, i.last_error,
		i.created_at, i.updated_at
	FROM agent_images i`

func scanImage(scan db.Scan) (i Image, err error) {
	return i, scan(
		&i.ID, &i.OrganizationID, &i.ClusterID, &i.Name, &i.Dockerfile, &i.BaseImage, &i.Status, &i.Version, db.ToText(&i.ImageRef), db.ToText(&i.LastError),
		db.ToTime(&i.CreatedAt), db.ToTime(&i.UpdatedAt))
}

// byID returns an image of a cluster, or a NotFound error.
func byID(q *db.Q, clusterID, id string) (Image, error) {
	return db.Find(q, noImage, scanImage, selectImage+` WHERE i.cluster_id = $1 AND i.id = $2`, clusterID, id)
}

// imagesOf returns the images of a cluster by name. The order of names is the same on both engines.
func imagesOf(q *db.Q, clusterID string) ([]Image, error) {
	return db.All(q, scanImage, selectImage+` WHERE i.cluster_id = $1 ORDER BY i.name, i.id`, clusterID)
}

// save writes an image that is new or whose cluster is locked by the caller.
func save(q *db.Q, i Image) error {
	_, err := imageRows.Exec(q, i.ID, `
		INSERT INTO agent_images (id, organization_id, cluster_id, name, dockerfile, base_image, status, version, image_ref, last_error,
			created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`+db.OrUpdate("id", "name, dockerfile, base_image, status, version, image_ref, last_error, updated_at"),
		i.ID, i.OrganizationID, i.ClusterID, i.Name, i.Dockerfile, i.BaseImage, i.Status, i.Version, db.Text(i.ImageRef), db.Text(i.LastError),
		db.Text(i.CreatedBy), db.Micros(i.CreatedAt), db.Micros(i.UpdatedAt))
	return err
}
