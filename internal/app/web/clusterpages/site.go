// Package clusterpages has the pages of what runs jobs: agents, clusters, queues, agent tokens, secrets, stacks and
// agent images.
//
// A page reads and changes things with requests to the REST API in the name of its visitor ([route.Request.Call]),
// so that people can do here what they can do there, and nothing else. The types below name the fields of its
// responses that pages show.
package clusterpages

import (
	"embed"
	"slices"
	"time"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Config contains the dependencies of the pages.
type Config struct {
	Builds *lifecycle.Service
	Live   *live.Hub
}

// Site serves the pages.
type Site struct {
	*pages.Site
	Config
}

// New returns the pages.
func New(base *pages.Site, c Config) *Site {
	base.AddTemplates(templates, nil)
	return &Site{Site: base, Config: c}
}

// Routes returns the routes of the pages.
func (s *Site) Routes() []route.Route {
	return slices.Concat(s.agentRoutes(), s.clusterRoutes(), s.queueRoutes(), s.tokenRoutes(), s.secretRoutes(), s.stackRoutes(), s.imageRoutes())
}

// get returns the route of a page for members of the organization.
func (s *Site) get(path string, h pages.Handler) route.Route {
	return s.Get("/organizations/{org}"+path, pages.MembersOnly(h))
}

// post returns the route of a form for members of the organization.
func (s *Site) post(path string, h pages.Handler) route.Route {
	return s.Post("/organizations/{org}"+path, pages.SignedIn(pages.MembersOnly(h)))
}

// A person is a user in a response.
type person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// A cluster is a cluster in a response.
type cluster struct {
	ID             string    `json:"id"`
	Name           string    `json:"name"`
	Description    string    `json:"description"`
	Emoji          *string   `json:"emoji"`
	Color          *string   `json:"color"`
	DefaultQueueID *string   `json:"default_queue_id"`
	CreatedAt      time.Time `json:"created_at"`
}

// Path returns the path of the cluster's page.
func (c cluster) Path(org string, segments ...string) string {
	return core.PublicURL("").To(append([]string{"organizations", org, "clusters", c.ID}, segments...)...)
}

// loadCluster returns the cluster of the path.
func loadCluster(v *pages.Visit) (c cluster, err error) {
	_, err = v.Call("GET", v.API("clusters", v.PathValue("cluster")), nil, &c)
	return c, err
}

// beside returns the links to the pages of a cluster.
func (c cluster) beside(v *pages.Visit) []pages.NavLink {
	return []pages.NavLink{
		{Section: "queues", Path: c.Path(v.Org.Slug), Title: "Queues", Icon: "stack"},
		{Section: "tokens", Path: c.Path(v.Org.Slug, "tokens"), Title: "Agent tokens", Icon: "key"},
		{Section: "secrets", Path: c.Path(v.Org.Slug, "secrets"), Title: "Secrets", Icon: "lock"},
		{Section: "stacks", Path: c.Path(v.Org.Slug, "stacks"), Title: "Stacks", Icon: "grid"},
		{Section: "images", Path: c.Path(v.Org.Slug, "agent-images"), Title: "Agent images", Icon: "file"},
		{Section: "cluster", Path: c.Path(v.Org.Slug, "settings"), Title: "Cluster settings", Icon: "pen"},
	}
}

// inCluster is the data of a page of a cluster.
type inCluster struct {
	Cluster cluster
	Org     string // slug
	// Manages reports whether the visitor sees forms; the API decides whether they work.
	Manages bool
}

// At returns a path of the cluster.
func (c inCluster) At(segments ...string) string { return c.Cluster.Path(c.Org, segments...) }

// show shows a page of a cluster.
func (c inCluster) show(v *pages.Visit, status int, name, section, title string, page any) error {
	return v.Show(status, name, pages.View{Title: title, Section: section, Beside: c.Cluster.beside(v), BesideLabel: "Cluster", Page: page})
}

// A resource is something in a cluster that has a page, and its path in the API.
type resource[T any] struct {
	inCluster
	it  T
	api string
}

// loader returns a function that loads what a parameter of the path names, from a list of its cluster.
func loader[T any](s *Site, list, parameter string) func(*pages.Visit) (resource[T], error) {
	return func(v *pages.Visit) (r resource[T], err error) {
		if r.inCluster, err = s.within(v); err != nil {
			return r, err
		}
		r.api = v.API("clusters", r.Cluster.ID, list, v.PathValue(parameter))
		_, err = v.Call("GET", r.api, nil, &r.it)
		return r, err
	}
}

func (s *Site) within(v *pages.Visit) (inCluster, error) {
	c, err := loadCluster(v)
	return inCluster{Cluster: c, Org: v.Org.Slug, Manages: err == nil && s.manages(v, c)}, err
}
