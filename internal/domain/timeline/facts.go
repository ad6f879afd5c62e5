package timeline

import (
	"context"
	"fmt"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// An Explanation says why a job is where it is.
type Explanation struct {
	Reason string
	Facts  []Fact
}

// A Fact is something that the explanation rests on: a text, or a time.
type Fact struct {
	Name, Text string
	At         time.Time
}

// ExplainWithFacts returns why a job is where it is, with the facts.
func (s *Service) ExplainWithFacts(ctx context.Context, o builds.OnJob) (e Explanation, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		v, err := s.explain(q, o)
		e = Explanation{Reason: v.Reason}
		if !o.State.Ended() {
			e.Facts = v.facts(o.Job)
		}
		return err
	})
	return e, err
}

func (v jobExplanationView) facts(j *builds.Job) []Fact {
	var facts []Fact
	add := func(name, format string, args ...any) {
		facts = append(facts, Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	for _, step := range v.WaitsFor {
		key := ""
		if step.Key != nil {
			key = *step.Key
		}
		add("Waits for step", "%s", firstText(step.Label, key, step.ID))
	}
	if c := v.Concurrency; c != nil {
		add("Concurrency group", "%s: %d of %d running, %d ahead", c.Group, c.Active, c.Limit, c.Ahead)
	}
	if v.Queue != nil {
		state := "dispatches jobs"
		if v.Queue.Paused {
			state = "is paused"
		}
		add("Queue", "%s, which %s", v.Queue.Key, state)
	}
	if a := v.Agents; a != nil {
		add("Matching agents", "%s", a.text())
	}
	for _, rule := range j.Work.Agents {
		add("Agent must have", "%s", rule)
	}
	if v.Reservation != nil {
		add("Reserved by stack", "%s", v.Reservation.StackKey)
		facts = append(facts, Fact{Name: "Reserved until", At: v.Reservation.Until.Time})
	}
	if since := since(j); !since.IsZero() {
		facts = append(facts, Fact{Name: "In this state since", At: since})
	}
	return facts
}

// text says how many agents can take a job.
func (a MatchingAgents) text() string {
	switch {
	case a.Connected == 0:
		return "none; no agent of the queue is connected"
	case a.Matching == 0:
		return fmt.Sprintf("none of the %d connected", a.Connected)
	}
	text := fmt.Sprintf("%d of the %d connected", a.Matching, a.Connected)
	if a.Busy > 0 {
		text += fmt.Sprintf(", %d busy", a.Busy)
	}
	if a.Paused > 0 {
		text += fmt.Sprintf(", %d paused", a.Paused)
	}
	return text
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// NotRun returns why a job that did not run to its end did not, in one sentence; "" for others.
func NotRun(j *builds.Job) string {
	switch j.State {
	case flow.Broken:
		if j.BrokenReason == "" {
			return "Its step is skipped."
		}
		return brokenSentence(j.BrokenReason)
	case flow.Skipped, flow.TimedOut, flow.WaitingFailed, flow.BlockedFailed, flow.Expired:
		return jobExplanationView{}.sentence(j)
	}
	return ""
}
