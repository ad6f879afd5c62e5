package agents

import (
	"net/http"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

func (s *Service) metricsRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Path: APIPath + "/metrics", Tag: agentTag, Summary: "Count the agents and jobs of the token's cluster",
			Description: "For autoscalers and monitoring.",
			Auth:        route.Agent,
			Handler:     route.Do(s.getMetrics),
		},
		{
			Method: http.MethodGet, Path: APIPath + "/metrics/queue", Tag: agentTag, Summary: "Count the agents and jobs of one queue",
			Description: "All counts are zero for an unknown queue.",
			Auth:        route.Agent,
			Query:       []route.Param{{Name: "name", Doc: "The key of the queue."}},
			Handler:     route.Do(s.getQueueMetrics),
		},
	}
}

// pollSeconds is how often clients are asked to poll the metrics, in seconds.
const pollSeconds = 10

type agentCountsView struct {
	Idle  int `json:"idle"`
	Busy  int `json:"busy"`
	Total int `json:"total"`
}

type jobCountsView struct {
	Scheduled int `json:"scheduled" doc:"Jobs that wait for an agent."`
	Running   int `json:"running" doc:"Jobs assigned to an agent."`
	Waiting   int `json:"waiting" doc:"Jobs that wait for other jobs, for a person, or for their concurrency group."`
	Total     int `json:"total" doc:"Jobs that have not ended."`
}

type metricsView struct {
	Agents       allAgentCountsView      `json:"agents"`
	Jobs         allJobCountsView        `json:"jobs"`
	Organization metricsOrganizationView `json:"organization"`
	Cluster      metricsClusterView      `json:"cluster"`
}

type allAgentCountsView struct {
	agentCountsView
	Queues map[string]agentCountsView `json:"queues" doc:"By queue key."`
}

type allJobCountsView struct {
	jobCountsView
	Queues map[string]jobCountsView `json:"queues" doc:"By queue key."`
}

type queueMetricsView struct {
	Agents       agentCountsView         `json:"agents"`
	Jobs         jobCountsView           `json:"jobs"`
	Organization metricsOrganizationView `json:"organization"`
	Cluster      metricsClusterView      `json:"cluster"`
}

type metricsOrganizationView struct {
	Slug string `json:"slug"`
}

type metricsClusterView struct {
	Name string `json:"name"`
}

func (s *Service) getMetrics(r *route.Request) (v metricsView, err error) {
	c, err := s.count(r)
	if err != nil {
		return v, err
	}
	v.Agents.Queues, v.Jobs.Queues = c.agents, c.jobs
	for _, n := range c.agents {
		v.Agents.add(n)
	}
	for _, n := range c.jobs {
		v.Jobs.add(n)
	}
	v.Organization.Slug, v.Cluster.Name = r.Org.Slug, r.Agent.ClusterName
	return v, nil
}

func (s *Service) getQueueMetrics(r *route.Request) (v queueMetricsView, err error) {
	c, err := s.count(r)
	if err != nil {
		return v, err
	}
	key := r.FormQuery("name")
	v.Agents, v.Jobs = c.agents[key], c.jobs[key]
	v.Organization.Slug, v.Cluster.Name = r.Org.Slug, r.Agent.ClusterName
	return v, nil
}

func (n *agentCountsView) add(m agentCountsView) {
	n.Idle, n.Busy, n.Total = n.Idle+m.Idle, n.Busy+m.Busy, n.Total+m.Total
}

func (n *jobCountsView) add(m jobCountsView) {
	n.Scheduled, n.Running, n.Waiting, n.Total = n.Scheduled+m.Scheduled, n.Running+m.Running, n.Waiting+m.Waiting, n.Total+m.Total
}

// counts are numbers of agents and jobs, by queue key.
type counts struct {
	agents map[string]agentCountsView
	jobs   map[string]jobCountsView
}

// count counts the agents and jobs in the cluster of the token.
func (s *Service) count(r *route.Request) (c counts, err error) {
	r.SetHeader("Buildkite-Agent-Metrics-Poll-Duration", strconv.Itoa(pollSeconds))
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		cluster, err := clusters.ByID(q, r.Org.ID, r.Agent.ClusterID)
		if err != nil {
			return err
		}
		queues, err := clusters.QueueIDs(q, cluster)
		if err != nil {
			return err
		}
		if c.agents, err = countAgents(q, r.Org.ID, cluster.ID); err != nil {
			return err
		}
		unfinished, err := builds.CountUnfinished(q, r.Org.ID, cluster.ID)
		c.jobs = make(map[string]jobCountsView, len(queues))
		for key, id := range queues {
			if key != "" { // the default queue is there a second time
				n := unfinished[id]
				c.jobs[key] = jobCountsView{n.Scheduled, n.Running, n.Waiting, n.Scheduled + n.Running + n.Waiting}
				if _, ok := c.agents[key]; !ok {
					c.agents[key] = agentCountsView{} // show every queue
				}
			}
		}
		return err
	})
	return c, err
}
