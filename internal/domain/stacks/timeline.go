package stacks

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

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

// Timeline returns the events of a job, oldest first.
func (s *Service) Timeline(q *db.Q, j *builds.Job) ([]Event, error) {
	var events []Event
	add := func(what string, at time.Time, agent string) {
		if !at.IsZero() {
			events = append(events, Event{What: what, At: at, Agent: agent})
		}
	}
	add("created", j.CreatedAt, "")
	add("runnable", j.RunnableAt, "")
	milestones, err := builds.MilestonesOf(q, j.ID)
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
		case m.What == builds.Reserved:
			e.Until = reservation.Until
		case m.What == builds.FinishedByStack:
			finished.Stack = m.By
			continue
		}
		events = append(events, e)
	}
	notifications, err := notificationsOf(q, j.ID)
	if err != nil {
		return nil, err
	}
	events = append(events, notifications...)
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
	"created": 1, "runnable": 2, string(builds.Listed): 3, string(builds.Reserved): 4, string(builds.TokenIssued): 5,
	string(builds.AgentRegistered): 6, string(builds.Accepted): 7, "started": 8, EventNotification: 9, "finished": 10,
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

func (s *Service) timelineRoutes() []route.Route {
	var routes []route.Route
	for _, path := range builds.JobPaths {
		routes = append(routes, route.Route{
			Method: http.MethodGet, Path: path + "/timeline", Tag: "Jobs", Summary: "Get what happened to a job",
			Description: "That a job was listed, and that a token was issued, is noted a few seconds later, best effort.",
			Scope:       identity.ReadBuilds, Permission: identity.ReadPipeline,
			Handler: route.On(s.builds.LoadOnJob, s.getTimeline),
		})
	}
	return routes
}

func (s *Service) getTimeline(r *route.Request, j builds.OnJob) (timelineView, error) {
	var events []Event
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		events, err = s.Timeline(q, j.Job)
		return err
	})
	v := timelineView{Events: make([]timelineEventView, len(events))}
	for i, e := range events {
		v.Events[i] = timelineEventView{Event: e.What, At: core.At(e.At), Stack: core.OrNull(e.Stack), Agent: core.OrNull(e.Agent), Detail: core.OrNull(e.Detail), Until: core.At(e.Until)}
	}
	return v, err
}
