// Package stackctl is the reference stack: a client of the stacks API like anybody's, which imports
// nothing of the server. It polls queues, reserves jobs, and runs one ephemeral agent for each with a
// job acquisition token, on compute of its choice (compute.go): processes of this machine, or whatever
// a command of the user's starts.
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
)

// Config says what a stack serves, and how.
type Config struct {
	API     *API
	Key     string   // by which the server knows it
	Queues  []string // keys of the queues that it serves
	Tags    []string // key=value; jobs with other agent rules are left to others
	Max     int      // how many jobs it runs at the same time
	Compute Compute
	Log     *slog.Logger
	Metrics *Metrics
}

// Times of the protocol.
const (
	// reservation is how long a job stays the stack's without a word, so that the jobs of a stack that
	// has died are soon in the list again.
	reservation = 2 * time.Minute
	// renewal is how often reservations are extended of jobs that no agent has taken yet.
	renewal = 30 * time.Second
	// tokenLifetime is how long an agent may take to register.
	tokenLifetime = 5 * time.Minute
	// pollWait is how long a server may hold an answer that would be an empty list.
	pollWait = 20 * time.Second
	// pollPause is how long the stack waits after a poll that brought nothing new.
	pollPause = time.Second
	// pollAnyway is how long a queue is not polled at most.
	pollAnyway = time.Minute
	// farewell bounds the last calls of a stack that ends.
	farewell = 5 * time.Second
)

// maxJobs is how many jobs one call of the API may be about.
const maxJobs = 1000

// defaultQueue is the server's word for a cluster's default queue.
const defaultQueue = "__default__"

// A Stack runs the jobs of queues.
type Stack struct {
	Config

	slots chan struct{} // one token for each job that may be begun

	mu      sync.Mutex
	running map[string]bool // jobs that it has reserved and not seen the end of
	skipped map[string]bool // agent rules that were logged as not satisfied
}

// New returns a stack that is not registered yet.
func New(c Config) *Stack {
	if len(c.Queues) == 0 {
		c.Queues = []string{defaultQueue}
	}
	s := &Stack{Config: c, slots: make(chan struct{}, c.Max), running: map[string]bool{}, skipped: map[string]bool{}}
	for range c.Max {
		s.slots <- struct{}{}
	}
	return s
}

// Run registers the stack and serves its queues until ctx is done. Then it takes no more jobs, and
// de-registers when those that run have ended; they end at once when hard is done.
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
	var polling, jobs, renewing sync.WaitGroup
	for _, queue := range s.Queues {
		polling.Go(func() { s.serve(ctx, hard, queue, &jobs) })
	}
	needed, notNeeded := context.WithCancel(context.WithoutCancel(ctx))
	renewing.Go(func() { s.renew(needed) })
	polling.Wait()
	s.Log.Info("draining", "running", s.count())
	jobs.Wait()
	notNeeded()
	renewing.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
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

// serve takes jobs of one queue, as many as there are free slots.
func (s *Stack) serve(ctx, hard context.Context, queue string, jobs *sync.WaitGroup) {
	for ctx.Err() == nil {
		s.awaitSlot(ctx)
		if begun, pages := s.poll(ctx, hard, queue, jobs); begun == 0 {
			sleep(ctx, time.Duration(pages)*pollPause)
		}
	}
}

