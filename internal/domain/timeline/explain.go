package timeline

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

type jobExplanationView struct {
	State       flow.JobState       `json:"state"`
	Reason      string              `json:"reason" doc:"Why the job is where it is, in one sentence."`
	WaitsFor    []waitedForView     `json:"waits_for" doc:"The steps that must end before it can begin."`
	Concurrency *jobConcurrencyView `json:"concurrency" doc:"The state of its concurrency group, if it has one."`
	Queue       *jobQueueView       `json:"queue" doc:"The queue whose agents may take it, when there is one."`
	Agents      *MatchingAgents     `json:"agents" doc:"The agents that can take it, while it waits for one."`
	Reservation *jobReservationView `json:"reservation" doc:"The stack that has it reserved, while one has."`
	Since       core.Time           `json:"since" doc:"When it entered this state, if known."`
}

type waitedForView struct {
	ID    string  `json:"id"`
	Key   *string `json:"key"`
	Label string  `json:"label"`
}

type jobConcurrencyView struct {
	Group  string `json:"group"`
	Limit  int    `json:"limit"`
	Active int    `json:"active" doc:"How many jobs of the group, in all builds, hold a place."`
	Ahead  int    `json:"ahead" doc:"How many jobs of the group are ahead of it in line."`
}

type jobQueueView struct {
	ID     string `json:"id"`
	Key    string `json:"key"`
	Paused bool   `json:"paused"`
}

type jobReservationView struct {
	StackKey string    `json:"stack_key"`
	Until    core.Time `json:"until"`
}

func (s *Service) getExplanation(r *route.Request, o builds.OnJob) (v jobExplanationView, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		v, err = s.explain(q, o)
		return err
	})
	return v, err
}

// Explain returns why a job is where it is, in one sentence.
func (s *Service) Explain(ctx context.Context, o builds.OnJob) (sentence string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		v, err := s.explain(q, o)
		sentence = v.Reason
		return err
	})
	return sentence, err
}

func (s *Service) explain(q *db.Q, o builds.OnJob) (v jobExplanationView, err error) {
	v.State, v.Since = o.APIState(), core.At(since(o.Job))
	if v.WaitsFor, err = stepsBefore(q, o.Job); err != nil {
		return v, err
	}
	if v.Concurrency, err = concurrencyOf(q, o.Job); err != nil {
		return v, err
	}
	if v.Queue, err = queueOf(q, o.Job); err != nil {
		return v, err
	}
	if v.Reservation, err = s.reservationOf(q, o.Job); err != nil {
		return v, err
	}
	if o.State == flow.Scheduled && v.Queue != nil && s.agents != nil {
		n, err := s.agents(q, o.Job)
		if err != nil {
			return v, err
		}
		v.Agents = &n
	}
	v.Reason = v.sentence(o.Job)
	return v, nil
}

func (v jobExplanationView) sentence(j *builds.Job) string {
	switch j.State {
	case flow.Pending, flow.Waiting:
		return v.waiting()
	case flow.WaitingFailed:
		return "A step that it depends on failed or was canceled, so it does not run unless that is retried."
	case flow.Blocked:
		return "It waits for a person to unblock it."
	case flow.BlockedFailed:
		return "A step before it failed, so it cannot be unblocked unless that is retried."
	case flow.Limiting, flow.Limited, flow.PlatformLimiting, flow.PlatformLimited:
		return v.limited()
	case flow.Scheduled:
		return v.scheduled(j)
	case flow.Broken:
		return brokenSentence(j.BrokenReason)
	case flow.Expired:
		return "No agent took it in time."
	}
	if sentence, ok := plainSentences[j.State]; ok {
		return sentence
	}
	return endSentence(j)
}

var plainSentences = map[flow.JobState]string{
	flow.Unblocked:       "A person has unblocked it.",
	flow.UnblockedFailed: "A person unblocked it, and the build failed afterwards.",
	flow.Assigned:        "It has been offered to an agent, which has not accepted it yet.",
	flow.Accepted:        "An agent has taken it and is about to start it.",
	flow.Running:         "It runs.",
	flow.Canceling:       "It has been canceled, and its agent is stopping it.",
	flow.TimingOut:       "It has run for too long, and its agent is stopping it.",
	flow.TimedOut:        "It ran for too long and was stopped.",
	flow.Canceled:        "It was canceled.",
	flow.Skipped:         "Something from outside of the build took its place, such as a newer build.",
}

