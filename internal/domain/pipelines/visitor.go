package pipelines

import (
	"encoding/json"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A visitor is whoever sees a pipeline only because it is public: somebody who is not signed in, a member of another
// organization, or a member whose teams give no access. Visitors get a reduced view, over REST and on pages alike.
// What they see of pipelines is defined here, and of builds and jobs in package builds (visitor.go): pipelines, builds and
// jobs are copied without everything else before they are shown.

// Visited reports whether whoever loaded the pipeline is a visitor.
func (p *Pipeline) Visited() bool { return p.visited }

// forVisitor returns the pipeline with what visitors may know of it, and nothing else.
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

// Hidden returns a NotFound error to visitors, for what is not part of their view.
func (p *Pipeline) Hidden() error {
	if p.visited {
		return core.Errorf(core.NotFound, noPipeline)
	}
	return nil
}

// visitorPipelineView is a pipeline as REST shows it to visitors.
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

// PipelineView is a pipeline as the request's caller may see it.
type PipelineView struct{ shape any }

// MarshalJSON writes the shape.
func (v PipelineView) MarshalJSON() ([]byte, error) { return json.Marshal(v.shape) }

// Alternatives lists the shapes.
func (PipelineView) Alternatives() []any { return []any{pipelineView{}, visitorPipelineView{}} }

// View returns a pipeline as the request's caller may see it.
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
