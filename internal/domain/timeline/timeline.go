// Package timeline answers two questions about a job: what happened to it so far, and why it waits.
//
// Events come from the job itself, from its milestones and from notifications of stacks (timeline.go). Milestones are
// recorded once, in the transaction of what happened (milestones.go). The explanation reads the current state of
// steps, concurrency group, queue and reservation (explain.go). The package changes no job.
package timeline

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Service serves timelines and explanations of jobs.
type Service struct {
	db     *db.DB
	builds *lifecycle.Service
	clock  core.Clock
	stacks Stacks
	agents func(q *db.Q, j *builds.Job) (MatchingAgents, error)
}

// MatchingAgents are the connected agents of a job's queue, those of them with the tags that it wants, and those of
// these that are busy or paused.
type MatchingAgents struct {
	Connected int `json:"connected" doc:"How many agents of the queue are connected, up to 2,000."`
	Matching  int `json:"matching" doc:"How many of them satisfy the agent query rules of the job."`
	Busy      int `json:"busy" doc:"How many of the matching ones have another job."`
	Paused    int `json:"paused" doc:"How many of the matching ones are paused."`
}

// Stacks reads what stacks know about jobs. Package stacks provides it.
type Stacks struct {
	// Key returns the key of a stack, "" when the stack does not exist.
	Key func(q *db.Q, stackID string) (string, error)
	// Notifications returns the notifications of stacks about a job, oldest first.
	Notifications func(q *db.Q, jobID string) ([]Event, error)
}

// New returns a Service. From then on it records when agents accept jobs.
func New(d *db.DB, b *lifecycle.Service, clock core.Clock) *Service {
	s := &Service{db: d, builds: b, clock: clock}
	b.AddEffect(s.recordAccepted)
	return s
}

// UseStacks sets the source of what stacks know. Call it before the first request.
func (s *Service) UseStacks(stacks Stacks) { s.stacks = stacks }

// UseAgents sets what counts the agents for a job. Call it before the first request.
func (s *Service) UseAgents(count func(q *db.Q, j *builds.Job) (MatchingAgents, error)) {
	s.agents = count
}

// Routes returns the routes of timelines and explanations.
func (s *Service) Routes() []route.Route {
	var routes []route.Route
	for _, path := range builds.JobPaths {
		routes = append(routes,
			route.Route{
				Method: http.MethodGet, Path: path + "/explain", Summary: "Explain why a job is where it is",
				Handler: route.On(s.builds.LoadOnJob, s.getExplanation),
			},
			route.Route{
				Method: http.MethodGet, Path: path + "/timeline", Summary: "Get the timeline of a job",
				Description: "Listing a job and issuing a token appear a few seconds later, best effort.",
				Handler:     route.On(s.builds.LoadOnJob, s.getTimeline),
			})
	}
	for i := range routes {
		routes[i].Tag, routes[i].Scope, routes[i].Permission = "Jobs", identity.ReadBuilds, identity.ReadPipeline
	}
	return routes
}

// An Event is an entry in the timeline of a job.
type Event struct {
	What   string
	At     time.Time
	Stack  string // key of the stack that caused it, if any
	Agent  string // id of the agent that caused it, if any
	Detail string // text of a notification, or why the job ended
	// Until is the end of a reservation that has not ended; zero for other events.
	Until time.Time
}

// EventNotification is the kind of event of a stack's notification. The other kinds are milestones of the job.
const EventNotification = "notification"

// Of returns the events of a job, oldest first.
func (s *Service) Of(q *db.Q, j *builds.Job) ([]Event, error) {
	var events []Event
	add := func(what string, at time.Time, agent string) {
		if !at.IsZero() {
			events = append(events, Event{What: what, At: at, Agent: agent})
		}
	}
	add("created", j.CreatedAt, "")
	add("runnable", j.RunnableAt, "")
	milestones, err := MilestonesOf(q, j.ID)
	if err != nil {
		return nil, err
	}
	reservation, err := dispatch.ReservationOf(q, j.ID, s.clock())
	if err != nil {
		return nil, err
	}
	finished := Event{What: "finished", At: j.FinishedAt, Detail: j.Detail}
	for _, m := range milestones {
		e := Event{What: string(m.What), At: m.At, Stack: m.By}
		switch {
		case m.What.ByAgent():
			e.Agent, e.Stack = m.By, ""
		case m.What == Reserved:
			e.Until = reservation.Until
		case m.What == FinishedByStack:
			finished.Stack = m.By
			continue
		}
		events = append(events, e)
	}
	if s.stacks.Notifications != nil {
		notifications, err := s.stacks.Notifications(q, j.ID)
		if err != nil {
			return nil, err
		}
		events = append(events, notifications...)
	}
	add("started", j.StartedAt, j.AgentID)
	if !finished.At.IsZero() {
		events = append(events, finished)
	}
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(order[a.What], order[b.What]))
	})
	return events, nil
}

// order sorts events that happened at the same time.
var order = map[string]int{
	"created": 1, "runnable": 2, string(Listed): 3, string(Reserved): 4, string(TokenIssued): 5,
	string(AgentRegistered): 6, string(Accepted): 7, "started": 8, EventNotification: 9, "finished": 10,
}

type timelineView struct {
	Events []timelineEventView `json:"events"`
}

type timelineEventView struct {
	Event  string    `json:"event" doc:"created, runnable, listed, reserved, token_issued, agent_registered, accepted, started, finished or notification."`
	At     core.Time `json:"at"`
	Stack  *string   `json:"stack_key" doc:"The stack that did it, if one did."`
	Agent  *string   `json:"agent_id" doc:"The agent that did it, if one did."`
	Detail *string   `json:"detail" doc:"Of a notification, what the stack said; of finished, why the job ended, where that is known."`
	Until  core.Time `json:"reserved_until" doc:"Of reserved, until when the stack has the job reserved; null once that has ended."`
}

func (s *Service) getTimeline(r *route.Request, j builds.OnJob) (timelineView, error) {
	var events []Event
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		events, err = s.Of(q, j.Job)
		return err
	})
	v := timelineView{Events: make([]timelineEventView, len(events))}
	for i, e := range events {
		v.Events[i] = timelineEventView{Event: e.What, At: core.At(e.At), Stack: core.OrNull(e.Stack), Agent: core.OrNull(e.Agent), Detail: core.OrNull(e.Detail), Until: core.At(e.Until)}
	}
	return v, err
}
