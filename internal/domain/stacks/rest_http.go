package stacks

import (
	"net/http"
	"slices"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// restRoutes returns the routes of stacks in the REST API.
func (s *Service) restRoutes() []route.Route {
	const path = "/v2/organizations/{org}/clusters/{cluster}/stacks"
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Tag: tag, Summary: "List the stacks of a cluster",
			Scope:   identity.ReadClusters,
			Query:   route.PageParams,
			Handler: route.On(s.loadCluster, s.listStacks),
		},
		{
			Method: http.MethodGet, Path: path + "/{stack}", Tag: tag, Summary: "Get a stack of a cluster",
			Scope:   identity.ReadClusters,
			Handler: route.On(s.loadInCluster, s.getStack),
		},
		{
			Method: http.MethodDelete, Path: path + "/{stack}", Tag: tag, Summary: "De-register a stack of a cluster",
			Description: "Releases the jobs that the stack has reserved and invalidates its job acquisition tokens. Jobs that its agents run continue. A stack that is still running can register again.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusNoContent,
			Handler: route.On(s.loadInCluster, s.deleteStack),
		},
		{
			Method: http.MethodDelete, Path: path + "/{stack}/reserved-jobs/{job}", Tag: tag, Summary: "Release a job that a stack has reserved",
			Description: "Other stacks and agents can take the job at once. Its job acquisition token is not valid any more.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusNoContent,
			Handler: route.On(s.loadInCluster, s.releaseJob),
		},
	}
}

// A clusterPath is the cluster that a path names.
type clusterPath struct {
	route.Guarded
	id string
}

// A clusterStackPath is the stack of a cluster that a path names.
type clusterStackPath struct {
	clusterPath
	*Stack
}

func (s *Service) loadCluster(r *route.Request) (clusterPath, error) {
	c, guard, err := s.clusters.Guard(r)
	return clusterPath{guard, c.ID}, err
}

func (s *Service) loadInCluster(r *route.Request) (l clusterStackPath, err error) {
	if l.clusterPath, err = s.loadCluster(r); err != nil {
		return l, err
	}
	l.Stack, err = route.ReadByID(r, s.db, "stack", noStack, func(q *db.Q, id string) (*Stack, error) { return byID(q, l.clusterPath.id, id) })
	return l, err
}

type clusterStackView struct {
	ID           string            `json:"id"`
	URL          string            `json:"url"`
	ClusterURL   string            `json:"cluster_url"`
	Key          string            `json:"key"`
	Type         string            `json:"type"`
	QueueKey     string            `json:"cluster_queue_key" doc:"The queue as registered. __default__ is the default queue."`
	Metadata     map[string]string `json:"metadata"`
	State        string            `json:"state" doc:"connected, or disconnected after six minutes without a call."`
	RegisteredAt core.Time         `json:"registered_at"`
	ConnectedAt  core.Time         `json:"last_connected_on" doc:"Time of the last call, a few seconds delayed."`
	Reserved     int               `json:"reserved_jobs_count"`
	// ReservedJobs is only in responses about one stack.
	ReservedJobs []reservedJobView `json:"reserved_jobs,omitzero" doc:"Only in responses about one stack: at most 100 reserved jobs of pipelines that you can see, the first to expire first."`
}

type reservedJobView struct {
	ID    string    `json:"id"`
	URL   string    `json:"url"`
	Until core.Time `json:"reserved_until"`
}

// maxReservedShown bounds the reserved jobs in a response.
const maxReservedShown = 100

func (s *Service) clusterView(r *route.Request, stack *Stack, reserved int) clusterStackView {
	return clusterStackView{
		ID:         stack.ID,
		URL:        s.public.Org(r.Org.Slug, "clusters", stack.ClusterID, "stacks", stack.ID),
		ClusterURL: s.public.Org(r.Org.Slug, "clusters", stack.ClusterID),
		Key:        stack.Key, Type: stack.Type, QueueKey: stack.QueueKey, Metadata: stack.Metadata,
		State:        stack.state(s.clock()),
		RegisteredAt: core.At(stack.RegisteredAt), ConnectedAt: core.At(stack.ConnectedAt),
		Reserved: reserved,
	}
}

func (s *Service) listStacks(r *route.Request, c clusterPath) (route.Paged[clusterStackView], error) {
	page, err := r.Page()
	if err != nil {
		return route.Paged[clusterStackView]{}, err
	}
	var stacks []*Stack
	var reserved map[string]int
	var total int
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if stacks, total, err = list(q, c.id, page.Size, page.Offset()); err != nil {
			return err
		}
		ids := make([]string, len(stacks))
		for i, stack := range stacks {
			ids[i] = stack.ID
		}
		reserved, err = dispatch.CountReserved(q, ids, s.clock())
		return err
	})
	return route.MapPage(stacks, page, total, func(stack *Stack) clusterStackView {
		return s.clusterView(r, stack, reserved[stack.ID])
	}), err
}

func (s *Service) getStack(r *route.Request, l clusterStackPath) (v clusterStackView, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		counts, err := dispatch.CountReserved(q, []string{l.ID}, s.clock())
		if err != nil {
			return err
		}
		v = s.clusterView(r, l.Stack, counts[l.ID])
		v.ReservedJobs, err = s.reservedJobs(r, q, l.Stack)
		return err
	})
	return v, err
}

// reservedJobs returns jobs that a stack has reserved, without those that the caller may not see.
func (s *Service) reservedJobs(r *route.Request, q *db.Q, stack *Stack) ([]reservedJobView, error) {
	jobs, err := dispatch.ReservedJobs(q, stack.ID, s.clock(), maxReservedShown)
	if err != nil {
		return nil, err
	}
	pipelineIDs := make([]string, len(jobs))
	for i, j := range jobs {
		pipelineIDs[i] = j.PipelineID
	}
	slices.Sort(pipelineIDs)
	visible, err := pipelines.ByIDs(q, pipelines.ViewerOf(r), slices.Compact(pipelineIDs))
	if err != nil {
		return nil, err
	}
	views := []reservedJobView{}
	for _, j := range jobs {
		if visible[j.PipelineID] != nil {
			views = append(views, reservedJobView{ID: j.ID, URL: s.public.Org(r.Org.Slug, "jobs", j.ID), Until: core.At(j.Until)})
		}
	}
	return views, nil
}

const notReserved = "The stack has not reserved this job"

func (s *Service) releaseJob(r *route.Request, l clusterStackPath) (route.Nothing, error) {
	id, err := r.PathID("job", notReserved)
	if err != nil {
		return route.Nothing{}, err
	}
	return route.Nothing{}, s.db.Write(r.Context(), func(q *db.Q) error {
		released, err := dispatch.ReleaseJob(q, l.Stack.ID, id, s.clock())
		if err == nil && !released {
			err = core.Errorf(core.NotFound, notReserved)
		}
		return err
	})
}

func (s *Service) deleteStack(r *route.Request, l clusterStackPath) (route.Nothing, error) {
	return route.Nothing{}, s.deregister(r.Context(), l.Stack.ID)
}
