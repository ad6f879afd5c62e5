package pipelines

import (
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
)

const templatePath = "/v2/organizations/{org}/pipeline-templates"

func (s *Service) templateRoutes() []route.Route {
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: templatePath, Summary: "List pipeline templates",
			Description: "By name.",
			Query:       route.PageParams, Handler: route.Do(s.getTemplates),
		},
		{
			Method: http.MethodPost, Path: templatePath, Summary: "Create a pipeline template",
			Status: http.StatusCreated, Handler: route.DoBody(s.postTemplate),
		},
		{
			Method: http.MethodGet, Path: templatePath + "/{template}", Summary: "Get a pipeline template",
			Handler: route.On(s.loadTemplate, s.getTemplate),
		},
		{
			Method: http.MethodPatch, Path: templatePath + "/{template}", Summary: "Update a pipeline template",
			Description: "Changing the configuration changes the steps of all pipelines that use the template.",
			Handler:     route.OnBody(s.loadTemplate, s.patchTemplate),
		},
		{
			Method: http.MethodDelete, Path: templatePath + "/{template}", Summary: "Delete a pipeline template",
			Description: "A template in use by pipelines cannot be deleted.",
			Status:      http.StatusNoContent, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.loadTemplate, s.deleteTemplate),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope = "Pipeline templates", identity.ReadPipelineTemplates
		if r.Method != http.MethodGet {
			r.Scope, r.Permission = identity.WritePipelineTemplates, identity.ManageTemplates
		}
	}
	return routes
}

// pipelineTemplateFields are the request fields common to creating and updating a template.
type pipelineTemplateFields struct {
	Name          route.Opt[string] `json:"name"`
	Description   route.Opt[string] `json:"description"`
	Configuration route.Opt[string] `json:"configuration" doc:"The steps as YAML."`
	Available     route.Opt[bool]   `json:"available" doc:"Whether members can create pipelines from it; administrators always can."`
}

// parse returns the steps of the configuration in the request and reports errors.
func (f *pipelineTemplateFields) parse(problems *core.Problems) []definition.VisualResponse {
	if strings.TrimSpace(f.Configuration.Value) == "" {
		return nil
	}
	return parseYAML(f.Configuration.Value, problems)
}

// applyTo writes the fields that were sent into t and returns all problems, including those in problems.
func (f *pipelineTemplateFields) applyTo(t *Template, steps []definition.VisualResponse, problems core.Problems) error {
	setTrimmed(f.Name, &t.Name)
	f.Description.To(&t.Description)
	setUnlessNull(f.Available, &t.Available)
	if f.Configuration.Set {
		t.Configuration, t.Steps = f.Configuration.Value, steps
	}
	problems = slices.Clone(problems)
	t.check(&problems)
	return problems.Err()
}

type pipelineTemplateView struct {
	UUID          string             `json:"uuid"`
	GraphQLID     string             `json:"graphql_id"`
	Name          string             `json:"name"`
	Description   string             `json:"description"`
	Configuration string             `json:"configuration"`
	Available     bool               `json:"available"`
	URL           string             `json:"url"`
	WebURL        string             `json:"web_url"`
	CreatedAt     core.Time          `json:"created_at"`
	CreatedBy     *identity.UserView `json:"created_by"`
	UpdatedAt     core.Time          `json:"updated_at"`
	UpdatedBy     *identity.UserView `json:"updated_by"`
}

func (s *Service) templateView(r *route.Request, t Template) pipelineTemplateView {
	return pipelineTemplateView{
		UUID:          t.ID,
		GraphQLID:     core.GraphQLID("PipelineTemplate", t.ID),
		Name:          t.Name,
		Description:   t.Description,
		Configuration: t.Configuration,
		Available:     t.Available,
		URL:           s.public.Org(r.Org.Slug, "pipeline-templates", t.ID),
		WebURL:        s.public.To("organizations", r.Org.Slug, "pipeline-templates", t.ID),
		CreatedAt:     core.At(t.CreatedAt),
		CreatedBy:     t.CreatedBy.View(s.public),
		UpdatedAt:     core.At(t.UpdatedAt),
		UpdatedBy:     t.UpdatedBy.View(s.public),
	}
}

func (s *Service) loadTemplate(r *route.Request) (Template, error) {
	return route.ReadByID(r, s.db, "template", noTemplate, func(q *db.Q, id string) (Template, error) { return templateByID(q, r.Org.ID, id) })
}

func (s *Service) getTemplates(r *route.Request) (route.Paged[pipelineTemplateView], error) {
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]Template, int, error) {
			return listTemplates(q, r.Org.ID, limit, offset)
		},
		func(t Template) pipelineTemplateView { return s.templateView(r, t) })
}

func (s *Service) getTemplate(r *route.Request, t Template) (pipelineTemplateView, error) {
	return s.templateView(r, t), nil
}

func (s *Service) postTemplate(r *route.Request, body pipelineTemplateFields) (pipelineTemplateView, error) {
	t, err := s.createTemplate(r.Context(), ViewerOf(r), &body)
	return s.templateView(r, t), err
}

func (s *Service) patchTemplate(r *route.Request, t Template, body pipelineTemplateFields) (pipelineTemplateView, error) {
	t, err := s.updateTemplate(r.Context(), ViewerOf(r), t.ID, &body)
	return s.templateView(r, t), err
}

func (s *Service) deleteTemplate(r *route.Request, t Template) (route.Nothing, error) {
	return route.Nothing{}, s.dropTemplate(r.Context(), t)
}
