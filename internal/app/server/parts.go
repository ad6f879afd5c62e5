package server

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"stackyard/internal/app/web/accountpages"
	"stackyard/internal/domain/agentimages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/machines"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/stacks"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/parked"
	"stackyard/internal/platform/seal"
)

// Parts are the dependencies of a server.
type Parts struct {
	// Parked is the listener of the server, if it lets requests wait without their goroutines; nil: it does not.
	Parked *parked.Listener
	DB     *db.DB
	Blobs  *blob.Store
	Key    seal.Key
	Public core.PublicURL
	// Content is the origin from which browsers fetch artifacts, used for nothing else; empty: Public.
	Content core.PublicURL
	// Clock is the clock of this process. Times that are saved, or compared with saved ones, come from the
	// database's clock, which replicas share.
	Clock core.Clock
	// DatabaseClock replaces the database's clock in tests that control the time; nil otherwise.
	DatabaseClock  core.Clock
	Log            *slog.Logger
	Version        string
	TrustedProxies []netip.Prefix
	// OutboundAllow lists the private ranges that user-given URLs can reach.
	OutboundAllow []netip.Prefix
	// ResolveCommits is how long new builds of HEAD wait for their commit; 0: repositories are not asked for it.
	ResolveCommits time.Duration
	// Provider is the identity provider for signing in besides passwords; nil: none.
	Provider *accountpages.Provider
	// Connections are the applications with which people connect notification services.
	Connections notifications.Connections
	// Endpoints are how systems are reached that notification services do not name in full.
	Endpoints delivery.Endpoints
	Agents    agents.Settings
	Stacks    stacks.Settings
	Images    agentimages.Settings
	Machines  machines.Settings
	// MetricsToken is the bearer token that /metrics asks for; "": none.
	MetricsToken string
	// MetricsPrivate is set if metrics have a listener of their own, so that /metrics shows none.
	MetricsPrivate bool
	// KeepEvents is how long events are kept; 0: default.
	KeepEvents time.Duration
	// Peer is the URL at which other replicas reach this one, and PeerTLS how this one connects to them over https.
	Peer    string
	PeerTLS *tls.Config
	// CheckAccessEvery is how often streams check access without being woken; 0: default.
	CheckAccessEvery time.Duration
}
