package pipelines

import (
	"context"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
)

// A Template is a configuration that many pipelines share. What changes in it changes in all of them.
type Template struct {
	ID             string
	OrganizationID string
	Name           string // unique in the organization
	Description    string
	Configuration  string                      // YAML
	Steps          []definition.VisualResponse // of the configuration, as responses show them
	Available      bool                        // members may use it, and not administrators only
	CreatedBy      *identity.User
	CreatedAt      time.Time
	UpdatedBy      *identity.User
	UpdatedAt      time.Time
}

const noTemplate = "No pipeline template found"

// check notes which rules the template breaks, apart from those about its steps.
func (t *Template) check(problems *core.Problems) {
	checkRequired(problems, "name", t.Name, maxName)
	checkText(problems, "description", t.Description, maxDescription)
	if strings.TrimSpace(t.Configuration) == "" {
		problems.Add("configuration", "is required")
	}
}

// createTemplate adds the template that a request describes.
func (s *Service) createTemplate(ctx context.Context, v Viewer, body *pipelineTemplateFields) (Template, error) {
	now := s.clock()
	t := Template{ID: core.NewID(), OrganizationID: v.Org.ID, CreatedBy: &v.User, CreatedAt: now, UpdatedBy: &v.User, UpdatedAt: now}
	var wrong core.Problems
	steps := body.read(&wrong)
	if err := body.merge(&t, steps, wrong); err != nil {
		return t, err
	}
	err := s.db.Write(ctx, func(q *db.Q) error { return saveTemplate(q, t) })
	return t, templateNameTaken(err)
}

// updateTemplate changes a template, and with it the steps of all pipelines made from it.
func (s *Service) updateTemplate(ctx context.Context, v Viewer, id string, body *pipelineTemplateFields) (Template, error) {
	var wrong core.Problems
	steps := body.read(&wrong)
	var updated Template
	err := s.db.Write(ctx, func(q *db.Q) error {
		t, err := lockTemplate(q, v.Org.ID, id)
		if err != nil {
			return err
		}
		if err := body.merge(&t, steps, wrong); err != nil {
			return err
		}
		t.UpdatedBy, t.UpdatedAt = &v.User, s.clock()
		updated = t
		return saveTemplate(q, t)
	})
	return updated, templateNameTaken(err)
}

func templateNameTaken(err error) error {
	if !db.IsUnique(err) {
		return err
	}
	var problems core.Problems
	problems.Add("name", "has already been taken")
	return problems.Err()
}

// dropTemplate removes a template that no pipeline is made from.
func (s *Service) dropTemplate(ctx context.Context, t Template) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("pipeline_templates", t.ID); err != nil {
			return err
		}
		var used int
		if err := q.QueryRow(`SELECT COUNT(*) FROM pipelines WHERE template_id = $1`, t.ID).Scan(&used); err != nil {
			return err
		}
		if used > 0 {
			return core.Errorf(core.Unprocessable, "The template cannot be deleted because the steps of %d of the organization's pipelines come from it", used)
		}
		_, err := q.Exec(`DELETE FROM pipeline_templates WHERE organization_id = $1 AND id = $2`, t.OrganizationID, t.ID)
		return err
	})
}
