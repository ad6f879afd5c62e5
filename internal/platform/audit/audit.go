// Package audit records who changed what: the audit trail of an organization.
//
// A record is written in the transaction of the change, so that neither exists without the other. Packages describe
// the rows that configure something as [Rows], and run the statements that change them with [Rows.Exec], which
// compares the row before and after. What is no row, for example a sign-in, is recorded with [Write].
//
// The actor comes from the context of the transaction ([With]), which package route sets for requests. Secrets are
// compared, and never stored: their values are replaced by [Hidden] before anything is written. The size of a record
// is bounded.
package audit

import (
	"context"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// ActorType says what acted.
type ActorType string

// The types of actors.
const (
	User       ActorType = "user"
	AgentToken ActorType = "agent_token" // a stack with the token of a cluster
	Agent      ActorType = "agent"
	Operator   ActorType = "operator"  // whoever runs commands on the server: stackyard apply
	System     ActorType = "system"    // the server itself
	Anonymous  ActorType = "anonymous" // not signed in
)

// Values lists every type.
func (ActorType) Values() []string {
	return []string{string(User), string(AgentToken), string(Agent), string(Operator), string(System), string(Anonymous)}
}

// Channel says how the change was made.
type Channel string

// The channels.
const (
	API    Channel = "api"
	Web    Channel = "web"
	Apply  Channel = "apply" // an organization file
	Agents Channel = "agents"
	Server Channel = "server" // background work
)

// Values lists every channel.
func (Channel) Values() []string {
	return []string{string(API), string(Web), string(Apply), string(Agents), string(Server)}
}

// An Actor is who made a change, and from where.
type Actor struct {
	Type             ActorType
	ID, Name, Email  string
	TokenID          string // of the access token or agent token; "": a session
	TokenDescription string
	Channel          Channel
	Address          string // "": none
	UserAgent        string
	RequestID        string
}

// A Source returns the actor of a context. It is asked when something is recorded.
type Source interface{ AuditActor() Actor }

// AuditActor returns the actor.
func (a Actor) AuditActor() Actor { return a }

type sourceKey struct{}

// With returns a context whose changes are recorded with an actor, unless it has one already: what a page does with
// requests to the REST API is recorded as done on the page.
func With(ctx context.Context, source Source) context.Context {
	if ctx.Value(sourceKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, sourceKey{}, source)
}

// actorOf returns the actor of a context; without one it is the server.
func actorOf(ctx context.Context) Actor {
	if source, ok := ctx.Value(sourceKey{}).(Source); ok {
		return source.AuditActor()
	}
	return Actor{Type: System, Name: "Stackyard", Channel: Server}
}

// A Subject is what was changed.
type Subject struct{ Type, ID, Name string }

// An Entry is what happened, as packages describe it.
type Entry struct {
	OrganizationID string
	Action         string // subject type, dot, past participle: pipeline.updated
	Subject        Subject
	Before, After  Fields
	// Actor replaces the actor of the context, for a person who has just signed in; nil: that of the context.
	Actor *Actor
}

// The bounds of a record, in bytes.
const (
	maxText    = 500 // of a name or a user agent
	maxValue   = 16 << 10
	maxChanges = 64 << 10
)

// Write records an entry in the transaction of q. The time is that of the database's clock.
func Write(q *db.Q, e Entry) error {
	actor := actorOf(q.Context())
	if e.Actor != nil {
		person := *e.Actor
		person.Channel, person.Address, person.UserAgent, person.RequestID = actor.Channel, actor.Address, actor.UserAgent, actor.RequestID
		actor = person
	}
	_, err := q.Exec(`
		INSERT INTO audit_events (id, organization_id, created_at, action, subject_type, subject_id, subject_name, actor_type, actor_id,
			actor_name, actor_email, token_id, token_description, channel, address, user_agent, request_id, changes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		core.NewID(), e.OrganizationID, db.Micros(q.Now()), e.Action, e.Subject.Type, clean(e.Subject.ID), clean(e.Subject.Name),
		actor.Type, actor.ID, clean(actor.Name), clean(actor.Email), actor.TokenID, clean(actor.TokenDescription),
		actor.Channel, clean(actor.Address), clean(actor.UserAgent), actor.RequestID, db.JSON(diff(e.Before, e.After)))
	return err
}

// clean returns a text that every database can store, cut to its bound.
func clean(text string) string {
	return core.CutBytes(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), maxText)
}
