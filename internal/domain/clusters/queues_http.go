package clusters

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) queueRoutes() []route.Route {
	const path = "/v2/organizations/{org}/clusters/{cluster}/queues"
	load := resourceLoader(s, "queue", noQueue, queueByID)
	update := route.Route{
		Method: http.MethodPatch, Path: path + "/{queue}", Tag: "Queues", Summary: "Update a queue",
		Description: "Changes only the fields in the body. The key of a queue is never changed, nor is a queue made hosted or self-hosted.",
		Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
		Handler: route.OnBody(load, s.patchQueue),
	}
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Tag: "Queues", Summary: "List the queues of a cluster",
			Scope:   identity.ReadClusters,
			Query:   route.PageParams,
			Handler: route.On(s.load, s.listQueues),
		},
		{
			Method: http.MethodPost, Path: path, Tag: "Queues", Summary: "Create a queue",
			Scope: identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusCreated,
			Handler: route.OnBody(s.load, s.postQueue),
		},
		{
			Method: http.MethodGet, Path: path + "/{queue}", Tag: "Queues", Summary: "Get a queue",
			Scope:   identity.ReadClusters,
			Handler: route.On(load, s.getQueue),
		},
		update,
		asPut(update),
		{
			Method: http.MethodDelete, Path: path + "/{queue}", Tag: "Queues", Summary: "Delete a queue",
			Description: "The default queue of a cluster is not deleted.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status: http.StatusNoContent, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(load, s.deleteQueue),
		},
		{
			Method: http.MethodPost, Path: path + "/{queue}/pause_dispatch", Tag: "Queues", Summary: "Pause a queue",
			Description: "No new jobs of the queue are dispatched until it is resumed. Running jobs go on.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Handler: route.OnBody(load, s.pauseQueue),
		},
		{
			Method: http.MethodPost, Path: path + "/{queue}/resume_dispatch", Tag: "Queues", Summary: "Resume a queue",
			Scope: identity.WriteClusters, Permission: identity.ManageClusters,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.On(load, s.resumeQueue),
		},
	}
}

type queueView struct {
	ID            string             `json:"id"`
	GraphQLID     string             `json:"graphql_id"`
	Key           string             `json:"key"`
	Description   string             `json:"description"`
	URL           string             `json:"url"`
	WebURL        string             `json:"web_url"`
	ClusterURL    string             `json:"cluster_url"`
	RetryAffinity RetryAffinity      `json:"retry_agent_affinity" doc:"Which agent a retried job prefers."`
	Paused        bool               `json:"dispatch_paused"`
	PausedBy      *identity.UserView `json:"dispatch_paused_by"`
	PausedAt      core.Time          `json:"dispatch_paused_at"`
	PausedNote    *string            `json:"dispatch_paused_note"`
	Connection    Connection         `json:"connection_state" doc:"Whether a stack polls for the queue's scheduled jobs. It is connected for five to six minutes after a poll."`
	PolledAt      core.Time          `json:"last_connected_at" doc:"When a stack last polled, up to a few seconds late."`
	CreatedAt     core.Time          `json:"created_at"`
	CreatedBy     *identity.UserView `json:"created_by"`
	Hosted        bool               `json:"hosted,omitempty" doc:"True when the service itself runs the queue's agents; else absent."`
	HostedAgents  *hostedAgentsView  `json:"hosted_agents,omitempty" doc:"Of a hosted queue."`
}

type hostedAgentsView struct {
	InstanceShape    instanceShapeView           `json:"instance_shape"`
	PlatformSettings *hostedPlatformSettingsView `json:"platform_settings,omitempty"`
}

type instanceShapeView struct {
	MachineType  Platform `json:"machine_type"`
	Architecture string   `json:"architecture"`
	CPU          int      `json:"cpu" doc:"Cores."`
	Memory       int      `json:"memory" doc:"In GB."`
	Name         string   `json:"name"`
}

type hostedPlatformSettingsView struct {
	Linux hostedLinuxSettingsView `json:"linux"`
}

type hostedLinuxSettingsView struct {
	AgentImageRef string `json:"agent_image_ref"`
}

func (s *Service) viewQueue(r *route.Request, q Queue) queueView {
	v := queueView{
		ID:            q.ID,
		GraphQLID:     core.GraphQLID("ClusterQueue", q.ID),
		Key:           q.Key,
		Description:   q.Description,
		URL:           s.url(r, q.ClusterID, "queues", q.ID),
		WebURL:        s.webURL(r, q.ClusterID, "queues", q.ID),
		ClusterURL:    s.url(r, q.ClusterID),
		RetryAffinity: q.RetryAffinity,
		Paused:        !q.PausedAt.IsZero(),
		PausedBy:      q.PausedBy.View(s.public),
		PausedAt:      core.At(q.PausedAt),
		PausedNote:    core.OrNull(q.PausedNote),
		Connection:    q.connection(s.clock()),
		PolledAt:      core.At(q.PolledAt),
		CreatedAt:     core.At(q.CreatedAt),
		CreatedBy:     q.CreatedBy.View(s.public),
	}
	if hosted := q.hosting(); hosted != nil {
		v.Hosted, v.HostedAgents = true, viewHosted(hosted)
	}
	return v
}

func viewHosted(h *HostedAgents) *hostedAgentsView {
	shape := h.shape()
	v := &hostedAgentsView{InstanceShape: instanceShapeView{
		MachineType:  shape.Platform,
		Architecture: shape.Architecture,
		CPU:          shape.CPU,
		Memory:       shape.Memory,
		Name:         shape.Name,
	}}
	if h.ImageRef != "" {
		v.PlatformSettings = &hostedPlatformSettingsView{Linux: hostedLinuxSettingsView{AgentImageRef: h.ImageRef}}
	}
	return v
}

