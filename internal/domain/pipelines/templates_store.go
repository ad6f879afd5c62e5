package pipelines

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const selectTemplate = `
	SELECT t.id, t.organization_id, t.name, t.description, t.configuration, t.steps, t.available, t.created_at, t.updated_at,
		u.id, u.email, u.name, u.created_at, c.id, c.email, c.name, c.created_at
	FROM pipeline_templates t
	LEFT JOIN users u ON u.id = t.created_by
	LEFT JOIN users c ON c.id = t.updated_by`

func scanTemplate(scan db.Scan) (Template, error) {
	var t Template
	var created, updated identity.User
	dest := []any{
		&t.ID, &t.OrganizationID, &t.Name, &t.Description, &t.Configuration, db.ToJSON(&t.Steps), &t.Available,
		db.ToTime(&t.CreatedAt), db.ToTime(&t.UpdatedAt),
	}
	dest = append(append(dest, identity.UserDest(&created)...), identity.UserDest(&updated)...)
	err := scan(dest...)
	t.CreatedBy, t.UpdatedBy = created.OrNil(), updated.OrNil()
	return t, err
}

func templateByID(q *db.Q, organizationID, id string) (Template, error) {
	return db.Find(q, noTemplate, scanTemplate, selectTemplate+`
		WHERE t.organization_id = $1 AND t.id = $2`, organizationID, id)
}

// lockTemplate returns a template, or a NotFound error, and locks it until the end of the transaction.
func lockTemplate(q *db.Q, organizationID, id string) (Template, error) {
	if err := q.Lock("pipeline_templates", id); err != nil {
		return Template{}, err
	}
	return templateByID(q, organizationID, id)
}

// listTemplates returns one page of an organization's templates, by name, and the total.
func listTemplates(q *db.Q, organizationID string, limit, offset int) ([]Template, int, error) {
	return db.ListPage(q, db.Within(route.Budget(limit, ""), scanTemplate), selectTemplate+` WHERE t.organization_id = $1 ORDER BY t.name, t.id`,
		`SELECT COUNT(*) FROM pipeline_templates WHERE organization_id = $1`, limit, offset, organizationID)
}

// saveTemplate writes a template that is new or locked by the caller.
func saveTemplate(q *db.Q, t Template) error {
	_, err := templateRows.Exec(q, t.ID, `
		INSERT INTO pipeline_templates (
			id, organization_id, name, description, configuration, steps, available,
			created_by, created_at, updated_by, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`+db.OrUpdate("id", "name, description, configuration, steps, available, updated_by, updated_at"),
		t.ID, t.OrganizationID, t.Name, t.Description, t.Configuration, db.JSON(t.Steps), t.Available,
		t.CreatedBy.IDOrNull(), db.Micros(t.CreatedAt), t.UpdatedBy.IDOrNull(), db.Micros(t.UpdatedAt))
	return err
}
