package graphql

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gql "github.com/graph-gophers/graphql-go"

	"stackyard/internal/platform/core"
)

type restJob struct {
	ID, Type, Name, Label, Command, State string
	URL                                   string     `json:"web_url"`
	ExitStatus                            *int       `json:"exit_status"`
	CreatedAt                             *time.Time `json:"created_at"`
	StartedAt                             *time.Time `json:"started_at"`
	FinishedAt                            *time.Time `json:"finished_at"`
	Rules                                 []string   `json:"agent_query_rules"`
	ClusterID                             string     `json:"cluster_id"`
	QueueID                               string     `json:"cluster_queue_id"`
	Unblockable                           bool
	Agent                                 *restAgent
}

type restAgent struct {
	ID, Name, Hostname string
	Tags               []string `json:"meta_data"`
}

// jobState returns the state of a job as GraphQL clients know it.
func jobState(state string) string {
	switch state {
	case "passed", "failed":
		return "FINISHED"
	}
	return strings.ToUpper(state)
}

// job is a command job.
type job struct {
	j   restJob
	org *organization
}

// ToJobTypeCommand returns the job: lists have command jobs only.
func (j job) ToJobTypeCommand() (*job, bool) { return &j, true }

func (j job) ID() gql.ID                 { return idOf("JobTypeCommand", j.j.ID) }
func (j job) UUID() string               { return j.j.ID }
func (j job) Label() *string             { return &j.j.Name }
func (j job) Command() *string           { return &j.j.Command }
func (j job) State() string              { return jobState(j.j.State) }
func (j job) URL() string                { return j.j.URL }
func (j job) AgentQueryRules() *[]string { return &j.j.Rules }
func (j job) CreatedAt() *dateTime       { return dateTimeOf(j.j.CreatedAt) }
func (j job) StartedAt() *dateTime       { return dateTimeOf(j.j.StartedAt) }
func (j job) FinishedAt() *dateTime      { return dateTimeOf(j.j.FinishedAt) }

func (j job) ExitStatus() *string {
	if j.j.ExitStatus == nil {
		return nil
	}
	text := strconv.Itoa(*j.j.ExitStatus)
	return &text
}

func (j job) Cluster(ctx context.Context) (*cluster, error) {
	if j.j.ClusterID == "" {
		return nil, nil
	}
	var c restCluster
	if _, err := callsOf(ctx).get(j.org.path("/clusters/"+j.j.ClusterID), &c); err != nil {
		return nil, unlessHidden(err)
	}
	return &cluster{c, j.org}, nil
}

func (j job) ClusterQueue(ctx context.Context) (*queue, error) {
	if j.j.QueueID == "" {
		return nil, nil
	}
	queues, err := callsOf(ctx).queuesOf(j.org, j.j.ClusterID)
	if err != nil {
		return nil, unlessHidden(err)
	}
	for _, q := range queues {
		if q.ID == j.j.QueueID {
			return &queue{q}, nil
		}
	}
	return nil, nil
}

// unlessHidden returns nil for what the caller cannot see, so that the rest of a job can be shown.
func unlessHidden(err error) error {
	switch core.KindOf(err) {
	case core.NotFound, core.Forbidden:
		return nil
	}
	return err
}

// queuesOf returns the first queues of a cluster.
func (c *calls) queuesOf(org *organization, clusterID string) ([]restQueue, error) {
	if list, ok := c.queues[clusterID]; ok {
		return list, nil
	}
	var list []restQueue
	if _, err := c.get(org.path("/clusters/"+clusterID+"/queues?per_page=100"), &list); err != nil {
		return nil, err
	}
	if c.queues == nil {
		c.queues = map[string][]restQueue{}
	}
	c.queues[clusterID] = list
	return list, nil
}

type agent struct{ a restAgent }

func (a agent) ID() gql.ID          { return idOf("Agent", a.a.ID) }
func (a agent) UUID() string        { return a.a.ID }
func (a agent) Name() string        { return a.a.Name }
func (a agent) Hostname() *string   { return &a.a.Hostname }
func (a agent) MetaData() *[]string { return &a.a.Tags }

