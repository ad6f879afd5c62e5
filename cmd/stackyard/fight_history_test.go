package main

import (
	"fmt"
	"time"

	"stackyard/internal/platform/db"
)

// A moment is when something was asked and answered: it happened between the two.
type moment struct{ sent, answered time.Time }

// An event is something that one who fights was told about a job.
type event struct {
	moment
	who   string    // the key of a stack, or the id of an agent
	until time.Time // of a reservation: it does not end before
}

// during reports whether it happened, without a doubt, while a reservation held.
func (e event) during(reservation event) bool {
	return e.sent.After(reservation.answered) && e.answered.Before(reservation.until)
}

func (e event) String() string {
	const clock = "04:05.000"
	return fmt.Sprintf("%s at %s–%s", e.who, e.sent.Format(clock), e.answered.Format(clock))
}

// A story is all that those who fight were told about a job.
type story struct {
	reserved []event
	offered  []event
	taken    []event
	ended    []event
}

// note writes something down about a job.
func (f *fight) note(job string, what func(*story) *[]event, e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stories[job]
	if s == nil {
		f.t.Errorf("%s was told of the job %s, which nobody has made", e, job)
		return
	}
	*what(s) = append(*what(s), e)
}

// noteEnd writes down that a job has ended, and ends the fight with the last.
func (f *fight) noteEnd(job string, e event) {
	f.note(job, func(s *story) *[]event { return &s.ended }, e)
	if f.ended.Add(1) == int64(f.jobs()) {
		f.overOnce.Do(func() { close(f.over) })
	}
}

// check wants every job to have been with one at a time, and to have ended once.
func (f *fight) check() {
	f.t.Helper()
	wrong := 0
	for id, s := range f.stories {
		for _, problem := range s.problems() {
			if wrong++; wrong <= 20 {
				f.t.Errorf("the job %s %s", id, problem)
			}
		}
	}
	if wrong > 20 {
		f.t.Errorf("and %d more", wrong-20)
	}
}

// problems tells what cannot all be true.
func (s *story) problems() (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i, r := range s.reserved {
		for _, other := range s.reserved[:i] {
			if r.who != other.who && (r.during(other) || other.during(r)) {
				complain("was reserved by two: %s and %s", other, r)
			}
		}
		for _, o := range s.offered {
			if o.during(r) {
				complain("was offered to %s although it was reserved by %s", o, r)
			}
		}
		for _, over := range append(append([]event{}, s.taken...), s.ended...) {
			if r.sent.After(over.answered) {
				complain("was reserved by %s although %s had taken it", r, over)
			}
		}
		for _, e := range s.ended {
			if len(s.taken) == 0 && e.who != r.who && e.during(r) {
				complain("was ended by %s although it was reserved by %s", e, r)
			}
		}
	}
	if len(s.ended) != 1 {
		complain("ended %d times: %v", len(s.ended), s.ended)
	}
	if len(s.taken) > 1 {
		complain("was taken %d times: %v", len(s.taken), s.taken)
	}
	if len(s.taken) == 1 && len(s.ended) == 1 && s.taken[0].who != s.ended[0].who {
		complain("was taken by %s and ended by %s", s.taken[0], s.ended[0])
	}
	return problems
}

// checkNothingIsLeft wants the database to say what those were told who fought.
func (f *fight) checkNothingIsLeft(d *db.DB) {
	f.t.Helper()
	counts := map[string]string{
		`SELECT COUNT(*) FROM runnable`:                                                       "jobs that can be handed out",
		`SELECT COUNT(*) FROM jobs WHERE state <> 'finished'`:                                 "jobs that have not ended",
		`SELECT COUNT(*) FROM jobs WHERE exit_status <> 0`:                                    "jobs that have failed",
		`SELECT COUNT(*) FROM builds WHERE state <> 'passed'`:                                 "builds that have not passed",
		`SELECT COUNT(*) FROM builds WHERE running_jobs + waiting_jobs + scheduled_jobs <> 0`: "builds that believe to have jobs to run",
	}
	err := d.Read(f.t.Context(), func(q *db.Q) error {
		for query, what := range counts {
			var n int
			if err := q.QueryRow(query).Scan(&n); err != nil {
				return err
			}
			if n != 0 {
				f.t.Errorf("there are %d %s", n, what)
			}
		}
		holders, err := db.All(q, func(scan db.Scan) (h [2]string, err error) { return h, scan(&h[0], db.ToText(&h[1])) }, `SELECT id, agent_id FROM jobs`)
		if err != nil {
			return err
		}
		for _, h := range holders {
			want := ""
			if s := f.stories[h[0]]; s != nil && len(s.taken) > 0 {
				want = s.taken[0].who
			}
			if h[1] != want {
				f.t.Errorf("the job %s was run by %q, and %q is shown", h[0], want, h[1])
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// summary tells how the jobs were shared out.
func (f *fight) summary() string {
	var byAgents, byStacks, ended, reservations int
	for _, s := range f.stories {
		reservations += len(s.reserved)
		switch {
		case len(s.taken) == 0:
			ended++
		case len(s.offered) > 0:
			byAgents++
		default:
			byStacks++
		}
	}
	return fmt.Sprintf("%d were run by agents that asked, %d by agents of stacks, %d ended by stacks; there were %d reservations", byAgents, byStacks, ended, reservations)
}
