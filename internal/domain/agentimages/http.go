package agentimages

import (
	"net/http"
	"strings"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the routes of agent images.
func (s *Service) Routes() []route.Route {
	const all = "/v2/organizations/{org}/clusters/{cluster}/agent-images"
	const one = all + "/{agent_image}"
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: all, Summary: "List agent images",
			Description: "All images of the cluster by name. A cluster that is not hosted has none.",
			Handler:     route.On(s.loadCluster, s.list),
		},
		{
			Method: http.MethodPost, Path: all, Summary: "Create an agent image",
			Description: "The image is built in the background: get it until its status is READY or FAILED.",
			Status:      http.StatusCreated, Errors: []int{http.StatusConflict},
			Handler: route.OnBody(s.loadCluster, s.post),
		},
		{Method: http.MethodGet, Path: one, Summary: "Get an agent image", Handler: route.On(s.loadImage, s.get)},
		{
			Method: http.MethodGet, Path: one + "/log", Summary: "Get the log of an agent image's last build",
			Query:   []route.Param{{Name: "follow", Type: "boolean", Doc: "true: the response goes on until the build has ended."}},
			Media:   []string{"text/plain"},
			Handler: route.On(s.loadImage, s.getLog),
		},
		{
			Method: http.MethodPatch, Path: one, Summary: "Update an agent image",
			Description: "Changes only the fields in the body. A Dockerfile in the body, changed or not, builds a new version on the current base image; queues that use the image move to the new version when it is READY.",
			Errors:      []int{http.StatusConflict},
			Handler:     route.OnBody(s.loadImage, s.patch),
		},
		{
			Method: http.MethodDelete, Path: one, Summary: "Delete an agent image",
			Description: "An image that is assigned to queues is not deleted.",
			Status:      http.StatusNoContent, Errors: []int{http.StatusConflict},
			Handler: route.On(s.loadImage, s.remove),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope, r.Permission = "Agent images", identity.ReadClusters, identity.ManageClusters
		if r.Method != http.MethodGet {
			r.Scope = identity.WriteClusters
		}
	}
	return routes
}

// clusterPath is the cluster in a path.
type clusterPath struct {
	route.Guarded
	clusters.Cluster
}

// imagePath is the image in a path.
type imagePath struct {
	route.Guarded
	Image
}

// loadCluster returns the cluster in the path, if its organization can have agent images.
func (s *Service) loadCluster(r *route.Request) (clusterPath, error) {
	c, guard, err := s.clusters.Guard(r)
	switch {
	case err != nil:
		return clusterPath{}, err
	case !r.Org.Features.HostedAgents:
		return clusterPath{}, core.Errorf(core.NotFound, "Agent images are not available: the organization has no hosted agents")
	case !r.Org.Features.AgentImages:
		return clusterPath{}, core.Errorf(core.NotFound, "Agent images are not enabled for this organization")
	}
	return clusterPath{guard, c}, nil
}

// loadImage returns the image in the path. A cluster that is not hosted has none.
func (s *Service) loadImage(r *route.Request) (imagePath, error) {
	c, err := s.loadCluster(r)
	if err != nil {
		return imagePath{}, err
	}
	image := imagePath{Guarded: c.Guarded}
	if !c.Permits(r, identity.ManageClusters) {
		return image, nil // refused by the route, whether or not the image exists
	}
	if err := s.available(); err != nil {
		return image, err
	}
	id, err := r.PathID("agent_image", noImage)
	if err == nil && !c.Hosted {
		err = core.Errorf(core.NotFound, noImage)
	}
	if err != nil {
		return image, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		image.Image, err = byID(q, c.ID, id)
		return err
	})
	return image, err
}

// available returns an error if this installation has no service for hosted agents.
func (s *Service) available() error {
	if !s.Disabled {
		return nil
	}
	return &core.Error{
		Kind: core.Unavailable, RetryAfter: retryAfter,
		Message: "The hosted-agent service is not available: this installation does not build agent images",
	}
}

type agentImageView struct {
	ID         string    `json:"id"`
	Name       string    `json:"name" doc:"Unique in the cluster."`
	Status     Status    `json:"status"`
	ImageRef   *string   `json:"image_ref" doc:"The agentImageRef for the hosted agents of a queue. Null unless the status is READY."`
	Version    int       `json:"version"`
	LastError  *string   `json:"last_build_error"`
	Dockerfile string    `json:"dockerfile" doc:"Without a FROM instruction."`
	BaseImage  string    `json:"base_image" doc:"The FROM line of the image."`
	Composed   string    `json:"composed_dockerfile" doc:"base_image and dockerfile."`
	URL        string    `json:"url"`
	WebURL     string    `json:"web_url"`
	ClusterURL string    `json:"cluster_url"`
	CreatedAt  core.Time `json:"created_at"`
	UpdatedAt  core.Time `json:"updated_at"`
}

