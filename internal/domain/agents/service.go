package agents

import (
	"context"
	"log/slog"
	"time"

	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/lru"
	"stackyard/internal/platform/seal"
)

// Service serves the sessions of agents and agents in the REST API.
type Service struct {
	db                *db.DB
	dir               *identity.Directory
	bus               *bus.Bus
	builds            *lifecycle.Service
	buildAPI          *buildapi.Service
	dispatch          *dispatch.Dispatcher
	public            core.PublicURL
	clock             core.Clock
	log               *slog.Logger
	events            *events.Service // nil: events are not recorded
	refusals          *lru.Cache[refusal, time.Time]
	jobTokens         jobTokens
	acquisitionTokens acquisitionTokens
	machineTokens     acquisitionTokens
	surroundings      surroundingsCache
	Settings

	sessions        sessionRegistry
	presence        presence
	identityChanged <-chan struct{} // receives when an organization may have changed
	queueRemoved    <-chan struct{} // receives when agents may have lost their queue
	draining        chan struct{}   // closed when the server drains
}

// Parts are the dependencies of a Service.
type Parts struct {
	DB        *db.DB
	Directory *identity.Directory
	Bus       *bus.Bus
	Builds    *lifecycle.Service
	BuildAPI  *buildapi.Service
	Dispatch  *dispatch.Dispatcher
	Events    *events.Service // nil: events are not recorded
	Key       seal.Key
	Public    core.PublicURL
	Clock     core.Clock
	Log       *slog.Logger
	Settings
}

// Settings are the timeouts of agents. The zero value is the default.
type Settings struct {
	// LostAfter is the time without a request after which an agent is lost.
	LostAfter time.Duration
	// PingWait returns how long a ping waits for a job, given how long the agent has been idle.
	PingWait func(idle time.Duration) time.Duration
}

// The default and the minimum of LostAfter.
const (
	DefaultLostAfter = 3 * time.Minute
	MinLostAfter     = 15 * time.Second
)

// New returns a Service.
func New(p Parts) *Service {
	s := &Service{
		db: p.DB, dir: p.Directory, bus: p.Bus, builds: p.Builds, buildAPI: p.BuildAPI, dispatch: p.Dispatch,
		public: p.Public, clock: p.Clock, log: p.Log, events: p.Events,
		refusals:          lru.New[refusal, time.Time](maxRefusals),
		jobTokens:         newJobTokens(p.Key),
		acquisitionTokens: newAcquisitionTokens(p.Key),
		machineTokens:     acquisitionTokens{p.Key.Signer("machine of a hosted queue")},
		surroundings:      newSurroundingsCache(p.DB),
		Settings:          p.Settings,
		sessions:          newSessionRegistry(),
		presence:          presence{reliable: p.Clock()},
		draining:          make(chan struct{}),
	}
	if s.LostAfter == 0 {
		s.LostAfter = DefaultLostAfter
	}
	if s.PingWait == nil {
		s.PingWait = DefaultPingWait
	}
	s.identityChanged, _ = p.Bus.Subscribe(identity.Topic)
	s.queueRemoved, _ = p.Bus.Subscribe(clusters.QueueRemoved)
	p.Bus.OnPoll(s.findMissedChanges)
	p.Builds.AddEffect(s.observe)
	p.Builds.NameAgents(agentNames)
	return s
}

// Drain makes waiting requests of agents return now, and later ones not wait.
func (s *Service) Drain() { close(s.draining) }

// Draining is closed when the server drains, for other packages with waiting requests.
func (s *Service) Draining() <-chan struct{} { return s.draining }

func (s *Service) isDraining() bool { return core.IsClosed(s.draining) }

// change changes an agent in one transaction that locks it, and notifies its sessions in all processes.
func (s *Service) change(ctx context.Context, orgID, agentID string, change func(q *db.Q, a *Agent) error) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		a, err := lockByID(q, orgID, agentID)
		if err != nil {
			return err
		}
		before := a.State
		if err := change(q, a); err != nil {
			return err
		}
		q.Announce(topic(a.ID))
		if err := updateAgent(q, a); err != nil {
			return err
		}
		return s.recordState(q, before, a)
	})
}

// register adds an agent to the cluster of a token and returns its session token.
func (s *Service) register(ctx context.Context, t *identity.AgentToken, only *identity.JobAcquisition, body *registration, a *Agent) (session string, err error) {
	key, err := body.queue()
	if err != nil {
		return "", err
	}
	session = seal.NewToken(identity.SessionTokenPrefix)
	a.OrganizationID, a.ClusterID, a.TokenID, a.TokenName = t.Organization.ID, t.ClusterID, t.ID, t.Description
	a.CreatedAt = s.clock()
	return session, s.db.Write(ctx, func(q *db.Q) error {
		queue := key
		if only != nil {
			if queue, err = a.dedicate(q, only, key); err != nil {
				return err
			}
		}
		if err := body.assignQueue(q, a, queue, only != nil && only.Hosted); err != nil {
			return err
		}
		return insertAgent(q, a, seal.HashToken(session))
	})
}

// connect marks an agent as connected.
func (s *Service) connect(ctx context.Context, a *Agent) error {
	return s.change(ctx, a.OrganizationID, a.ID, func(q *db.Q, a *Agent) error {
		now := s.clock()
		if !a.IsConnected() && !a.transition(a.connectedState(), now) {
			return errDisconnected
		}
		return recordSeen(q, a.ID, now)
	})
}

// disconnect marks an agent as disconnected and ends its jobs. Repeating it changes nothing.
func (s *Service) disconnect(ctx context.Context, orgID, agentID string) error {
	return s.change(ctx, orgID, agentID, func(q *db.Q, a *Agent) error {
		if a.HasLeft() {
			return nil
		}
		now := s.clock()
		a.transition(a.disconnectedState(), now)
		if err := deletePresence(q, a.ID); err != nil {
			return err
		}
		return s.enqueueJobEnds(q, a, "Its agent disconnected.", now)
	})
}

var errDisconnected = core.Errorf(core.Unauthorized, "This agent has disconnected; it must register again")

// ensureConnected connects an agent that sends a request, also if it was lost or has not called connect. The
// job that it lost stays ended.
func (s *Service) ensureConnected(ctx context.Context, a caller) error {
	if a.IsConnected() {
		return nil
	}
	return s.connect(ctx, a.Agent)
}
