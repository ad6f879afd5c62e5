package stacks

import (
	"context"
	"log/slog"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// Service serves the stacks API.
type Service struct {
	db       *db.DB
	builds   *lifecycle.Service
	agents   *agents.Service
	clusters *clusters.Service
	bus      *bus.Bus
	public   core.PublicURL
	clock    core.Clock
	log      *slog.Logger
	activity *activity
	ruleSets dispatch.RuleSetCache
	started  time.Time
	Settings
}

// Parts are the dependencies of a Service.
type Parts struct {
	DB       *db.DB
	Builds   *lifecycle.Service
	Timeline *timeline.Service
	Agents   *agents.Service
	Clusters *clusters.Service
	Bus      *bus.Bus
	Public   core.PublicURL
	Clock    core.Clock
	Log      *slog.Logger
	Settings
}

// Settings are the timeouts of stacks. The zero value is the default.
type Settings struct {
	// DeregisterAfter is the time without a call after which the server de-registers a stack.
	DeregisterAfter time.Duration
}

// The default and the minimum of DeregisterAfter.
const (
	DefaultDeregisterAfter = 24 * time.Hour
	MinDeregisterAfter     = 10 * time.Minute
)

// New returns a Service.
func New(p Parts) *Service {
	s := &Service{
		db: p.DB, builds: p.Builds, agents: p.Agents, clusters: p.Clusters, bus: p.Bus, public: p.Public, clock: p.Clock, log: p.Log,
		activity: newActivity(p.DB, p.Log), ruleSets: dispatch.NewRuleSetCache(), started: p.Clock(), Settings: p.Settings,
	}
	if s.DeregisterAfter == 0 {
		s.DeregisterAfter = DefaultDeregisterAfter
	}
	p.Timeline.UseStacks(timeline.Stacks{Key: keyOf, Notifications: notificationsOf})
	return s
}

// register registers a stack for the cluster of a token, or updates it. It reports whether the stack is new.
func (s *Service) register(ctx context.Context, t *identity.AgentToken, stack *Stack) (created bool, err error) {
	org := &t.Organization
	now := s.clock()
	stack.OrganizationID, stack.ClusterID, stack.RegisteredAt, stack.ConnectedAt = org.ID, t.ClusterID, now, now
	err = s.db.Write(ctx, func(q *db.Q) error {
		if _, err := queueOf(q, t, stack.QueueKey); err != nil {
			return err
		}
		// The lock keeps two new stacks from exceeding the limit together.
		if err := q.LockName("stacks " + org.ID); err != nil {
			return err
		}
		existing, err := byKey(q, org.ID, stack.Key)
		if err != nil && core.KindOf(err) != core.NotFound {
			return err
		}
		if existing != nil {
			stack.ID, created = existing.ID, false
			if existing.ClusterID != t.ClusterID {
				return core.Errorf(core.Unprocessable, "key %s is that of a stack of another cluster", stack.Key)
			}
			return save(q, stack)
		}
		stack.ID, created = core.NewID(), true
		active, err := countActive(q, org.ID, now)
		if err != nil {
			return err
		}
		if active >= quotas.Of(org).Stacks {
			return core.Errorf(core.Forbidden, "The organization has %d active stacks, which is its limit; de-register one that is not needed", active)
		}
		return save(q, stack)
	})
	return created, err
}

// queueOf returns the self-hosted queue with a key in the cluster of a token, or a NotFound error. The key
// can be that of the default queue.
func queueOf(q *db.Q, t *identity.AgentToken, key string) (clusters.Queue, error) {
	cluster, err := clusters.ByID(q, t.Organization.ID, t.ClusterID)
	if err != nil {
		return clusters.Queue{}, err
	}
	lookup := key
	if clusters.IsDefaultQueue(key) {
		lookup = ""
	}
	queue, err := clusters.QueueForAgents(q, cluster, lookup)
	if core.KindOf(err) == core.Unprocessable {
		return queue, core.Errorf(core.NotFound, "No self-hosted queue found with the key %s", key)
	}
	return queue, err
}

// find returns the stack with a key in the cluster of a token, or a NotFound error, and records the call.
func (s *Service) find(ctx context.Context, t *identity.AgentToken, key string) (stack *Stack, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		stack, err = byKey(q, t.Organization.ID, key)
		return err
	})
	if err == nil && stack.ClusterID != t.ClusterID {
		err = core.Errorf(core.NotFound, noStack)
	}
	if err == nil {
		s.activity.recordCall(stack.ID, s.clock())
	}
	return stack, err
}

// deregister removes a stack and releases its reservations. A stack that registers with the same key later
// has another id, so the tokens of this one stay invalid.
func (s *Service) deregister(ctx context.Context, stackID string) error {
	return s.db.Write(ctx, func(q *db.Q) error { return remove(q, stackID, s.clock()) })
}

// remove removes a stack and releases its reservations, or returns a NotFound error.
func remove(q *db.Q, stackID string, now time.Time) error {
	n, err := stackRows.Exec(q, stackID, `DELETE FROM stacks WHERE id = $1`, stackID)
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

// deregisterSilent de-registers stacks that have not called for DeregisterAfter. After a start it waits
// disconnectedAfter: while the server was down, no stack could call.
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

// releaseTask releases the expired reservations of a stack.
const releaseTask = "stack-reservations"

// Background registers the background tasks of stacks.
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
		// A stack that is de-registered at the same time must not keep reservations.
		if err := lockRegistered(q, stack); err != nil {
			return err
		}
		reserved, err = dispatch.Reserve(q, stack.OrganizationID, stack.ClusterID, stack.ID, jobIDs, now, now.Add(expiry))
		if err != nil || len(reserved) == 0 {
			return err
		}
		if err := timeline.RecordAll(q, timeline.Reserved, now, stack.Key, reserved); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: releaseTask, Key: stack.ID, RunAt: now.Add(expiry)})
	})
	return reserved, err
}
