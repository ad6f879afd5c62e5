// Package server wires the packages together: it opens storage, collects the routes of all capabilities, serves
// them on one port and drains. It is the only package that knows all others.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stackyard/internal/app/graphql"
	"stackyard/internal/app/web"
	"stackyard/internal/app/web/accountpages"
	"stackyard/internal/app/web/buildpages"
	"stackyard/internal/app/web/clusterpages"
	"stackyard/internal/app/web/orgpages"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/app/web/pipelinepages"
	"stackyard/internal/app/web/searchpages"
	"stackyard/internal/domain/account"
	"stackyard/internal/domain/agentimages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/auditapi"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/buildexports"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/builds/retention"
	"stackyard/internal/domain/clusterrules"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/commits"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/hooks"
	"stackyard/internal/domain/jobapi"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/machines"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/oidc"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/queuemetrics"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/domain/remoteaccess"
	"stackyard/internal/domain/schedules"
	"stackyard/internal/domain/settings"
	"stackyard/internal/domain/stacks"
	"stackyard/internal/domain/statuses"
	"stackyard/internal/domain/suites"
	"stackyard/internal/domain/testresults"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/limits"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/parked"
	"stackyard/internal/platform/route"
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

// Server serves all requests of an installation.
type Server struct {
	handler    *route.Server
	openAPI    []byte
	background *background
	agents     *agents.Service
	remote     *remoteaccess.Service
	machines   *machines.Service
	logs       *joblog.Service
	deliveries *delivery.Service
	images     *agentimages.Service
	accounts   *account.Service
	pages      *web.Site
	writable   *writable
	// privateMetrics shows metrics with the names of organizations and queues.
	privateMetrics http.Handler
	draining       atomic.Bool
}

// New wires a server. The database must be migrated.
func New(p Parts) (*Server, error) {
	s := &Server{}
	limiter := limits.New(p.DB, p.Clock, p.DatabaseClock, p.Log) // uses both clocks
	clock, err := agreedClock(p)
	if err != nil {
		return nil, err
	}
	p.Clock = clock.Now
	results, err := openResults(p.DB)
	if err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.background = newBackground(p, metrics)
	s.background.bus.OnPoll(clock.Measure)
	directory := identity.NewDirectory(p.DB, p.Clock)
	if p.CheckAccessEvery > 0 {
		directory.CheckEvery = p.CheckAccessEvery
	}
	s.accounts = account.New(p.DB, directory, p.Clock)
	disks := disksOf(p.DB, p.Blobs)
	metrics.MustRegister(diskSpace{disks})
	metrics.MustRegister(storageCounters(p.DB, p.Blobs)...)
	s.writable = &writable{db: p.DB, disks: disks, clock: p.Clock, log: p.Log}
	s.background.loops = append(s.background.loops, func(ctx context.Context) error { return watchDisks(ctx, disks, p.Log) })
	capabilities, err := s.capabilities(p, results, directory, metrics)
	if err != nil {
		return nil, err
	}
	public, private := metricsHandlers(p, metrics, &fleet{db: p.DB, results: results, clock: p.Clock, log: p.Log})
	s.privateMetrics = private
	routes := append(s.ownRoutes(public), capabilities...)
	s.handler = route.New(route.Config{
		Directory:      directory,
		Sessions:       s.agents.Authenticate,
		Registrations:  s.agents.AuthenticateRegistration,
		Public:         p.Public,
		Content:        p.Content,
		Limiter:        limiter,
		RESTLimit:      quotas.RESTRequests,
		PathLimits:     map[string]*route.RateLimit{stacks.Path: stacks.DefaultRateLimit()},
		Log:            p.Log,
		Metrics:        metrics,
		TrustedProxies: p.TrustedProxies,
		Used:           s.background.uses.Record,
		AccessChanges:  func(ctx context.Context) <-chan struct{} { return directory.Changes(ctx, s.background.bus) },
		ErrorPage:      s.pages.ErrorPage,
		Parked:         p.Parked,
	}, routes)
	s.openAPI, err = s.handler.OpenAPI(p.Version)
	return s, err
}

// clockTimeout limits the first read of the database's clock.
const clockTimeout = 10 * time.Second

// agreedClock returns the clock that replicas share.
func agreedClock(p Parts) (*db.Clock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clockTimeout)
	defer cancel()
	return p.DB.NewClock(ctx, p.Clock, p.DatabaseClock)
}

// openResults opens the database of test results.
func openResults(d *db.DB) (*db.DB, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resultsTimeout)
	defer cancel()
	return d.Results(ctx)
}

// resultsTimeout bounds opening and migrating the database of test results.
const resultsTimeout = time.Minute

