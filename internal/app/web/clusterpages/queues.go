package clusterpages

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Site) queueRoutes() []route.Route {
	const one = "/clusters/{cluster}/queues/{queue}"
	const cluster = "/organizations/{org}/clusters/{cluster}"
	load := s.queueLoader()
	return append(append(s.Live.Page(cluster, pages.MembersOnly, pages.On(s.within, s.cluster), s.watchQueues), s.Live.Page("/organizations/{org}"+one, pages.MembersOnly, pages.On(load, s.queue), s.watchQueue)...),
		s.post("/clusters/{cluster}/queues", pages.On(s.within, s.createQueue)),
		s.post(one, pages.On(load, s.changeQueue)),
		s.post(one+"/pause", pages.On(load, s.pauseQueue)),
		s.post(one+"/resume", pages.On(load, s.resumeQueue)),
		s.post(one+"/delete", pages.On(load, s.deleteQueue)),
	)
}

// watchQueue says when a queue, its jobs or its agents change.
func (s *Site) watchQueue(v *pages.Visit) (live.Watch, error) {
	on, err := s.queueLoader()(v)
	return live.Watch{Topics: []string{dispatch.Topic(on.it.ID), agents.OrganizationTopic(v.Org.ID), builds.OrganizationTopic(v.Org.ID)}}, err
}

// watchQueues says when the queues of a cluster or their agents change.
func (s *Site) watchQueues(v *pages.Visit) (live.Watch, error) {
	in, err := s.within(v)
	if err != nil {
		return live.Watch{}, err
	}
	queues, err := s.queuesOf(v, in.Cluster)
	w := live.Watch{Topics: []string{agents.OrganizationTopic(v.Org.ID)}}
	for _, q := range queues {
		w.Topics = append(w.Topics, dispatch.Topic(q.ID))
	}
	return w, err
}

// A queue is a queue in a response.
type queue struct {
	ID            string     `json:"id"`
	Key           string     `json:"key"`
	Description   string     `json:"description"`
	Affinity      string     `json:"retry_agent_affinity"`
	Paused        bool       `json:"dispatch_paused"`
	PausedBy      *person    `json:"dispatch_paused_by"`
	PausedAt      *time.Time `json:"dispatch_paused_at"`
	PausedNote    *string    `json:"dispatch_paused_note"`
	State         string     `json:"connection_state"`
	LastConnected *time.Time `json:"last_connected_at"`
	Hosted        bool       `json:"hosted"`
}

func (s *Site) queuesOf(v *pages.Visit, c cluster) (list []queue, err error) {
	return pages.All[queue](v, v.API("clusters", c.ID, "queues"))
}

func (s *Site) newQueueForm(in inCluster) pages.Form {
	return pages.Form{ID: "new", Action: in.At("queues"), Submit: "Create queue", Fields: []pages.Field{
		{Name: "key", Label: "Key", Required: true, Hint: "Letters, digits, hyphens and underscores. Steps name it: agents: {queue: KEY}."},
		{Name: "description", Label: "Description", Null: true},
	}}
}

// cluster shows the queues of a cluster.
func (s *Site) cluster(v *pages.Visit, in inCluster) error {
	return s.showCluster(v, http.StatusOK, in, s.newQueueForm(in))
}

func (s *Site) showCluster(v *pages.Visit, status int, in inCluster, form pages.Form) error {
	queues, links, err := pages.ListOf[queue](v, v.API("clusters", in.Cluster.ID, "queues"))
	if err != nil {
		return err
	}
	return in.show(v, status, "cluster", "queues", in.Cluster.Name, struct {
		inCluster
		Queues  []queue
		Pages   []pages.PageLink
		Default string
		New     pages.Form
	}{in, queues, links, pages.Text(in.Cluster.DefaultQueueID), form})
}

func (s *Site) createQueue(v *pages.Visit, in inCluster) error {
	return v.Submit(s.newQueueForm(in), "POST", v.API("clusters", in.Cluster.ID, "queues"), in.At(), "Queue created. Start an agent in it with --queue and its key.", func(f pages.Form) error {
		return s.showCluster(v, http.StatusUnprocessableEntity, in, f)
	})
}

func (s *Site) queueLoader() func(*pages.Visit) (resource[queue], error) {
	return loader[queue](s, "queues", "queue")
}

// waits are the metrics of a queue in a response.
type waits struct {
	EnabledAt time.Time `json:"enabled_at"`
	Interval  string    `json:"interval"`
	Total     wait      `json:"total"`
	Intervals []struct {
		From time.Time `json:"from"`
		wait
	} `json:"intervals"`
}

type wait struct {
	Jobs       int      `json:"jobs"`
	P50        *float64 `json:"p50"`
	P95        *float64 `json:"p95"`
	WaitingMax int      `json:"waiting_max"`
	RunningMax int      `json:"running_max"`
}

// Seconds formats seconds; nil is a dash.
func (wait) Seconds(s *float64) string {
	if s == nil {
		return "–"
	}
	return pages.Length(time.Duration(*s * float64(time.Second)))
}

// chart draws how long jobs waited: the median as columns, and the 95th percentile as the part above it.
func (w waits) chart() *pages.Chart {
	c := pages.NewChart("Waiting time of jobs over the last 24 hours", len(w.Intervals), pages.ChartHeight)
	milliseconds := func(s *float64) int {
		if s == nil {
			return 0
		}
		return int(*s * 1000)
	}
	highest := 0
	for _, i := range w.Intervals {
		highest = max(highest, milliseconds(i.P95))
	}
	for n, i := range w.Intervals {
		p50, p95 := milliseconds(i.P50), milliseconds(i.P95)
		title := fmt.Sprintf("%s: %d jobs", i.From.UTC().Format("15:04 UTC"), i.Jobs)
		if i.Jobs > 0 {
			title += fmt.Sprintf(", half waited up to %s, 95%% up to %s", i.Seconds(i.P50), i.Seconds(i.P95))
		}
		c.Add(n, []pages.Share{{Class: "good", Count: p50}, {Class: "none", Count: p95 - p50}}, highest, title, "")
	}
	return c
}

