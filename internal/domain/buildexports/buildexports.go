// Package buildexports writes finished builds with their jobs, logs and artifact index to the bucket that an
// organization names in its pipeline settings.
//
// The event that a build has finished adds a row in the transaction that moves the consumer's cursor, and the row stays
// until all files of the build are in the bucket (store.go), so no build is lost when the server stops. Each organization
// has one task, which exports the builds that are due (run.go): a bucket that does not respond delays no other
// organization. The files of a build have the same keys in each attempt, and the manifest comes last (export.go), so a
// repeated attempt changes nothing for readers.
//
// A build is exported some minutes after it finished, when its agents can no longer send output. A build that finishes
// again, because jobs were retried, is exported again.
package buildexports

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// Parts are the dependencies of a Service.
type Parts struct {
	DB        *db.DB
	Directory *identity.Directory
	Builds    *builds.Reader
	BuildAPI  *buildapi.Service
	Artifacts *artifacts.Service
	Logs      *joblog.Service
	Settings  *settings.Service
	Events    *events.Service
	Clock     core.Clock
	Log       *slog.Logger
}

// Service exports builds.
type Service struct{ Parts }

const (
	// consumer is the name of the cursor.
	consumer = "build-exports"
	// gap is the least time between two looks for events: exports begin minutes later.
	gap = 5 * time.Second
)

// exportDelay is how long after its end a build is exported: agents can send output of ended jobs for five minutes.
const exportDelay = 6 * time.Minute

// New returns a Service that consumes events of the organizations whose settings have a destination.
func New(p Parts) *Service {
	s := &Service{p}
	p.Settings.OnChange(s.settingsChanged)
	p.Events.Consume(events.Consumer{Name: consumer, Gap: gap, Names: events.NamesOf(events.BuildFinished), Process: s.process})
	return s
}

// settingsChanged has events written for an organization that exports builds. Builds that wait are tried at once: the
// destination may work now, or there may be none any more.
func (s *Service) settingsChanged(q *db.Q, orgID string, set settings.Settings) error {
	var names events.Names
	if set.BuildExport != (settings.Destination{}) {
		names = events.NamesOf(events.BuildFinished)
	}
	if err := events.SetWanted(q, consumer, orgID, names); err != nil {
		return err
	}
	next, err := nextRun(q, orgID)
	if err != nil || next.IsZero() {
		return err
	}
	return tasks.Add(q, tasks.Task{Kind: exportTask, Key: orgID, RunAt: s.Clock()})
}

// process adds the builds that have ended.
func (s *Service) process(ctx context.Context, batch []events.Event) (func(*db.Q) error, error) {
	exported := map[string]bool{} // by organization
	ended := map[string]pending{} // by build
	for _, e := range batch {
		if e.Name != events.BuildFinished || e.Facts.Build == nil || !e.Facts.Build.State.Ended() {
			continue // this event is also written for blocked builds
		}
		if _, known := exported[e.OrganizationID]; !known {
			_, to, err := s.destination(ctx, e.OrganizationID)
			if err != nil {
				return nil, err
			}
			exported[e.OrganizationID] = to != settings.Destination{}
		}
		if exported[e.OrganizationID] {
			ended[e.BuildID] = pending{buildID: e.BuildID, orgID: e.OrganizationID, event: e.Seq, nextAt: e.CreatedAt.Add(exportDelay), createdAt: e.CreatedAt}
		}
	}
	list := slices.SortedFunc(maps.Values(ended), func(a, b pending) int { return int(a.event - b.event) })
	return func(q *db.Q) error { return enqueue(q, list) }, nil
}

// destination returns an organization and where its builds go, the zero value if they are not exported.
func (s *Service) destination(ctx context.Context, orgID string) (org *identity.Organization, to settings.Destination, err error) {
	org, err = s.Directory.OrganizationByID(ctx, orgID)
	if core.KindOf(err) == core.NotFound {
		return nil, to, nil
	}
	if err != nil || !org.Features.BuildExports {
		return org, to, err
	}
	err = s.DB.Read(ctx, func(q *db.Q) error {
		set, err := settings.Of(q, orgID)
		to = set.BuildExport
		return err
	})
	return org, to, err
}