func (v jobExplanationView) waiting() string {
	if len(v.WaitsFor) == 0 {
		return "It waits for a step that is not there yet."
	}
	names := make([]string, len(v.WaitsFor))
	for i, s := range v.WaitsFor {
		names[i] = s.Label
		if s.Key != nil {
			names[i] = *s.Key
		}
		names[i] = cmp.Or(names[i], s.ID)
	}
	return "It waits for other steps to end: " + strings.Join(names, ", ") + "."
}

func (v jobExplanationView) limited() string {
	c := v.Concurrency
	if c == nil {
		return "It waits for a place."
	}
	return fmt.Sprintf("Its concurrency group %s lets %d of its jobs run at a time; %d do, and %d are ahead of it.", c.Group, c.Limit, c.Active, c.Ahead)
}

func (v jobExplanationView) scheduled(j *builds.Job) string {
	switch {
	case j.Type == flow.Trigger:
		return "Its build is about to be made."
	case v.Reservation != nil:
		return fmt.Sprintf("The stack %s has reserved it until %s, to start an agent for it.", v.Reservation.StackKey, v.Reservation.Until.UTC().Format("2006-01-02 15:04:05 UTC"))
	case v.Queue == nil:
		return "It names no queue and its cluster has no default one, so no agent can take it."
	case v.Queue.Paused:
		return "Its queue " + v.Queue.Key + " is paused."
	}
	return "It waits for an agent of the queue " + v.Queue.Key + "."
}

func brokenSentence(reason string) string {
	switch reason {
	case plan.BranchMismatch:
		return "Its step is not for this branch."
	case plan.ConditionFailed:
		return "The condition of its step is not met."
	case plan.Skipped:
		return "Its step is skipped."
	case definition.ParallelismZero:
		return "Its step asks for no jobs."
	case "dependency_missing":
		return "It depends on a step that does not exist."
	case "dependency_cycle":
		return "It depends on steps that wait for it."
	}
	return "It is skipped: " + reason + "."
}

func endSentence(j *builds.Job) string {
	sentence := "It failed"
	if j.Passed() {
		sentence = "It passed"
	}
	if j.ExitStatus != nil && *j.ExitStatus != 0 {
		sentence += fmt.Sprintf(" with exit status %d", *j.ExitStatus)
	}
	if j.SoftFailed {
		sentence += ", which its step allows"
	}
	sentence += "."
	if j.Detail != "" {
		sentence += " " + j.Detail
	}
	return sentence
}

// since returns the time at which a job entered its state, zero if unknown.
func since(j *builds.Job) time.Time {
	switch j.State {
	case flow.Limited:
		return j.LimitedAt
	case flow.Scheduled, flow.Assigned, flow.Accepted:
		return j.RunnableAt
	case flow.Running, flow.Canceling, flow.TimingOut:
		return j.StartedAt
	case flow.Unblocked:
		return j.UnblockedAt
	}
	if !j.FinishedAt.IsZero() {
		return j.FinishedAt
	}
	return j.CreatedAt
}

// maxWaitsFor bounds the steps that an explanation names.
const maxWaitsFor = 20

func stepsBefore(q *db.Q, j *builds.Job) ([]waitedForView, error) {
	steps, err := builds.UnfinishedBefore(q, j, maxWaitsFor)
	views := make([]waitedForView, len(steps))
	for i, s := range steps {
		views[i] = waitedForView{ID: s.ID, Key: core.OrNull(s.Key), Label: s.Label}
	}
	return views, err
}

func concurrencyOf(q *db.Q, j *builds.Job) (*jobConcurrencyView, error) {
	g, err := lifecycle.GroupOf(q, j)
	if err != nil || g.Name == "" {
		return nil, err
	}
	return &jobConcurrencyView{Group: g.Name, Limit: g.Limit, Active: g.Active, Ahead: g.Ahead}, nil
}

func queueOf(q *db.Q, j *builds.Job) (*jobQueueView, error) {
	queue, err := clusters.QueueOf(q, j.OrganizationID, j.QueueID)
	if core.KindOf(err) == core.NotFound {
		return nil, nil
	}
	return &jobQueueView{ID: queue.ID, Key: queue.Key, Paused: !queue.PausedAt.IsZero()}, err
}

// reservationOf returns the reservation of a job, nil when no stack has reserved it.
func (s *Service) reservationOf(q *db.Q, j *builds.Job) (*jobReservationView, error) {
	if j.State != flow.Scheduled || s.stacks.Key == nil {
		return nil, nil
	}
	r, err := dispatch.ReservationOf(q, j.ID, s.clock())
	if err != nil || r.StackID == "" {
		return nil, err
	}
	key, err := s.stacks.Key(q, r.StackID)
	if err != nil || key == "" {
		return nil, err
	}
	return &jobReservationView{StackKey: key, Until: core.At(r.Until)}, nil
}
