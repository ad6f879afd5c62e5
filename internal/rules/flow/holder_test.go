package flow

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// holderEvents are the reports of a holder, in order.
var holderEvents = []struct {
	name  string
	event func(r *Run, id, holder string) error
	state JobState
}{
	{"accept", (*Run).Accept, Accepted},
	{"start", (*Run).Start, Running},
	{"promise", func(r *Run, id, holder string) error { return r.Promise(id, holder, 3, true) }, Running},
	{"finish", func(r *Run, id, holder string) error { return r.Finish(id, holder, Exit{Status: 3}) }, APIFailed},
}

func TestHolder_AloneReportsItsJobAndMayRepeat(t *testing.T) {
	s := begin(t, command("a"))
	s.on("a", func(r *Run, id string) error { return r.Assign(id, "one") })
	for _, e := range holderEvents {
		before := s.state("a")
		err := s.try("a", func(r *Run, id string) error { return e.event(r, id, "another") })
		if err == nil || err.Error() != "The job is not assigned to this agent" {
			t.Errorf("%s by another: %v", e.name, err)
		}
		s.wants("a", before)
		for range 2 {
			s.on("a", func(r *Run, id string) error { return e.event(r, id, "one") })
			s.wants("a", e.state)
		}
	}
}

func TestHolder_MayRepeatTheEndForFiveMinutes(t *testing.T) {
	s := begin(t, command("a"))
	s.start("a")
	finish := func(status int) error {
		return s.try("a", func(r *Run, id string) error { return r.Finish(id, "agent", Exit{Status: status}) })
	}
	if err := finish(1); err != nil {
		t.Fatal(err)
	}
	if err := finish(0); err == nil {
		t.Error("a different end was accepted")
	}
	s.now = s.now.Add(4 * time.Minute)
	if err := finish(1); err != nil {
		t.Error(err)
	}
	s.now = s.now.Add(time.Minute)
	if err := finish(1); err == nil {
		t.Error("the end was accepted after the repeat window")
	}
}

func TestReturn_LeavesNoHolder(t *testing.T) {
	s := begin(t, command("a"))
	s.on("a", func(r *Run, id string) error { return r.Assign(id, "one") })
	if err := s.try("a", func(r *Run, id string) error { return r.Return(id, "two") }); err == nil {
		t.Error("another agent gave it back")
	}
	s.on("a", func(r *Run, id string) error { return r.Return(id, "one") })
	s.wants("a", Scheduled)
	if err := s.try("a", func(r *Run, id string) error { return r.Accept(id, "one") }); err == nil {
		t.Error("it was accepted after it was given back")
	}
	if j := s.job("a"); j.AgentID != "" {
		t.Errorf("it is held by %s", j.AgentID)
	}
}

func TestOffer_LeavesOutWhatHasMoved(t *testing.T) {
	s := begin(t, command("a"), command("b"), command("gone"), wait("w"), command("later"))
	s.on("gone", (*Run).CancelJob)
	offers := []Offer{{"nowhere", "z"}}
	for _, key := range []string{"b", "gone", "later", "a"} {
		offers = append(offers, Offer{s.job(key).ID, "agent of " + key})
	}
	var offered []Offer
	s.do(func(r *Run) (err error) {
		offered, err = r.Offer(offers)
		return err
	})
	if want := []Offer{offers[1], offers[4]}; fmt.Sprint(offered) != fmt.Sprint(want) {
		t.Errorf("offered %v, want %v", offered, want)
	}
	for _, key := range []string{"a", "b"} {
		s.wants(key, Assigned)
		if got := s.job(key).AgentID; got != "agent of "+key {
			t.Errorf("%s is held by %s", key, got)
		}
	}
}

func TestAcquire_TakesScheduledJobsOnce(t *testing.T) {
	s := begin(t, command("scheduled"), command("offered"), command("taken"))
	s.on("offered", func(r *Run, id string) error { return r.Assign(id, "one") })
	s.on("taken", func(r *Run, id string) error { return r.Assign(id, "two") })
	acquire := func(key string) error {
		return s.try(key, func(r *Run, id string) error { return r.Acquire(id, "one") })
	}
	for _, key := range []string{"scheduled", "offered", "offered"} {
		if err := acquire(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		s.wants(key, Accepted)
	}
	if err := acquire("taken"); err == nil || !strings.Contains(err.Error(), "is assigned") {
		t.Errorf("a job of another agent: %v", err)
	}
	s.on("scheduled", starts)
	if err := acquire("scheduled"); err == nil {
		t.Error("a job that runs was acquired")
	}
}
