package clusterrules

import (
	"net/http"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

type ruleView struct {
	UUID             string             `json:"uuid"`
	GraphQLID        string             `json:"graphql_id"`
	OrganizationUUID string             `json:"organization_uuid"`
	Type             Type               `json:"type"`
	Action           string             `json:"action"`
	Effect           string             `json:"effect"`
	SourceType       string             `json:"source_type"`
	SourceUUID       string             `json:"source_uuid"`
	TargetType       string             `json:"target_type"`
	TargetUUID       string             `json:"target_uuid"`
	URL              string             `json:"url"`
	CreatedAt        core.Time          `json:"created_at"`
	CreatedBy        *identity.UserView `json:"created_by"`
}

func (s *Service) view(r *route.Request, rule Rule) ruleView {
	return ruleView{
		UUID:             rule.ID,
		GraphQLID:        core.GraphQLID("Rule", rule.ID),
		OrganizationUUID: rule.OrganizationID,
		Type:             rule.Type,
		Action:           rule.Type.action(),
		Effect:           "allow",
		SourceType:       "pipeline",
		SourceUUID:       rule.SourceID,
		TargetType:       "pipeline",
		TargetUUID:       rule.TargetID,
		URL:              s.public.Org(r.Org.Slug, "rules", rule.ID),
		CreatedAt:        core.At(rule.CreatedAt),
		CreatedBy:        rule.CreatedBy.View(s.public),
	}
}

// Routes returns the routes of rules.
func (s *Service) Routes() []route.Route {
	const all, one = "/v2/organizations/{org}/rules", "/v2/organizations/{org}/rules/{rule}"
	routes := []route.Route{
		{Method: http.MethodGet, Path: all, Summary: "List rules", Query: route.PageParams, Handler: route.Do(s.getAll)},
		{
			Method: http.MethodPost, Path: all, Summary: "Create a rule",
			Description: "Lets a pipeline of one cluster trigger builds of a pipeline of another, or read its artifacts.",
			Status:      http.StatusCreated, Handler: route.DoBody(s.post),
		},
		{Method: http.MethodGet, Path: one, Summary: "Get a rule", Handler: route.On(s.load, s.get)},
		{Method: http.MethodDelete, Path: one, Summary: "Delete a rule", Status: http.StatusNoContent, Handler: route.On(s.load, s.delete)},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope = "Rules", identity.ReadRules
		if r.Method != http.MethodGet {
			r.Scope, r.Permission = identity.WriteRules, identity.ManageClusters
		}
	}
	return routes
}

func (s *Service) load(r *route.Request) (Rule, error) {
	return route.ReadByID(r, s.db, "rule", noRule, func(q *db.Q, id string) (Rule, error) { return byID(q, r.Org.ID, id) })
}

func (s *Service) getAll(r *route.Request) (route.Paged[ruleView], error) {
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]Rule, int, error) { return list(q, r.Org.ID, limit, offset) },
		func(rule Rule) ruleView { return s.view(r, rule) })
}

type ruleCreate struct {
	Type  Type      `json:"type"`
	Value ruleValue `json:"value"`
}

type ruleValue struct {
	SourcePipeline string `json:"source_pipeline" doc:"The pipeline that gets access, by its UUID or slug."`
	TargetPipeline string `json:"target_pipeline" doc:"The pipeline it gets access to, by its UUID or slug."`
}

func (s *Service) post(r *route.Request, body ruleCreate) (ruleView, error) {
	rule, err := s.create(r.Context(), pipelines.ViewerOf(r), body.Type, body.Value.SourcePipeline, body.Value.TargetPipeline)
	if err != nil {
		return ruleView{}, err
	}
	return s.view(r, rule), nil
}

func (s *Service) get(r *route.Request, rule Rule) (ruleView, error) {
	return s.view(r, rule), nil
}

func (s *Service) delete(r *route.Request, rule Rule) (route.Nothing, error) {
	return route.Nothing{}, s.db.Write(r.Context(), func(q *db.Q) error {
		_, err := ruleRows.Exec(q, rule.ID, `DELETE FROM rules WHERE organization_id = $1 AND id = $2`, r.Org.ID, rule.ID)
		return err
	})
}