// poll reads the list of a queue and begins jobs until the slots are used up or the list ends. The first page
// is as short as can be; those after it are read when jobs that the stack cannot run are in front of others.
func (s *Stack) poll(ctx, hard context.Context, queue string, jobs *sync.WaitGroup) (begun, pages int) {
	after, limit, wait := "", min(s.Max, maxJobs), pollWait
	for {
		page, err := s.API.ScheduledJobs(ctx, s.Key, queue, after, limit, wait)
		s.Metrics.polled(queue, err)
		pages++
		if err != nil {
			s.complain(ctx, "list scheduled jobs failed", err, "queue", queue)
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

// awaitSlot returns when there is a free slot, or when it is time to poll without one: a queue that
// nobody polls counts as disconnected.
func (s *Stack) awaitSlot(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollAnyway)
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

// begin reserves as many jobs of a list as there are free slots, and begins to run those that it got.
// It returns how many these are.
func (s *Stack) begin(ctx, hard context.Context, queue string, list []ScheduledJob, jobs *sync.WaitGroup) int {
	slots := s.take(len(list))
	if slots == 0 {
		return 0
	}
	ids := make([]string, slots)
	for i := range ids {
		ids[i] = list[i].ID
	}
	reserved, err := s.API.Reserve(ctx, s.Key, ids, reservation)
	if err != nil {
		s.complain(ctx, "reserve jobs failed", err, "queue", queue)
	}
	s.give(slots - len(reserved))
	s.remember(reserved)
	for _, id := range reserved {
		jobs.Go(func() {
			defer s.give(1)
			defer s.forget(id)
			s.runJob(hard, id, queue)
		})
	}
	return len(reserved)
}

// complain tells of an error, unless it only means that the stack is being stopped.
func (s *Stack) complain(ctx context.Context, what string, err error, args ...any) {
	if ctx.Err() == nil {
		s.Log.Error(what, append(args, "error", err)...)
	}
}

func (s *Stack) remember(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.running[id] = true
	}
	s.Metrics.reserved(len(ids), len(s.running))
}

func (s *Stack) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
	s.Metrics.ended(len(s.running))
}

// runJob runs an agent for one reserved job. When the agent ends without having taken the job, the job
// is finished, with what is known about why.
func (s *Stack) runJob(ctx context.Context, id, queue string) {
	log := s.Log.With("job", id, "queue", queue)
	tokens, err := s.API.Tokens(ctx, s.Key, []string{id}, tokenLifetime)
	if err != nil || tokens[id] == "" {
		s.complain(ctx, "issue acquisition token failed", err, "job", id)
		return
	}
	s.notify(ctx, id, "Starting an agent")
	log.Info("starting agent")
	err = s.Compute.Run(ctx, Workload{JobID: id, Queue: queue, Endpoint: s.API.Endpoint, Tags: s.Tags, Token: tokens[id]})
	s.Metrics.agentEnded(err)
	if err != nil {
		log.Warn("agent failed", "error", err)
	}
	// Whatever the stop has ended, the job may be left without an agent.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
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
		err = errors.New("the agent ended well, but it has not taken the job")
	}
	s.finish(last, id, err)
}

// finish ends a job that no agent could be started for.
func (s *Stack) finish(ctx context.Context, id string, cause error) {
	err := s.API.Finish(ctx, s.Key, id, fmt.Sprintf("The stack %s could not run an agent for this job: %v", s.Key, cause))
	if refusal, ok := errors.AsType[*Refusal](err); ok && (refusal.Status == http.StatusUnprocessableEntity || refusal.Status == http.StatusNotFound) {
		return // it has moved on meanwhile
	}
	if err != nil {
		s.Log.Error("finish job failed", "job", id, "error", err)
		return
	}
	s.Metrics.gaveUp()
	s.Log.Info("finished job without an agent", "job", id, "cause", cause)
}

func (s *Stack) notify(ctx context.Context, id, detail string) {
	if err := s.API.Notify(ctx, s.Key, []Notification{{JobID: id, Detail: detail}}); err != nil {
		s.complain(ctx, "send notification failed", err, "job", id)
	}
}

// renew extends the reservations of jobs whose agents have not taken them yet. Those that an agent has
// are not the stack's any more, and extending them does nothing.
func (s *Stack) renew(ctx context.Context) {
	for sleep(ctx, renewal) {
		s.mu.Lock()
		ids := make([]string, 0, len(s.running))
		for id := range s.running {
			ids = append(ids, id)
		}
		s.mu.Unlock()
		for batch := range slices.Chunk(ids, maxJobs) {
			if _, err := s.API.Reserve(ctx, s.Key, batch, reservation); err != nil {
				s.complain(ctx, "extend reservations failed", err)
			}
		}
	}
}
