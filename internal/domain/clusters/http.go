package clusters

import (
	"net/http"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the package's part of the route table.
func (s *Service) Routes() []route.Route {
	return slices.Concat(s.clusterRoutes(), s.queueRoutes(), s.tokenRoutes(), s.secretRoutes(), s.maintainerRoutes())
}

func (s *Service) clusterRoutes() []route.Route {
	const path = "/v2/organizations/{org}/clusters"
	update := route.Route{
		Method: http.MethodPatch, Path: path + "/{cluster}", Tag: "Clusters", Summary: "Update a cluster",
		Description: "Changes only the fields in the body.",
		Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
		Handler: route.OnBody(s.load, s.updateCluster),
	}
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Tag: "Clusters", Summary: "List clusters",
			Scope:   identity.ReadClusters,
			Query:   route.PageParams,
			Handler: route.Do(s.listClusters),
		},
		{
			Method: http.MethodPost, Path: path, Tag: "Clusters", Summary: "Create a cluster",
			Description: "The cluster has no queue and no agent token to begin with.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusCreated,
			Handler: route.DoBody(s.createCluster),
		},
		{
			Method: http.MethodGet, Path: path + "/{cluster}", Tag: "Clusters", Summary: "Get a cluster",
			Scope:   identity.ReadClusters,
			Handler: route.On(s.load, s.getCluster),
		},
		update,
		asPut(update),
		{
			Method: http.MethodDelete, Path: path + "/{cluster}", Tag: "Clusters", Summary: "Delete a cluster",
			Description: "Its queues, agent tokens, secrets and maintainers go with it. A cluster that pipelines use is not deleted.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status: http.StatusNoContent, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.load, s.deleteCluster),
		},
	}
}

// asPut returns a PATCH route as a PUT route. The documentation says PUT, clients send PATCH, and both mean a
// partial update.
func asPut(patch route.Route) route.Route {
	patch.Method = http.MethodPut
	return patch
}

type clusterView struct {
	ID              string                 `json:"id"`
	GraphQLID       string                 `json:"graphql_id"`
	DefaultQueueID  *string                `json:"default_queue_id"`
	Name            string                 `json:"name"`
	Description     string                 `json:"description"`
	Emoji           *string                `json:"emoji"`
	Color           *string                `json:"color"`
	Maintainers     clusterMaintainersView `json:"maintainers"`
	URL             string                 `json:"url"`
	WebURL          string                 `json:"web_url"`
	QueuesURL       string                 `json:"queues_url"`
	DefaultQueueURL *string                `json:"default_queue_url"`
	CreatedAt       core.Time              `json:"created_at"`
	CreatedBy       *identity.UserView     `json:"created_by"`
	GitMirror       *bool                  `json:"hosted_git_mirror_enabled,omitempty" doc:"Shown to those who may change the cluster."`
	ContainerCache  *bool                  `json:"hosted_container_cache_enabled,omitempty" doc:"Shown to those who may change the cluster."`
}

type clusterMaintainersView struct {
	Users []clusterMaintainerView `json:"users"`
	Teams []clusterMaintainerView `json:"teams"`
}

func (s *Service) view(r *route.Request, c maintained) clusterView {
	v := clusterView{
		ID:             c.ID,
		GraphQLID:      core.GraphQLID("Cluster", c.ID),
		DefaultQueueID: core.OrNull(c.DefaultQueueID),
		Name:           c.Name,
		Description:    c.Description,
		Emoji:          core.OrNull(c.Emoji),
		Color:          core.OrNull(c.Color),
		Maintainers:    clusterMaintainersView{Users: []clusterMaintainerView{}, Teams: []clusterMaintainerView{}},
		URL:            s.url(r, c.ID),
		WebURL:         s.webURL(r, c.ID),
		QueuesURL:      s.url(r, c.ID, "queues"),
		CreatedAt:      core.At(c.CreatedAt),
		CreatedBy:      c.CreatedBy.View(s.public),
	}
	if c.DefaultQueueID != "" {
		v.DefaultQueueURL = new(s.url(r, c.ID, "queues", c.DefaultQueueID))
	}
	for _, m := range c.maintainers {
		list := &v.Maintainers.Users
		if m.Team != nil {
			list = &v.Maintainers.Teams
		}
		*list = append(*list, viewMaintainer(m))
	}
	if c.Permits(r, identity.ManageClusters) {
		v.GitMirror, v.ContainerCache = &c.GitMirror, &c.ContainerCache
	}
	return v
}

