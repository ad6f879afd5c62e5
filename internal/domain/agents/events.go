package agents

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// stateEvents are the events of agents that enter a state.
var stateEvents = map[State]events.Name{
	Connected:    events.AgentConnected,
	Disconnected: events.AgentDisconnected,
	Lost:         events.AgentLost,
	Stopping:     events.AgentStopping,
	Stopped:      events.AgentStopped,
}

// recordState writes an event if the state of an agent is not the one before.
func (s *Service) recordState(q *db.Q, before State, a *Agent) error {
	if a.State == before || s.events == nil {
		return nil
	}
	return s.events.Write(q, agentEvent(stateEvents[a.State], a))
}

func agentEvent(name events.Name, a *Agent) events.Event {
	return events.Event{
		OrganizationID: a.OrganizationID,
		Name:           name,
		ClusterID:      a.ClusterID,
		AgentID:        a.ID,
		Facts: events.Facts{Agent: &events.AgentFacts{
			State:          string(a.State),
			ConnectedAt:    a.ConnectedAt,
			DisconnectedAt: a.DisconnectedAt,
			LostAt:         a.LostAt,
			StoppedAt:      a.StoppedAt,
		}},
	}
}

// AsOf shows an agent as it was when an event was written.
func AsOf(facts events.Facts, a *Agent) {
	if f := facts.Agent; f != nil {
		a.State, a.ConnectedAt, a.DisconnectedAt, a.LostAt, a.StoppedAt = State(f.State), f.ConnectedAt, f.DisconnectedAt, f.LostAt, f.StoppedAt
	}
}

const (
	// refusalGap is the least time between two events of one token and address, so that an agent that tries to
	// register again and again causes few.
	refusalGap = time.Minute
	// maxRefusals bounds the tokens and addresses that are remembered for that.
	maxRefusals = 1000
)

// A refusal is a token that was used from an address that it does not allow.
type refusal struct {
	tokenID string
	from    netip.Addr
}

// recordRefusal writes an event if an agent could not register because of its address.
func (s *Service) recordRefusal(ctx context.Context, err error) {
	refused, ok := errors.AsType[*identity.AddressError](err)
	if !ok || s.events == nil {
		return
	}
	now, key := s.clock(), refusal{refused.Token.ID, refused.From}
	if last, ok := s.refusals.Get(key); ok && now.Sub(last) < refusalGap {
		return
	}
	s.refusals.Add(key, now)
	e := events.Event{
		OrganizationID: refused.Token.Organization.ID,
		Name:           events.RegistrationBlocked,
		ClusterID:      refused.Token.ClusterID,
		Facts:          events.Facts{BlockedIP: refused.From.String(), TokenID: refused.Token.ID},
	}
	var wanted events.Names
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		wanted, err = s.events.Wanted(q, e.OrganizationID)
		return err
	})
	if err == nil && wanted.Has(e.Name) {
		err = s.db.Write(ctx, func(q *db.Q) error { return s.events.Write(q, e) })
	}
	if err != nil {
		s.log.WarnContext(ctx, "record refused registration failed", "error", err)
	}
}

// blockBatch bounds the agents that are stopped in one transaction.
const blockBatch = 100

// blockAgents stops the connected agents that registered with a token from addresses that it no longer allows. They
// finish their jobs first.
func (s *Service) blockAgents(q *db.Q, t *tasks.Due) error {
	var payload clusters.AddressesChange
	if err := t.Payload(&payload); err != nil {
		return err
	}
	token, err := clusters.TokenByID(q, payload.ClusterID, t.Key)
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	connected, err := connectedWithToken(q, payload.ClusterID, token.ID)
	if err != nil {
		return err
	}
	now, blocked := s.clock(), 0
	var list []events.Event
	for _, found := range connected {
		if from, err := netip.ParseAddr(found.Address); err != nil || token.Allows(from) {
			continue
		}
		if blocked++; blocked > blockBatch {
			if err := tasks.Add(q, tasks.Task{Kind: t.Kind, Key: t.Key, Payload: payload, RunAt: now}); err != nil {
				return err
			}
			break
		}
		a, err := lockByID(q, found.OrganizationID, found.ID)
		if err != nil {
			return err
		}
		if !a.transition(Stopping, now) {
			continue
		}
		q.Announce(topic(a.ID))
		if err := updateAgent(q, a); err != nil {
			return err
		}
		e := agentEvent(events.AgentBlocked, a)
		e.Facts.BlockedIP, e.Facts.TokenID = a.Address, token.ID
		list = append(list, e, agentEvent(events.AgentStopping, a))
	}
	if s.events == nil {
		return nil
	}
	return s.events.Write(q, list...)
}
