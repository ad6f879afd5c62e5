package main

import (
	"fmt"
	"time"

	"stackyard/internal/platform/db"
)

// A moment is the time between a request and its response.
type moment struct{ sent, answered time.Time }

// An event is an acknowledged change of a job.
type event struct {
	moment
	who   string    // stack key or agent id
	until time.Time // minimum end of a reservation
}

// during reports whether the event certainly happened while a reservation was valid.
func (e event) during(reservation event) bool {
	return e.sent.After(reservation.answered) && e.answered.Before(reservation.until)
}

func (e event) String() string {
	const clock = "04:05.000"
	return fmt.Sprintf("%s at %s–%s", e.who, e.sent.Format(clock), e.answered.Format(clock))
}

// A jobRecord contains all events of a job.
type jobRecord struct {
	reserved []event
	offered  []event
	taken    []event
	ended    []event
}

// note records an event of a job.
func (f *contention) note(job string, what func(*jobRecord) *[]event, e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.records[job]
	if s == nil {
		f.t.Errorf("%s got the unknown job %s", e, job)
		return
	}
	*what(s) = append(*what(s), e)
}

// noteEnd records the end of a job, and stops the run after the last one.
func (f *contention) noteEnd(job string, e event) {
	f.note(job, func(s *jobRecord) *[]event { return &s.ended }, e)
	if f.ended.Add(1) == int64(f.jobs()) {
		f.overOnce.Do(func() { close(f.over) })
	}
}

// check checks that every job had one holder at a time, and ended once.
func (f *contention) check() {
	f.t.Helper()
	wrong := 0
	for id, s := range f.records {
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

// problems returns contradictions between events.
func (s *jobRecord) problems() (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	s.checkReservations(complain)
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

// checkReservations complains about reservations that another stack or an agent did not respect.
func (s *jobRecord) checkReservations(complain func(format string, args ...any)) {
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
}

// checkDatabase checks that the database agrees with the recorded events.
func (f *contention) checkDatabase(d *db.DB) {
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
			if s := f.records[h[0]]; s != nil && len(s.taken) > 0 {
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

// summary describes how the jobs were distributed.
func (f *contention) summary() string {
	var byAgents, byStacks, ended, reservations int
	for _, s := range f.records {
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