// url returns the API URL of a cluster or of something in it.
func (s *Service) url(r *route.Request, clusterID string, segments ...string) string {
	return s.public.Org(r.Org.Slug, append([]string{"clusters", clusterID}, segments...)...)
}

// webURL returns the URL of the page of a cluster or of something in it.
func (s *Service) webURL(r *route.Request, clusterID string, segments ...string) string {
	return s.public.To(append([]string{"organizations", r.Org.Slug, "clusters", clusterID}, segments...)...)
}

func (s *Service) listClusters(r *route.Request) (route.Paged[clusterView], error) {
	list := func(q *db.Q, limit, offset int) ([]maintained, int, error) {
		clusters, total, err := listClusters(q, r.Org.ID, limit, offset)
		if err != nil {
			return nil, 0, err
		}
		list, err := withMaintainers(q, clusters)
		return list, total, err
	}
	return route.ReadPage(r, s.db, list, func(c maintained) clusterView { return s.view(r, c) })
}

func (s *Service) getCluster(r *route.Request, c maintained) (clusterView, error) {
	return s.view(r, c), nil
}

type clusterCreate struct {
	Name        route.Opt[string]                    `json:"name"`
	Description route.Opt[string]                    `json:"description"`
	Emoji       route.Opt[string]                    `json:"emoji" doc:"An emoji, or the name of one between colons."`
	Color       route.Opt[string]                    `json:"color" doc:"In hex, such as #A9CCE3."`
	Maintainers route.Opt[[]clusterMaintainerCreate] `json:"maintainers"`
}

func (s *Service) createCluster(r *route.Request, body clusterCreate) (clusterView, error) {
	c := Cluster{
		ID:             core.NewID(),
		OrganizationID: r.Org.ID,
		Name:           body.Name.Value,
		Description:    body.Description.Value,
		Emoji:          body.Emoji.Value,
		Color:          body.Color.Value,
		CreatedBy:      &r.Caller.User,
		CreatedAt:      s.clock(),
	}
	var problems core.Problems
	c.check(&problems)
	refs := maintainerRefs(body.Maintainers.Value, &problems)
	if err := problems.Err(); err != nil {
		return clusterView{}, err
	}
	created, err := s.create(r.Context(), c, refs)
	return s.view(r, created), err
}

type clusterUpdate struct {
	Name           route.Opt[string] `json:"name"`
	Description    route.Opt[string] `json:"description"`
	Emoji          route.Opt[string] `json:"emoji"`
	Color          route.Opt[string] `json:"color"`
	DefaultQueueID route.Opt[string] `json:"default_queue_id" doc:"The id of one of the cluster's queues; null for none."`
	GitMirror      route.Opt[bool]   `json:"hosted_git_mirror_enabled"`
	ContainerCache route.Opt[bool]   `json:"hosted_container_cache_enabled"`
}

func (s *Service) updateCluster(r *route.Request, c maintained, body clusterUpdate) (clusterView, error) {
	changed, err := s.change(r.Context(), c.Cluster, func(q *db.Q, c *Cluster) error {
		body.Name.To(&c.Name)
		body.Description.To(&c.Description)
		body.Emoji.To(&c.Emoji)
		body.Color.To(&c.Color)
		body.DefaultQueueID.To(&c.DefaultQueueID)
		body.GitMirror.To(&c.GitMirror)
		body.ContainerCache.To(&c.ContainerCache)
		var problems core.Problems
		c.check(&problems)
		if err := checkDefaultQueue(q, c, &problems); err != nil {
			return err
		}
		return problems.Err()
	})
	return s.view(r, changed), err
}

func (s *Service) deleteCluster(r *route.Request, c maintained) (route.Nothing, error) {
	return route.Nothing{}, s.delete(r.Context(), c.Cluster)
}