// jobsOfQueue limits the jobs on the page of a queue.
const jobsOfQueue = 50

// queuePage is the data of a queue's page.
type queuePage struct {
	inCluster
	Queue     queue
	Jobs      builds.QueueJobs
	Agents    []agentRow
	MoreAgent bool
	AllAgents string
	Waits     *waits // nil: not enabled
	Chart     *pages.Chart
	Command   string
	Pause     pages.Form
	Resume    pages.Form
	Edit      pages.Form
	Delete    pages.Confirm
}

// JobPath returns the path of a job.
func (p queuePage) JobPath(j builds.OnJob) string {
	return core.PublicURL("").To(p.Org, j.Pipeline.Slug, "builds", strconv.Itoa(j.Build.Number)) + "#" + j.ID
}

// JobName returns a name of a job.
func (p queuePage) JobName(j builds.OnJob) string {
	if j.Label != "" {
		return j.Label
	}
	return "Job of " + j.Pipeline.Name
}

func (s *Site) queue(v *pages.Visit, on resource[queue]) error {
	return s.showQueue(v, http.StatusOK, on.inCluster, on.it, func(*queuePage) {})
}

func (s *Site) showQueue(v *pages.Visit, status int, in inCluster, q queue, change func(*queuePage)) error {
	p := queuePage{inCluster: in, Queue: q, Command: AgentCommand(s.Site, "TOKEN", q.Key)}
	var err error
	if p.Jobs, err = s.Builds.InQueue(v.Context(), pipelines.ViewerOf(v.Request), q.ID, jobsOfQueue); err != nil {
		return err
	}
	var agents []agent
	next, err := v.Call("GET", v.API("agents")+"?per_page=20&cluster_queue_id="+q.ID, nil, &agents)
	if err != nil {
		return err
	}
	p.MoreAgent, p.AllAgents = next.After, v.Place("agents")+"?cluster_queue_id="+q.ID
	for _, a := range agents {
		p.Agents = append(p.Agents, rowOf(v, a))
	}
	var w waits
	_, err = v.Call("GET", v.API("clusters", in.Cluster.ID, "queues", q.ID, "metrics")+"?interval=1h", nil, &w)
	switch {
	case err == nil:
		p.Waits, p.Chart = &w, w.chart()
	case core.KindOf(err) != core.Unprocessable: // metrics are not enabled
		return err
	}
	p.Pause, p.Resume = s.queuePauseForm(in, q), pages.Form{Action: in.At("queues", q.ID, "resume"), Submit: "Resume queue"}
	p.Edit = s.queueForm(in, q)
	p.Delete = pages.Confirm{Summary: "Delete queue", Warning: "Jobs that wait in it fail, and its agents get no more jobs. This cannot be undone.",
		Form: pages.Form{ID: "delete", Action: in.At("queues", q.ID, "delete"), Submit: "Delete " + q.Key, Danger: true}}
	change(&p)
	return in.show(v, status, "queue", "queues", q.Key, p)
}

func (s *Site) queuePauseForm(in inCluster, q queue) pages.Form {
	return pages.Form{ID: "pause", Action: in.At("queues", q.ID, "pause"), Submit: "Pause queue", Fields: []pages.Field{
		{Name: "dispatch_paused_note", Label: "Note", Null: true, Hint: "Says why, to everyone whose job waits. Running jobs continue; no others start."},
	}}
}

func (s *Site) queueForm(in inCluster, q queue) pages.Form {
	return pages.Form{ID: "edit", Action: in.At("queues", q.ID), Submit: "Save queue", Fields: []pages.Field{
		{Name: "description", Label: "Description", Null: true, Value: q.Description},
		{Name: "retry_agent_affinity", Label: "A retried job prefers", Kind: pages.SelectField, Value: q.Affinity, Options: []pages.Option{
			{Value: "prefer-warmest", Text: "the agent that finished a job most recently"}, {Value: "prefer-different", Text: "another agent than before"},
		}},
	}}
}

func (s *Site) changeQueue(v *pages.Visit, on resource[queue]) error {
	return v.Submit(s.queueForm(on.inCluster, on.it), "PATCH", on.api, on.At("queues", on.it.ID), "Queue saved.", func(f pages.Form) error {
		return s.showQueue(v, http.StatusUnprocessableEntity, on.inCluster, on.it, func(p *queuePage) { p.Edit = f })
	})
}

func (s *Site) pauseQueue(v *pages.Visit, on resource[queue]) error {
	return v.Submit(s.queuePauseForm(on.inCluster, on.it), "POST", on.api+"/pause_dispatch", on.At("queues", on.it.ID), "Queue paused.", func(f pages.Form) error {
		return s.showQueue(v, http.StatusUnprocessableEntity, on.inCluster, on.it, func(p *queuePage) { p.Pause = f })
	})
}

func (s *Site) resumeQueue(v *pages.Visit, on resource[queue]) error {
	return v.Act("POST", on.api+"/resume_dispatch", nil, on.At("queues", on.it.ID), "Queue resumed.")
}

func (s *Site) deleteQueue(v *pages.Visit, on resource[queue]) error {
	return v.Delete(on.api, on.At("queues", on.it.ID), on.At(), "Queue deleted.")
}