func (s *Service) view(r *route.Request, i Image) agentImageView {
	path := []string{"clusters", i.ClusterID, "agent-images", i.ID}
	return agentImageView{
		ID:         i.ID,
		Name:       i.Name,
		Status:     i.Status,
		ImageRef:   core.OrNull(i.shownRef()),
		Version:    i.Version,
		LastError:  core.OrNull(i.LastError),
		Dockerfile: i.Dockerfile,
		BaseImage:  i.BaseImage,
		Composed:   compose(i.BaseImage, i.Dockerfile),
		URL:        s.public.Org(r.Org.Slug, path...),
		WebURL:     s.public.To(append([]string{"organizations", r.Org.Slug}, path...)...),
		ClusterURL: s.public.Org(r.Org.Slug, "clusters", i.ClusterID),
		CreatedAt:  core.At(i.CreatedAt),
		UpdatedAt:  core.At(i.UpdatedAt),
	}
}

func (s *Service) list(r *route.Request, c clusterPath) ([]agentImageView, error) {
	views := []agentImageView{}
	if !c.Hosted {
		return views, nil
	}
	if err := s.available(); err != nil {
		return views, err
	}
	var images []Image
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		images, err = imagesOf(q, c.ID)
		return err
	})
	for _, i := range images {
		views = append(views, s.view(r, i))
	}
	return views, err
}

func (s *Service) get(r *route.Request, p imagePath) (agentImageView, error) {
	return s.view(r, p.Image), nil
}

// imageFields are the request fields of creating and updating an image.
type imageFields struct {
	Name       route.Opt[string] `json:"name" doc:"Unique in the cluster."`
	Dockerfile route.Opt[string] `json:"dockerfile" doc:"Without a FROM instruction; can be empty."`
}

// applyTo writes the fields that were sent into an image and reports errors.
func (f *imageFields) applyTo(i *Image) error {
	var problems core.Problems
	if f.Name.Set {
		i.Name = strings.TrimSpace(f.Name.Value)
	}
	if f.Dockerfile.Set {
		i.Dockerfile = f.Dockerfile.Value
	}
	if f.Dockerfile.Null {
		problems.Add("dockerfile", "is required; it can be empty")
	}
	i.check(&problems)
	return problems.Err()
}

func (s *Service) post(r *route.Request, c clusterPath, body imageFields) (agentImageView, error) {
	if !c.Hosted {
		return agentImageView{}, core.Errorf(core.Unprocessable, "Agent images can be created in hosted clusters only; the cluster %q is not hosted", c.Name)
	}
	now := s.clock()
	image := Image{
		ID: core.NewID(), OrganizationID: r.Org.ID, ClusterID: c.ID, BaseImage: s.fromLine(),
		Status: Building, Version: 1, CreatedBy: r.Caller.User.ID, CreatedAt: now, UpdatedAt: now,
	}
	if !body.Dockerfile.Set {
		body.Dockerfile.Null = true
	}
	if err := body.applyTo(&image); err != nil {
		return agentImageView{}, err
	}
	if err := s.available(); err != nil {
		return agentImageView{}, err
	}
	err := s.create(r.Context(), image)
	return s.view(r, image), err
}

func (s *Service) patch(r *route.Request, p imagePath, body imageFields) (agentImageView, error) {
	updated, err := s.update(r.Context(), p.Image, body)
	return s.view(r, updated), err
}

func (s *Service) getLog(r *route.Request, p imagePath) (route.Stream, error) {
	follow, err := r.Flag("follow", false)
	if err != nil {
		return route.Stream{}, err
	}
	return route.Stream{Type: "text/plain; charset=utf-8", Size: -1, Write: func(w http.ResponseWriter) error {
		ctx, stop := r.WhileAllowed(s.clock)
		defer stop()
		return s.copyLog(ctx, p.Image, follow, w)
	}}, nil
}

func (s *Service) remove(r *route.Request, p imagePath) (route.Nothing, error) {
	return route.Nothing{}, s.delete(r.Context(), p.Image)
}
