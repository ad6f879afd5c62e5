// Package stackctl is the reference stack, a client of the stacks API that imports nothing of the server. It
// polls queues, reserves jobs, and runs one ephemeral agent per job with a job acquisition token. Agents are
// local processes or are started by a user-provided command (compute.go).
package stackctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"stackyard/internal/clients/sleep"
)

// Config configures a stack.
type Config struct {
	API     *API
	Key     string     // identifies the stack
	Queues  []string   // keys of its queues
	Tags    []string   // key=value; jobs with other agent rules are not taken
	Max     int        // maximum number of concurrent jobs
	Limit   func() int // how many more jobs the compute can start now; nil: as many as there are slots
	Compute Compute
	Log     *slog.Logger
	Metrics *Metrics
}

// Times of the protocol.
const (
	// reservation is how long a job stays reserved without renewal, so that the jobs of a dead stack are soon
	// in the list again.
	reservation = 2 * time.Minute
	// renewal is how often reservations are extended until an agent has acquired the job.
	renewal = 30 * time.Second
	// TokenLifetime is how long an agent may take to register with one token.
	TokenLifetime = 5 * time.Minute
	// pollWait is how long a server may hold an empty response.
	pollWait = 20 * time.Second
	// pollPause is the delay after a poll without new jobs.
	pollPause = time.Second
	// maxPollGap is the maximum time between two polls of a queue.
	maxPollGap = time.Minute
	// stateInterval is how often the states of jobs are read, if agents outlive the stack.
	stateInterval = time.Second
	// shutdownTimeout limits the last calls of a stopping stack.
	shutdownTimeout = 5 * time.Second
)

// maxJobs is the maximum number of jobs of one API call.
const maxJobs = 1000

// defaultQueue is the server's name for a cluster's default queue.
const defaultQueue = "__default__"

// A Stack runs the jobs of queues.
type Stack struct {
	Config

	slots chan struct{} // one token for each job that may start

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // reserved jobs that have not ended, with what ends their agents
	skipped map[string]bool                    // agent rules that were logged as not satisfied
}

// New returns a stack that is not registered yet.
func New(c Config) *Stack {
	if len(c.Queues) == 0 {
		c.Queues = []string{defaultQueue}
	}
	s := &Stack{Config: c, slots: make(chan struct{}, c.Max), running: map[string]context.CancelCauseFunc{}, skipped: map[string]bool{}}
	for range c.Max {
		s.slots <- struct{}{}
	}
	return s
}

// Run registers the stack and serves its queues until ctx is done. Then it takes no more jobs, and de-registers
// after running jobs have ended; when hard is done, they are stopped at once. With a [Persistent] compute it
// returns when ctx is done, without de-registering: the next process with the same key continues the jobs.
func (s *Stack) Run(ctx, hard context.Context) error {
	host, _ := os.Hostname()
	err := s.API.Register(ctx, Registration{
		Key: s.Key, Type: "custom", QueueKey: s.Queues[0],
		Metadata: map[string]string{"host": cut(host, 256), "program": "stackyard stack"},
	})
	if err != nil {
		return fmt.Errorf("register the stack %s: %w", s.Key, err)
	}
	s.Log.Info("registered", "stack", s.Key, "queues", s.Queues, "max", s.Max)
	var polling, jobs, background sync.WaitGroup
	needed, notNeeded := context.WithCancel(context.WithoutCancel(ctx))
	defer notNeeded()
	persistent, ok := s.Compute.(Persistent)
	if ok {
		hard = ctx
		if err := s.adopt(ctx, persistent, &jobs); err != nil {
			return fmt.Errorf("continue the jobs of the stack %s: %w", s.Key, err)
		}
		background.Go(func() { s.watchStates(ctx) })
	}
	for _, queue := range s.Queues {
		polling.Go(func() { s.serve(ctx, hard, queue, &jobs) })
	}
	background.Go(func() { s.renew(needed) })
	polling.Wait()
	s.Log.Info("draining", "running", s.count())
	jobs.Wait()
	notNeeded()
	background.Wait()
	if persistent != nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.API.Deregister(last, s.Key); err != nil {
		return fmt.Errorf("de-register the stack %s: %w", s.Key, err)
	}
	s.Log.Info("de-registered", "stack", s.Key)
	return nil
}

func (s *Stack) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// serve runs jobs of one queue, as many as there are free slots.
func (s *Stack) serve(ctx, hard context.Context, queue string, jobs *sync.WaitGroup) {
	for ctx.Err() == nil {
		s.awaitSlot(ctx)
		if begun, pages := s.poll(ctx, hard, queue, jobs); begun == 0 {
			sleep.For(ctx, time.Duration(pages)*pollPause)
		}
	}
}

// poll lists a queue and starts jobs until the slots are used or the list ends. The first page is as short as
// possible; further pages are read if jobs that the stack cannot run come first.
func (s *Stack) poll(ctx, hard context.Context, queue string, jobs *sync.WaitGroup) (begun, pages int) {
	after, limit, wait := "", min(s.Max, maxJobs), pollWait
	for {
		page, err := s.API.ScheduledJobs(ctx, s.Key, queue, after, limit, wait)
		s.Metrics.polled(queue, err)
		pages++
		if err != nil {
			s.logError(ctx, "list scheduled jobs failed", err, "queue", queue)
			return begun, pages
		}
		if page.Queue.Paused {
			return begun, pages
		}
		begun += s.begin(ctx, hard, queue, s.suitable(page.Jobs), jobs)
		if !page.Page.More || len(s.slots) == 0 || page.Page.End == after || ctx.Err() != nil {
			return begun, pages
		}
		after, limit, wait = page.Page.End, maxJobs, 0
	}
}