// Agent returns the agent of a job, with its host and tags while it is connected.
func (j job) Agent(ctx context.Context) (*agent, error) {
	if j.j.Agent == nil {
		return nil, nil
	}
	c := callsOf(ctx)
	if c.agents == nil {
		c.agents = []restAgent{}
		if _, err := c.get(j.org.path("/agents?per_page=100"), &c.agents); unlessHidden(err) != nil {
			return nil, err
		}
	}
	for _, a := range c.agents {
		if a.ID == j.j.Agent.ID {
			return &agent{a}, nil
		}
	}
	return &agent{*j.j.Agent}, nil
}

// buildsPerCall is how many builds, with their jobs, one call returns. Cursors of jobs are pages of builds.
const buildsPerCall = 20

// liveStates are the states of builds that have jobs which have not ended.
var liveStates = url.Values{"state[]": {"creating", "scheduled", "running", "failing", "blocked", "canceling"}}.Encode()

// Jobs lists the command jobs of an organization, newest builds first.
func (o *organization) Jobs(ctx context.Context, args struct {
	First           *int32
	After           *string
	State           *[]string
	ClusterQueue    *[]gql.ID
	AgentQueryRules *[]string
}) (*connection[job], error) {
	p, err := pageArgs{args.First, args.After}.page()
	if err != nil {
		return nil, err
	}
	f := jobFilter{}
	if args.State != nil {
		f.states = *args.State
	}
	if args.AgentQueryRules != nil {
		f.rules = *args.AgentQueryRules
	}
	if args.ClusterQueue != nil {
		f.queues = []string{}
		for _, id := range *args.ClusterQueue {
			uuid, err := wanted(id, "ClusterQueue", "No queue found")
			if err != nil {
				return nil, err
			}
			f.queues = append(f.queues, uuid)
		}
	}
	found := connection[job]{}
	for most := p.number + 10; ; p.number++ {
		var builds []struct{ Jobs []restJob }
		next, err := callsOf(ctx).get(o.path("/builds?"+f.builds())+"&page="+strconv.Itoa(p.number)+"&per_page="+strconv.Itoa(buildsPerCall), &builds)
		if err != nil {
			return nil, err
		}
		for _, b := range builds {
			for _, j := range b.Jobs {
				if f.match(j) {
					found.nodes = append(found.nodes, job{j, o})
				}
			}
		}
		found.info = p.info(next.After)
		if !next.After || len(found.nodes) >= p.size || p.number == most {
			return &found, nil
		}
	}
}

// A jobFilter selects jobs.
type jobFilter struct {
	states, rules []string
	queues        []string // nil: all
}

// builds returns the query for the builds that can have such jobs.
func (f jobFilter) builds() string {
	ended := []string{"FINISHED", "CANCELED", "TIMED_OUT", "SKIPPED", "BROKEN", "EXPIRED", "UNBLOCKED", "UNBLOCKED_FAILED", "WAITING_FAILED", "BLOCKED_FAILED"}
	if len(f.states) == 0 || slices.ContainsFunc(f.states, func(s string) bool { return slices.Contains(ended, s) }) {
		return "exclude_pipeline=true"
	}
	return "exclude_pipeline=true&" + liveStates
}

func (f jobFilter) match(j restJob) bool {
	switch {
	case j.Type != "script":
		return false
	case len(f.states) > 0 && !slices.Contains(f.states, jobState(j.State)):
		return false
	case f.queues != nil && !slices.Contains(f.queues, j.QueueID):
		return false
	}
	for _, rule := range f.rules {
		if !slices.Contains(j.Rules, rule) {
			return false
		}
	}
	return true
}

// dateTime is a time in responses.
type dateTime struct{ time.Time }

func dateTimeOf(t *time.Time) *dateTime {
	if t == nil {
		return nil
	}
	return &dateTime{*t}
}

// ImplementsGraphQLType reports which type of the schema this is.
func (dateTime) ImplementsGraphQLType(name string) bool { return name == "DateTime" }

// UnmarshalGraphQL refuses times in queries, which no field takes.
func (*dateTime) UnmarshalGraphQL(any) error {
	return core.Errorf(core.BadRequest, "times are not accepted")
}

// MarshalJSON writes the time as the REST API does.
func (t dateTime) MarshalJSON() ([]byte, error) { return core.Time{Time: t.Time}.MarshalJSON() }