func (s *Service) listQueues(r *route.Request, c maintained) (route.Paged[queueView], error) {
	return listResources(s, r, c, listQueues, s.viewQueue)
}

// listResources returns one page of a cluster's resources of one type.
func listResources[T, V any](s *Service, r *route.Request, c maintained, list func(q *db.Q, clusterID string, limit, offset int) ([]T, int, error), view func(*route.Request, T) V) (route.Paged[V], error) {
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]T, int, error) { return list(q, c.ID, limit, offset) },
		func(item T) V { return view(r, item) })
}

func (s *Service) getQueue(r *route.Request, p resource[Queue]) (queueView, error) {
	return s.viewQueue(r, p.item), nil
}

type queueCreate struct {
	Key           route.Opt[string]            `json:"key" doc:"Letters, digits, hyphens and underscores; unique in the cluster."`
	Description   route.Opt[string]            `json:"description"`
	RetryAffinity route.Opt[RetryAffinity]     `json:"retry_agent_affinity"`
	HostedAgents  route.Opt[queueHostedAgents] `json:"hostedAgents" doc:"Send it for a hosted queue."`
}

type queueHostedAgents struct {
	InstanceShape string            `json:"instanceShape" doc:"The machine each agent gets, such as LINUX_AMD64_2X4."`
	AgentImageRef route.Opt[string] `json:"agentImageRef" doc:"The image that Linux agents start from."`
}

func (s *Service) postQueue(r *route.Request, c maintained, body queueCreate) (queueView, error) {
	queue := Queue{
		ID:            core.NewID(),
		ClusterID:     c.ID,
		Key:           body.Key.Value,
		Description:   body.Description.Value,
		RetryAffinity: PreferWarmest,
		CreatedBy:     &r.Caller.User,
		CreatedAt:     s.clock(),
	}
	if body.RetryAffinity.Value != "" {
		queue.RetryAffinity = body.RetryAffinity.Value
	}
	var problems core.Problems
	queue.check(&problems)
	if b := body.HostedAgents; b.Set && !b.Null {
		if !r.Org.Features.HostedAgents {
			problems.Add("hostedAgents", "cannot be given: hosted agents are not enabled for this organization")
		}
		queue.Hosted = &HostedAgents{}
		b.Value.applyTo(queue.Hosted, &problems)
	}
	if err := problems.Err(); err != nil {
		return queueView{}, err
	}
	created, err := s.createQueue(r.Context(), c.Cluster, queue)
	return s.viewQueue(r, created), err
}

// applyTo writes the body into h and reports errors.
func (b queueHostedAgents) applyTo(h *HostedAgents, problems *core.Problems) {
	h.Shape = b.InstanceShape
	b.AgentImageRef.To(&h.ImageRef)
	h.check(problems)
}

type queueUpdate struct {
	Key           route.Opt[string]            `json:"key" doc:"Cannot be changed; the same key is accepted."`
	Description   route.Opt[string]            `json:"description"`
	RetryAffinity route.Opt[RetryAffinity]     `json:"retry_agent_affinity"`
	HostedAgents  route.Opt[queueHostedAgents] `json:"hostedAgents" doc:"Of a hosted queue only. The machine type and architecture stay as they are."`
}

func (s *Service) patchQueue(r *route.Request, p resource[Queue], body queueUpdate) (queueView, error) {
	changed, err := s.changeQueue(r.Context(), p, func(queue *Queue) error {
		var problems core.Problems
		if body.Key.Set && body.Key.Value != queue.Key {
			problems.Add("key", "cannot be changed")
		}
		body.Description.To(&queue.Description)
		body.RetryAffinity.To(&queue.RetryAffinity)
		queue.check(&problems)
		if b := body.HostedAgents; b.Set {
			b.Value.applyToQueue(queue, &problems)
		}
		return problems.Err()
	})
	return s.viewQueue(r, changed), err
}

// applyToQueue writes the body into the hosted agents of a queue and reports errors.
func (b queueHostedAgents) applyToQueue(queue *Queue, problems *core.Problems) {
	before := queue.hosting()
	if before == nil {
		problems.Add("hostedAgents", "cannot be given for a self-hosted queue")
		return
	}
	after := *before
	b.applyTo(&after, problems)
	was := before.shape()
	if is, ok := shapeByName(after.Shape); ok && (is.Platform != was.Platform || is.Architecture != was.Architecture) {
		problems.Add("hostedAgents.instanceShape", "must have the machine type and architecture of %s", was.Name)
	}
	queue.Hosted = &after
}

func (s *Service) deleteQueue(r *route.Request, p resource[Queue]) (route.Nothing, error) {
	return route.Nothing{}, s.removeQueue(r.Context(), p)
}

type queuePause struct {
	PausedNote route.Opt[string] `json:"dispatch_paused_note" doc:"Reason, shown to people."`
	Note       route.Opt[string] `json:"note" doc:"Another name for dispatch_paused_note."`
}

func (s *Service) pauseQueue(r *route.Request, p resource[Queue], body queuePause) (queueView, error) {
	note := body.PausedNote.Value
	if note == "" {
		note = body.Note.Value
	}
	var problems core.Problems
	checkText(&problems, "dispatch_paused_note", note, maxDescription)
	if err := problems.Err(); err != nil {
		return queueView{}, err
	}
	paused, err := s.changeQueue(r.Context(), p, func(queue *Queue) error {
		return queue.pause(&r.Caller.User, note, s.clock())
	})
	return s.viewQueue(r, paused), err
}

func (s *Service) resumeQueue(r *route.Request, p resource[Queue]) (queueView, error) {
	resumed, err := s.changeQueue(r.Context(), p, (*Queue).resume)
	return s.viewQueue(r, resumed), err
}