// awaitSlot waits for a free slot, but at most until the next poll is due: a queue that is not polled counts as
// disconnected.
func (s *Stack) awaitSlot(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxPollGap)
	defer cancel()
	select {
	case token := <-s.slots:
		s.slots <- token
	case <-ctx.Done():
	}
}

// take takes up to n free slots.
func (s *Stack) take(n int) (taken int) {
	for taken < n {
		select {
		case <-s.slots:
			taken++
		default:
			return taken
		}
	}
	return taken
}

func (s *Stack) give(n int) {
	for range n {
		s.slots <- struct{}{}
	}
}

// begin reserves as many jobs of a list as there are free slots and starts those that were reserved. It returns
// their number.
func (s *Stack) begin(ctx, hard context.Context, queue string, list []ScheduledJob, jobs *sync.WaitGroup) int {
	wanted := len(list)
	if s.Limit != nil {
		wanted = min(wanted, max(0, s.Limit()))
	}
	slots := s.take(wanted)
	if slots == 0 {
		return 0
	}
	ids := make([]string, slots)
	for i := range ids {
		ids[i] = list[i].ID
	}
	reserved, err := s.API.Reserve(ctx, s.Key, ids, reservation)
	if err != nil {
		s.logError(ctx, "reserve jobs failed", err, "queue", queue)
	}
	s.give(slots - len(reserved))
	for _, id := range reserved {
		s.start(hard, jobs, 1, Workload{JobID: id, Queue: queue})
	}
	return len(reserved)
}

// start runs the agent of a reserved job in the background and then gives its slots back.
func (s *Stack) start(ctx context.Context, jobs *sync.WaitGroup, slots int, w Workload) {
	ctx, end := context.WithCancelCause(ctx)
	s.remember(w.JobID, end)
	jobs.Go(func() {
		defer end(nil)
		defer s.give(slots)
		defer s.forget(w.JobID)
		s.runJob(ctx, w)
	})
}

// logError logs an error unless the stack is being stopped.
func (s *Stack) logError(ctx context.Context, what string, err error, args ...any) {
	if ctx.Err() == nil {
		s.Log.Error(what, append(args, "error", err)...)
	}
}

func (s *Stack) remember(id string, end context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] = end
	s.Metrics.reserved(1, len(s.running))
}

func (s *Stack) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
	s.Metrics.ended(len(s.running))
}

// runJob runs an agent for a reserved job. If the agent ends without acquiring the job, runJob finishes the job
// with the known reason.
func (s *Stack) runJob(ctx context.Context, w Workload) {
	id := w.JobID
	log := s.Log.With("job", id, "queue", w.Queue)
	w.Endpoint, w.Tags, w.stack = s.API.Endpoint, s.Tags, s
	if !w.Adopted {
		token, err := w.NewToken(ctx)
		if err != nil {
			s.logError(ctx, "issue acquisition token failed", err, "job", id)
			return
		}
		w.Token = token
		w.Notify(ctx, "Starting an agent")
		log.Info("starting agent")
	}
	err := s.Compute.Run(ctx, w)
	if errors.Is(err, ErrLeft) {
		return
	}
	s.Metrics.agentEnded(err)
	if err != nil {
		log.Warn("agent failed", "error", err)
	}
	// A stop may leave the job without an agent.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	states, stateErr := s.API.States(last, s.Key, []string{id})
	if stateErr != nil {
		log.Error("get job state failed", "error", stateErr)
		return
	}
	if states[id] != "reserved" && states[id] != "scheduled" {
		return
	}
	if err == nil {
		err = errors.New("the agent exited successfully without acquiring the job")
	}
	s.finish(last, id, err)
}

// finish ends a job for which no agent could be started.
func (s *Stack) finish(ctx context.Context, id string, cause error) {
	err := s.API.Finish(ctx, s.Key, id, fmt.Sprintf("The stack %s could not run an agent for this job: %v", s.Key, cause))
	if refusal, ok := errors.AsType[*Refusal](err); ok && (refusal.Status == http.StatusUnprocessableEntity || refusal.Status == http.StatusNotFound) {
		return // it has changed state meanwhile
	}
	if err != nil {
		s.Log.Error("finish job failed", "job", id, "error", err)
		return
	}
	s.Metrics.gaveUp()
	s.Log.Info("finished job without an agent", "job", id, "cause", cause)
}

// renew extends the reservations of jobs that no agent has acquired yet. For acquired jobs it has no effect.
func (s *Stack) renew(ctx context.Context) {
	for sleep.For(ctx, renewal) {
		for batch := range slices.Chunk(s.runningJobs(), maxJobs) {
			if _, err := s.API.Reserve(ctx, s.Key, batch, reservation); err != nil {
				s.logError(ctx, "extend reservations failed", err)
			}
		}
	}
}
