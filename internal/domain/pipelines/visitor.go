package pipelines

import (
	"encoding/json"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A visitor is a viewer who sees a pipeline only because it is public: someone who is not signed in, a member
// of another organization, or a member whose teams give no access. Visitors get a reduced view in the API and
// on pages. This file defines the view of pipelines, and visitor.go in package builds the view of builds and
// jobs: all are copied without the hidden fields before they are shown.

// Visited reports whether the viewer who loaded the pipeline is a visitor.
func (p *Pipeline) Visited() bool { return p.visited }

// forVisitor returns a copy with only the fields that visitors can see.
func (p *Pipeline) forVisitor() *Pipeline {
	return &Pipeline{
		ID:             p.ID,
		OrganizationID: p.OrganizationID,
		Slug:           p.Slug,
		Name:           p.Name,
		Visibility:     p.Visibility,
		badgeKey:       p.badgeKey,
		level:          identity.ReadOnly,
		visited:        true,
	}
}

// Hidden returns a NotFound error to visitors. It protects everything that is not part of their view.
func (p *Pipeline) Hidden() error {
	if p.visited {
		return core.Errorf(core.NotFound, noPipeline)
	}
	return nil
}

// visitorPipelineView is the response for visitors.
type visitorPipelineView struct {
	ID         string     `json:"id"`
	GraphQLID  string     `json:"graphql_id"`
	URL        string     `json:"url"`
	WebURL     string     `json:"web_url"`
	Name       string     `json:"name"`
	Slug       string     `json:"slug"`
	BuildsURL  string     `json:"builds_url"`
	BadgeURL   string     `json:"badge_url"`
	Visibility Visibility `json:"visibility"`
}

// PipelineView is the response for the caller: a pipelineView or a visitorPipelineView.
type PipelineView struct{ view any }

// MarshalJSON writes the view.
func (v PipelineView) MarshalJSON() ([]byte, error) { return json.Marshal(v.view) }

// Alternatives lists the possible views.
func (PipelineView) Alternatives() []any { return []any{pipelineView{}, visitorPipelineView{}} }

// View returns the response for the caller.
func (s *Service) View(r *route.Request, p *Pipeline) PipelineView {
	v := s.view(r, p)
	if !p.visited {
		return PipelineView{v}
	}
	return PipelineView{visitorPipelineView{
		ID:         v.ID,
		GraphQLID:  v.GraphQLID,
		URL:        v.URL,
		WebURL:     v.WebURL,
		Name:       v.Name,
		Slug:       v.Slug,
		BuildsURL:  v.BuildsURL,
		BadgeURL:   v.BadgeURL,
		Visibility: v.Visibility,
	}}
}
