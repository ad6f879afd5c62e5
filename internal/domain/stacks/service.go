package stacks

import (
	"context"
	"log/slog"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// Service is what stacks ask of the server.
type Service struct {
	db       *db.DB
	builds   *builds.Service
	agents   *agents.Service
	clusters *clusters.Service
	bus      *bus.Bus
	public   core.PublicURL
	clock    core.Clock
	log      *slog.Logger
	notes    *notes
	rules    dispatch.RuleSetCache
	started  time.Time
	Settings
}

// Parts are what the service stands on.
type Parts struct {
	DB       *db.DB
	Builds   *builds.Service
	Agents   *agents.Service
	Clusters *clusters.Service
	Bus      *bus.Bus
	Public   core.PublicURL
	Clock    core.Clock
	Log      *slog.Logger
	Settings
}

// Settings are how patient the server is with stacks. The zero value is the default.
type Settings struct {
	// DeregisterAfter is how long a stack may be silent before the server de-registers it.
	DeregisterAfter time.Duration
}

// The bounds of DeregisterAfter.
const (
	DefaultDeregisterAfter = 24 * time.Hour
	MinDeregisterAfter     = 10 * time.Minute
)

// New returns the service of the stacks in a database.
func New(p Parts) *Service {
	s := &Service{
		db: p.DB, builds: p.Builds, agents: p.Agents, clusters: p.Clusters, bus: p.Bus, public: p.Public, clock: p.Clock, log: p.Log,
		notes: newNotes(p.DB, p.Log), started: p.Clock(), Settings: p.Settings,
	}
	if s.DeregisterAfter == 0 {
		s.DeregisterAfter = DefaultDeregisterAfter
	}
	p.Builds.NameStacks(keyOf)
	return s
}

// register registers a stack for the cluster of a token, or updates it, and reports whether it is new.
func (s *Service) register(ctx context.Context, t *identity.AgentToken, stack *Stack) (created bool, err error) {
	org := &t.Organization
	now := s.clock()
	stack.OrganizationID, stack.ClusterID, stack.RegisteredAt, stack.ConnectedAt = org.ID, t.ClusterID, now, now
	err = s.db.Write(ctx, func(q *db.Q) error {
		if _, err := queueOf(q, t, stack.QueueKey); err != nil {
			return err
		}
		// So that two stacks cannot take the last place.
		if err := q.LockName("stacks " + org.ID); err != nil {
			return err
		}
		there, err := byKey(q, org.ID, stack.Key)
		if err != nil && core.KindOf(err) != core.NotFound {
			return err
		}
		if there != nil {
			stack.ID, created = there.ID, false
			if there.ClusterID != t.ClusterID {
				return core.Errorf(core.Unprocessable, "key %s is that of a stack of another cluster", stack.Key)
			}
			return save(q, stack)
		}
		stack.ID, created = core.NewID(), true
		active, err := countActive(q, org.ID, now)
		if err != nil {
			return err
		}
		if active >= org.Limits.Stacks {
			return core.Errorf(core.Forbidden, "The organization has %d active stacks, which is its limit; de-register one that is not needed", active)
		}
		return save(q, stack)
	})
	return created, err
}

// queueOf returns the self-hosted queue of a token's cluster that a stack calls by a key, or a NotFound
// error.
func queueOf(q *db.Q, t *identity.AgentToken, key string) (clusters.Queue, error) {
	cluster, err := clusters.ByID(q, t.Organization.ID, t.ClusterID)
	if err != nil {
		return clusters.Queue{}, err
	}
	named := key
	if clusters.IsDefaultQueue(key) {
		named = ""
	}
	queue, err := clusters.QueueForAgents(q, cluster, named)
	if core.KindOf(err) == core.Unprocessable {
		return queue, core.Errorf(core.NotFound, "No self-hosted queue found with the key %s", key)
	}
	return queue, err
}

// find returns the registered stack of a token's cluster with a key, or a NotFound error.
func (s *Service) find(ctx context.Context, t *identity.AgentToken, key string) (stack *Stack, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		stack, err = byKey(q, t.Organization.ID, key)
		return err
	})
	if err == nil && stack.ClusterID != t.ClusterID {
		err = core.Errorf(core.NotFound, noStack)
	}
	if err == nil {
		s.notes.called(stack.ID, s.clock())
	}
	return stack, err
}

// deregister removes a stack and releases what it has reserved. A stack that registers with the same key
// later is another one: tokens of this one stay invalid.
func (s *Service) deregister(ctx context.Context, stackID string) error {
	return s.db.Write(ctx, func(q *db.Q) error { return remove(q, stackID, s.clock()) })
}

// remove removes a stack and releases what it has reserved, or returns a NotFound error.
func remove(q *db.Q, stackID string, now time.Time) error {
	n, err := q.Exec(`DELETE FROM stacks WHERE id = $1`, stackID)
	if err != nil {
		return err
	}
	if n == 0 {
		return core.Errorf(core.NotFound, noStack)
	}
	_, err = dispatch.Release(q, stackID, now, true)
	return err
}

const (
	// silenceTask de-registers stacks that have been silent for DeregisterAfter.
	silenceTask  = "stacks-silent"
	silenceEvery = 10 * time.Minute
	silenceBatch = 20
)

// deregisterSilent de-registers stacks that have not called for DeregisterAfter. It waits until the server has
// run for long enough to hear from every stack that is alive: while the server was down, all were silent.
func (s *Service) deregisterSilent(q *db.Q) (more bool, err error) {
	now := s.clock()
	if now.Sub(s.started) < disconnectedAfter {
		return false, nil
	}
	silent, err := silentSince(q, now.Add(-s.DeregisterAfter), silenceBatch)
	if err != nil {
		return false, err
	}
	for _, stack := range silent {
		if err := remove(q, stack.ID, now); err != nil {
			return false, err
		}
		s.log.Info("deregister silent stack", "organization", stack.OrganizationID, "stack", stack.Key, "last_connected_at", stack.ConnectedAt)
	}
	return len(silent) == silenceBatch, nil
}

// releaseTask is about the reservations of a stack, of which one runs out then.
const releaseTask = "stack-reservations"

// Background registers what is done without a call.
func (s *Service) Background(r *tasks.Runner) {
	r.Sweep(silenceTask, silenceEvery, s.deregisterSilent)
	r.HandleTx(releaseTask, func(q *db.Q, t *tasks.Due) error {
		next, err := dispatch.Release(q, t.Key, s.clock(), false)
		if err != nil || next.IsZero() {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: releaseTask, Key: t.Key, RunAt: next})
	})
}

// reserve reserves jobs for a stack, or extends its reservations.
func (s *Service) reserve(ctx context.Context, stack *Stack, jobIDs []string, expiry time.Duration) (reserved []string, err error) {
	now := s.clock()
	err = s.db.Write(ctx, func(q *db.Q) error {
		// A stack that is being de-registered meanwhile must not leave anything reserved.
		if err := stay(q, stack); err != nil {
			return err
		}
		reserved, err = dispatch.Reserve(q, stack.OrganizationID, stack.ClusterID, stack.ID, jobIDs, now, now.Add(expiry))
		if err != nil || len(reserved) == 0 {
			return err
		}
		if err := builds.NoteMilestone(q, builds.Reserved, now, stack.Key, reserved); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: releaseTask, Key: stack.ID, RunAt: now.Add(expiry)})
	})
	return reserved, err
}
