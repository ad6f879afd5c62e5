// Package delivery sends events to notification services, which this package calls receivers: once for each event in
// effect, in order for each build, with retries and a record of what was sent.
//
// A consumer of package events matches each event with the receivers of its organization and writes a row for each
// pair, in the transaction that moves its cursor (match.go). Each receiver with pending rows has a task, which sends
// them (worker.go): rows of one build one after the other, of different builds at the same time. What became of an
// attempt decides whether it is repeated and whether the whole receiver gets a rest (retry.go), so that a receiver
// that does not answer costs few requests and delays no other.
//
// A [Provider] turns an event into a request. Each has a file of its own, provider_NAME.go, and a line in the table in
// provider.go. The settings of providers are in package notifications.
package delivery

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/eventbus"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/notify"
)

// A Delivery is an event on its way to a receiver.
type Delivery struct {
	Seq            int64  // orders those of a receiver
	ID             string // the receiver gets the same id with every attempt
	OrganizationID string
	ReceiverID     string
	Event          events.Name
	EventSeq       int64  // 0: a ping
	OrderKey       string // those with the same key are sent one after the other
	BuildID        string
	RedeliveryOf   string  // the id of another
	Target         *Target // nil: what the settings of the receiver say
	Host           string  // of a webhook of notify, which goes to no receiver; empty: it goes to one
	State          State
	Attempts       int
	NextAttemptAt  time.Time // zero: now
	CreatedAt      time.Time
	FinishedAt     time.Time
	Status         int // of the last response; 0: none
	Error          string
	Duration       time.Duration // of the last attempt
	Request        *RequestRecord
	Response       *ResponseRecord
}

// A Target is who or what a notification of a pipeline or a step goes to, through a receiver.
type Target struct {
	Kind notify.Kind `json:"kind,omitempty"`
	To   string      `json:"to"`             // an e-mail address, a channel or a URL
	Text string      `json:"text,omitempty"` // what a chat message says besides what happened
}

// State is the state of a delivery.
type State string

// The states.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Failed    State = "failed"
)

// Values lists every state.
func (State) Values() []string { return []string{string(Pending), string(Delivered), string(Failed)} }

// ping is the event that a webhook gets when it is created or its settings change. It is not recorded by package
// events.
const ping events.Name = "ping"

// consumer is the name of the cursor.
const consumer = "notifications"

// Parts are the dependencies of a Service.
type Parts struct {
	DB            *db.DB
	Directory     *identity.Directory
	Events        *events.Service
	Receivers     *notifications.Service
	Organizations *organizations.Service
	Clusters      *clusters.Service
	Pipelines     *pipelines.Service
	Builds        *builds.Reader
	BuildAPI      *buildapi.Service
	Agents        *agents.Service
	Public        core.PublicURL
	Clock         core.Clock
	Log           *slog.Logger
	Version       string
	// OutboundAllow are the private ranges that receivers may be in.
	OutboundAllow []netip.Prefix
	Endpoints     Endpoints
}

// Endpoints are how an installation reaches the systems that settings of receivers do not name in full.
type Endpoints struct {
	EventBus eventbus.Config
	// VisibilityURL replaces the API of the vendor of pipeline visibility; empty: it does not.
	VisibilityURL string
}

// Service sends events to receivers.
type Service struct {
	Parts
	clients  map[bool]*http.Client // by whether certificates are verified
	dialer   *net.Dialer           // for other protocols
	bus      *eventbus.Client
	draining chan struct{} // closed when the server drains
}

// New returns a service and subscribes it to events and to changes of receivers.
func New(p Parts) *Service {
	s := &Service{
		Parts:    p,
		clients:  newClients(p.OutboundAllow),
		dialer:   outbound.Dialer(p.OutboundAllow),
		bus:      eventbus.New(p.Endpoints.EventBus),
		draining: make(chan struct{}),
	}
	p.Events.Consume(events.Consumer{Name: consumer, Process: s.match})
	p.Receivers.OnChange(s.receiverChanged)
	return s
}

// Drain has no more attempts begin, so that those that have begun can end before the server does.
func (s *Service) Drain() { close(s.draining) }

func (s *Service) isDraining() bool { return core.IsClosed(s.draining) }

// sendTask sends the pending deliveries of the receiver whose id is its key.
const sendTask = "notification-delivery"

// maxReceivers is how many receivers, and how many hosts, are sent to at the same time.
const maxReceivers = 64

// Background registers the sending of deliveries.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(sendTask, tasks.Limits{Timeout: runTimeout, AtOnce: maxReceivers}, s.send)
	r.Handle(hostTask, tasks.Limits{Timeout: runTimeout, AtOnce: maxReceivers}, s.sendToHost)
	r.Sweep(removeHosts, time.Hour, s.removeOldHosts)
	r.Sweep(removalTask, time.Hour, s.removeOld)
}

// sendPayload says whose receiver it is.
type sendPayload struct {
	OrganizationID string `json:"organization_id"`
}

// task returns the task that sends the delivery and what else is pending for the same receiver or host.
func (d *Delivery) task(at time.Time) tasks.Task {
	if d.Host != "" {
		return tasks.Task{Kind: hostTask, Key: d.ReceiverID, Payload: hostPayload{d.OrganizationID, d.Host}, RunAt: at}
	}
	return sendAt(d.OrganizationID, d.ReceiverID, at)
}

func sendAt(organizationID, receiverID string, at time.Time) tasks.Task {
	return tasks.Task{Kind: sendTask, Key: receiverID, Payload: sendPayload{organizationID}, RunAt: at}
}
