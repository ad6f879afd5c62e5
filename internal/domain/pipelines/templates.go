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

// A Template is a configuration that several pipelines share. A change applies to all of them.
type Template struct {
	ID             string
	OrganizationID string
	Name           string // unique in the organization
	Description    string
	Configuration  string                      // YAML
	Steps          []definition.VisualResponse // of the configuration, in the form of responses
	Available      bool                        // members can use it, not only administrators
	CreatedBy      *identity.User
	CreatedAt      time.Time
	UpdatedBy      *identity.User
	UpdatedAt      time.Time
}

const noTemplate = "No pipeline template found"

// check reports problems of the template, except of its steps.
func (t *Template) check(problems *core.Problems) {
	checkRequired(problems, "name", t.Name, maxName)
	checkText(problems, "description", t.Description, maxDescription)
	if strings.TrimSpace(t.Configuration) == "" {
		problems.Add("configuration", "is required")
	}
}

// createTemplate adds a template.
func (s *Service) createTemplate(ctx context.Context, v Viewer, body *pipelineTemplateFields) (Template, error) {
	now := s.clock()
	t := Template{ID: core.NewID(), OrganizationID: v.Org.ID, CreatedBy: &v.User, CreatedAt: now, UpdatedBy: &v.User, UpdatedAt: now}
	var problems core.Problems
	steps := body.parse(&problems)
	if err := body.applyTo(&t, steps, problems); err != nil {
		return t, err
	}
	err := s.db.Write(ctx, func(q *db.Q) error { return saveTemplate(q, t) })
	return t, templateNameTaken(err)
}

// updateTemplate changes a template, and with it the steps of all pipelines that use it.
func (s *Service) updateTemplate(ctx context.Context, v Viewer, id string, body *pipelineTemplateFields) (Template, error) {
	var problems core.Problems
	steps := body.parse(&problems)
	var updated Template
	err := s.db.Write(ctx, func(q *db.Q) error {
		t, err := lockTemplate(q, v.Org.ID, id)
		if err != nil {
			return err
		}
		if err := body.applyTo(&t, steps, problems); err != nil {
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

// dropTemplate removes a template that no pipeline uses.
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
		_, err := templateRows.Exec(q, t.ID, `DELETE FROM pipeline_templates WHERE organization_id = $1 AND id = $2`, t.OrganizationID, t.ID)
		return err
	})
}