// capabilities returns the routes of all capability packages and registers their background work.
func (s *Server) capabilities(p Parts, results *db.DB, directory *identity.Directory, metrics prometheus.Registerer) ([]route.Route, error) {
	events := events.New(p.DB, s.background.bus, p.Clock, p.Log, cmp.Or(p.KeepEvents, events.DefaultKeep))
	jobs := dispatch.Jobs{Running: builds.RunningByPipeline, Slugs: pipelines.Slugs}
	pipelines := pipelines.New(p.DB, p.Key, p.Public, p.Clock, outbound.New(p.OutboundAllow))
	builds := lifecycle.New(p.DB, pipelines, p.Public, p.Clock, p.Log)
	builds.RecordEvents(events)
	builds.Measure(metrics)
	jobs.Assign, jobs.AssignedTo = builds.Assign, builds.AssignedTo
	dispatcher := dispatch.New(p.DB, s.background.bus, p.Clock, p.Log, metrics, jobs)
	s.logs = joblog.New(p.DB, p.Blobs, s.background.bus, builds.Reader, p.Public, p.Clock, p.Log)
	builds.AddEffect(s.logs.Observe)
	buildAPI := buildapi.New(p.DB, builds, pipelines, p.Public)
	timeline := timeline.New(p.DB, builds, p.Clock)
	artifacts := artifacts.New(p.DB, builds.Reader, p.Clock)
	annotations := annotations.New(p.DB, builds.Reader, p.Clock)
	clusters := clusters.New(p.DB, directory, p.Key, p.Public, p.Clock)
	var err error
	s.images, err = agentimages.New(p.DB, clusters, s.background.bus, p.Public, p.Clock, p.Log, p.Images)
	if err != nil {
		return nil, err
	}
	s.images.Background(s.background.tasks)
	s.agents = agents.New(agents.Parts{
		DB:        p.DB,
		Directory: directory,
		Bus:       s.background.bus,
		Builds:    builds,
		BuildAPI:  buildAPI,
		Dispatch:  dispatcher,
		Events:    events,
		Key:       p.Key,
		Public:    p.Public,
		Clock:     p.Clock,
		Log:       p.Log,
		Settings:  p.Agents,
	})
	jobAPI := jobapi.New(jobapi.Parts{
		Agents:      s.agents,
		Annotations: annotations,
		Artifacts:   artifacts,
		Blobs:       p.Blobs,
		Builds:      builds,
		Clusters:    clusters,
		Logs:        s.logs,
		Pipelines:   pipelines,
		Key:         p.Key,
		Public:      p.Public,
		Content:     p.Content,
		Clock:       p.Clock,
		Log:         p.Log,
	})
	s.remote = remoteaccess.New(remoteaccess.Parts{
		DB:        p.DB,
		Directory: directory,
		Bus:       s.background.bus,
		Agents:    s.agents,
		Builds:    builds.Reader,
		Events:    events,
		Key:       p.Key,
		Public:    p.Public,
		Peer:      p.Peer,
		PeerTLS:   p.PeerTLS,
		Clock:     p.Clock,
		Log:       p.Log,
	})
	s.remote.Background(s.background.tasks)
	buildAPI.AllowDebug(s.remote.CheckDebug)
	notifications := notifications.New(p.DB, p.Key, p.Public, p.Clock, p.Connections)
	oauth := oauth.New(p.DB, directory, p.Key, p.Public, p.Clock)
	builds.Background(s.background.tasks)
	retention.Background(s.background.tasks, p.Blobs, p.Clock)
	annotations.Background(s.background.tasks)
	s.logs.Background(s.background.tasks)
	s.agents.Background(s.background.tasks)
	stacks := stacks.New(stacks.Parts{
		DB:       p.DB,
		Builds:   builds,
		Timeline: timeline,
		Agents:   s.agents,
		Clusters: clusters,
		Bus:      s.background.bus,
		Public:   p.Public,
		Clock:    p.Clock,
		Log:      p.Log,
		Settings: p.Stacks,
	})
	stacks.Background(s.background.tasks)
	s.machines = machines.New(machines.Parts{
		DB: p.DB, Bus: s.background.bus, Agents: s.agents, Builds: builds, Images: s.images, Key: p.Key, Public: p.Public, Clock: p.Clock, Log: p.Log, Settings: p.Machines,
	})
	s.machines.Background(s.background.tasks)
	settings := settings.New(p.DB, p.Public, p.Clock)
	queueMetrics := queuemetrics.New(p.DB, clusters, settings, events, p.Public, p.Clock)
	queueMetrics.Background(s.background.tasks)
	buildexports.New(buildexports.Parts{
		DB:        p.DB,
		Directory: directory,
		BuildAPI:  buildAPI,
		Builds:    builds.Reader,
		Artifacts: artifacts,
		Logs:      s.logs,
		Settings:  settings,
		Events:    events,
		Clock:     p.Clock,
		Log:       p.Log,
	}).Background(s.background.tasks)
	events.Background(s.background.tasks)
	oauth.Background(s.background.tasks)
	organizations := organizations.New(p.DB, directory, p.Public, p.Clock, clusters.RemoveUser)
	suites := suites.New(p.DB, organizations, p.Key, p.Public, p.Clock)
	organizations.OnTeamsEnabled(suites.GrantAll)
	oidc := oidc.New(p.DB, s.agents, clusters, p.Key, p.Public, p.Clock)
	testResults := testresults.New(testresults.Parts{
		DB:        p.DB,
		Results:   results,
		Directory: directory,
		Suites:    suites,
		Pipelines: pipelines,
		Builds:    builds.Reader,
		Verify:    oidc.Verify,
		Public:    p.Public,
		Clock:     p.Clock,
		Log:       p.Log,
	})
	testResults.Background(s.background.tasks)
	buildAPI.ShowTestRuns(testResults.RunsOf)
	schedules := schedules.New(p.DB, pipelines, builds, events, p.Public, p.Clock, p.Log)
	schedules.Background(s.background.tasks)
	connections := connections.New(p.DB, p.Key, p.Public, p.Clock, outbound.New(p.OutboundAllow))
	if p.ResolveCommits > 0 {
		commits.New(p.DB, pipelines, builds, connections, outbound.New(p.OutboundAllow), p.ResolveCommits, p.Clock, p.Log).Background(s.background.tasks)
	}
	statuses := statuses.New(statuses.Parts{
		DB: p.DB, Directory: directory, Events: events, Builds: builds.Reader, Connections: connections, Clock: p.Clock, Log: p.Log,
	})
	statuses.Background(s.background.tasks)
	s.deliveries = delivery.New(delivery.Parts{
		DB:            p.DB,
		Directory:     directory,
		Events:        events,
		Receivers:     notifications,
		Organizations: organizations,
		Clusters:      clusters,
		Pipelines:     pipelines,
		Builds:        builds.Reader,
		BuildAPI:      buildAPI,
		Agents:        s.agents,
		Public:        p.Public,
		Clock:         p.Clock,
		Log:           p.Log,
		Version:       p.Version,
		OutboundAllow: p.OutboundAllow,
		Endpoints:     p.Endpoints,
	})
	s.deliveries.Background(s.background.tasks)
	auditTrail := auditapi.New(p.DB, p.Public, p.Clock)
	auditTrail.Background(s.background.tasks)
	hooks := hooks.New(p.DB, pipelines, builds, p.Public, p.Clock, p.Log)
	hooks.Background(s.background.tasks)
	s.pages = web.New(web.Config{
		Base:     pages.Config{DB: p.DB, Directory: directory, Accounts: s.accounts, Key: p.Key, Public: p.Public, Content: p.Content, Clock: p.Clock, Log: p.Log},
		OAuth:    oauth,
		Provider: p.Provider,
		Bus:      s.background.bus,
		Builds: buildpages.Config{
			Builds: builds, Artifacts: artifacts, Annotations: annotations, Logs: s.logs, Timeline: timeline, Deliveries: s.deliveries,
			Remote: s.remote, Download: jobAPI.DownloadURL, Open: jobAPI.OpenArtifact,
		},
		Pipelines:     pipelinepages.Config{Pipelines: pipelines, Builds: builds, BuildAPI: buildAPI, Schedules: schedules},
		Members:       organizations,
		Clusters:      clusterpages.Config{Builds: builds},
		Search:        searchpages.Config{Pipelines: pipelines, Builds: builds, Agents: s.agents},
		Organizations: orgpages.Config{Notifications: notifications, Deliveries: s.deliveries, Suites: suites, TestResults: testResults},
	})
	s.background.loops = append(s.background.loops, dispatcher.Run, s.agents.Run, stacks.Run, events.Run, s.images.Run, s.machines.Run, s.background.uses.Run)
	s.background.polls = append(s.background.polls, s.agents.FindLost, events.CatchUp)
	s.background.flushes = append(s.background.flushes, stacks.Flush, s.background.uses.Flush)
	return slices.Concat(
		organizations.Routes(),
		auditTrail.Routes(),
		clusters.Routes(),
		clusterrules.New(p.DB, p.Public, p.Clock).Routes(),
		pipelines.Routes(),
		schedules.Routes(),
		connections.Routes(),
		statuses.Routes(),
		buildAPI.Routes(),
		artifacts.Routes(),
		annotations.Routes(),
		timeline.Routes(),
		s.images.Routes(),
		s.remote.Routes(),
		s.agents.Routes(),
		jobAPI.Routes(),
		oidc.Routes(),
		s.logs.Routes(),
		stacks.Routes(),
		suites.Routes(),
		testResults.Routes(),
		oauth.Routes(),
		notifications.Routes(),
		settings.Routes(),
		queueMetrics.Routes(),
		s.deliveries.Routes(),
		hooks.Routes(),
		graphql.Routes(),
		s.pages.Routes(),
		route.DocsRoutes(),
	), nil
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Routes returns the route table.
func (s *Server) Routes() []route.Route { return s.handler.Routes() }

// DrainMachines makes the server unready, and waits until the jobs of hosted agents on it have ended or ctx ends.
// Requests are served meanwhile, since the agents need them.
func (s *Server) DrainMachines(ctx context.Context) {
	s.draining.Store(true)
	s.machines.Drain(ctx)
}

// Drain makes the server unready, so that load balancers send no more requests, and ends background work while
// requests finish.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.logs.Drain()
	s.pages.Drain()
	s.agents.Drain()
	s.remote.Drain()
	s.deliveries.Drain()
	s.images.Drain()
	go s.background.stopTasks()
}
