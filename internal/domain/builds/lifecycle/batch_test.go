package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A jobSet is a build whose jobs are in agents' hands, and whose units of work a test can stop and count.
type jobSet struct {
	*world
	build string
	jobs  []string
	stop  chan struct{} // the first unit of work goes on when it is closed
	begun chan struct{} // closed when it has begun

	mu    sync.Mutex
	units []string                           // the states that jobs came into, for each unit of work
	fault func(moved []flow.JobChange) error // of a unit of work after the first
	opens atomic.Int64                       // how often the build was written
}

func newJobSet(t *testing.T, w *world, size int, state flow.JobState) *jobSet {
	c := &jobSet{world: w, stop: make(chan struct{}), begun: make(chan struct{})}
	w.Steps(fmt.Sprintf("{command: a, key: a, parallelism: %d}", size+1))
	c.build = w.Create(nil).String("id")
	c.jobs = w.rowsOf(`SELECT id FROM jobs ORDER BY position`)
	for _, id := range c.jobs {
		if state == flow.Running {
			w.Start(id)
		} else {
			w.WantNoError(w.Assign(id))
		}
	}
	w.Service.AddEffect(c.observe)
	w.DB.OnStatement(func(text string, _ []any) {
		if strings.Contains(text, "UPDATE builds SET version") {
			c.opens.Add(1)
		}
	})
	t.Cleanup(func() { w.DB.OnStatement(func(string, []any) {}) })
	return c
}

func (c *jobSet) observe(_ *db.Q, _ *builds.Build, moved []flow.JobChange) error {
	states := make([]string, len(moved))
	for i, m := range moved {
		states[i] = string(m.Job.State)
	}
	slices.Sort(states)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.units) == 0 {
		close(c.begun)
		<-c.stop
	} else if c.fault != nil {
		if err := c.fault(moved); err != nil {
			return err
		}
	}
	c.units = append(c.units, strings.Join(states, " "))
	return nil
}

// together submits updates while another one, of the last job, is being applied, and returns their errors.
func (c *jobSet) together(first func(id string) error, updates ...func(id string) error) []error {
	c.T.Helper()
	errs := make([]error, len(updates))
	var submitting sync.WaitGroup
	submitting.Go(func() {
		if err := first(c.jobs[len(updates)]); err != nil {
			c.T.Error(err)
		}
	})
	<-c.begun
	for i, submit := range updates {
		submitting.Go(func() { errs[i] = submit(c.jobs[i]) })
		for c.Service.Waiting(c.build) != i+1 { // they wait in order
			time.Sleep(time.Millisecond)
		}
	}
	close(c.stop)
	submitting.Wait()
	return errs
}

func (c *jobSet) wantUnits(units ...string) {
	c.T.Helper()
	if !slices.Equal(c.units, units) {
		c.T.Errorf("the units of work brought jobs into %q, want %q", c.units, units)
	}
}

func (c *jobSet) accept(holder string) func(id string) error {
	return func(id string) error { return c.Service.Accept(c.T.Context(), c.OrgID, id, holder) }
}

func (c *jobSet) finish(status int) func(id string) error {
	return func(id string) error {
		return c.Service.Finish(c.T.Context(), c.OrgID, id, buildstest.SomeAgent, flow.Exit{Status: status}, "")
	}
}

func TestSubmit_BatchesUpdatesThatWait(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := newJobSet(t, w, 4, flow.Assigned)
		accept := c.accept(buildstest.SomeAgent)
		for _, err := range c.together(accept, accept, accept, accept, accept) {
			w.WantNoError(err)
		}
		c.wantUnits("accepted", "accepted accepted accepted accepted")
		servertest.WantEqual(t, "milestones", len(w.rowsOf(`SELECT job_id FROM job_milestones WHERE what = 'accepted'`)), 5)
	})
}

func TestSubmit_AppliesTheOthersWhenSomeAreRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := newJobSet(t, w, 4, flow.Assigned)
		accept, alien := c.accept(buildstest.SomeAgent), c.accept(otherAgent)
		errs := c.together(accept, accept, alien, accept, alien)
		for i, err := range errs {
			if refused := core.KindOf(err) == core.Unprocessable; refused != (i%2 == 1) {
				t.Errorf("update %d: %v", i, err)
			}
		}
		c.wantUnits("accepted", "accepted accepted")
		servertest.WantEqual(t, "transactions", c.opens.Load(), 2)
		servertest.WantEqual(t, "holders", strings.Join(w.rowsOf(`SELECT DISTINCT agent_id FROM jobs`), " "), buildstest.SomeAgent)
	})
}

func TestSubmit_EndsJobsApartFromOtherUpdates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := newJobSet(t, w, 4, flow.Running)
		repeat := func(id string) error { return c.Service.Start(c.T.Context(), c.OrgID, id, buildstest.SomeAgent) }
		for _, err := range c.together(c.finish(0), c.finish(0), repeat, c.finish(1), repeat) {
			w.WantNoError(err)
		}
		c.wantUnits("finished", "finished finished")
	})
}

func TestSubmit_DropsUpdatesOfCallersThatHaveLeft(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := newJobSet(t, w, 3, flow.Assigned)
		ctx, cancel := context.WithCancel(t.Context())
		gone := func(id string) error { return c.Service.Accept(ctx, c.OrgID, id, buildstest.SomeAgent) }
		leaves := func(id string) error {
			cancel()
			return c.Service.Accept(t.Context(), c.OrgID, id, buildstest.SomeAgent)
		}
		errs := c.together(c.accept(buildstest.SomeAgent), gone, leaves)
		if errs[0] == nil {
			t.Error("an update of a canceled request succeeded")
		}
		w.WantNoError(errs[1])
		servertest.WantEqual(t, "accepted", len(w.rowsOf(`SELECT id FROM jobs WHERE state = 'accepted'`)), 2)
	})
}

func TestSubmit_GivesAllAFailureOfTheDatabaseAndDoesNotRetry(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := newJobSet(t, w, 8, flow.Assigned)
		c.fault = func([]flow.JobChange) error { return core.Errorf(core.Unavailable, "The database does not answer") }
		accept := c.accept(buildstest.SomeAgent)
		for i, err := range c.together(accept, slices.Repeat([]func(string) error{accept}, 8)...) {
			if core.KindOf(err) != core.Unavailable {
				t.Errorf("update %d: %v", i, err)
			}
		}
		servertest.WantEqual(t, "transactions", c.opens.Load(), 2)
	})
}

func TestSubmit_AppliesTheOthersWhenOneFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"with an error": func() error { return errors.New("it failed") },
		"with a panic":  func() error { panic("it failed") },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				c := newJobSet(t, w, 8, flow.Assigned)
				poison := c.jobs[5]
				c.fault = func(moved []flow.JobChange) error {
					if slices.ContainsFunc(moved, func(m flow.JobChange) bool { return m.Job.ID == poison }) {
						return fail()
					}
					return nil
				}
				accept := c.accept(buildstest.SomeAgent)
				for i, err := range c.together(accept, slices.Repeat([]func(string) error{accept}, 8)...) {
					if (err != nil) != (i == 5) {
						t.Errorf("update %d: %v", i, err)
					}
				}
				servertest.WantEqual(t, "accepted", len(w.rowsOf(`SELECT id FROM jobs WHERE state = 'accepted'`)), 8)
				servertest.WantEqual(t, "transactions", c.opens.Load(), 1+1+2+2+2) // the halves of 8, 4 and 2
				// The build goes on.
				c.fault = nil
				w.WantNoError(accept(poison))
			})
		})
	}
}
