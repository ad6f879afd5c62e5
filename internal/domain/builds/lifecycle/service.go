package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/lru"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// Service creates and changes builds and jobs. It also reads them.
type Service struct {
	*builds.Reader
	db       *db.DB
	clock    core.Clock
	log      *slog.Logger
	effects  []effect
	metrics  *metrics        // nil: nothing is measured
	events   *events.Service // nil: events are not recorded
	updates  updateQueues
	buildIDs *lru.Cache[jobOf, string]
	kept     *lru.Cache[string, *keptBuild]
	sites    *db.Cached[siteKey, site]
	teams    *db.Cached[teamsKey, []string]

	deadlines *tasks.Timer // nil: another service passes deadlines

	commits CommitFinder // zero: commits are not resolved
}

// New returns the service of the builds in a database.
func New(d *db.DB, p *pipelines.Service, public core.PublicURL, clock core.Clock, log *slog.Logger) *Service {
	return &Service{Reader: builds.NewReader(d, p, public), db: d, clock: clock, log: log, effects: ownEffects(),
		buildIDs: lru.New[jobOf, string](maxCachedBuildIDs), kept: lru.New[string, *keptBuild](maxKeptBuilds),
		sites: newSites(d), teams: db.NewCached[teamsKey, []string](d, maxSites, "teams", "team_members", "users", "memberships")}
}

// maxTries bounds the attempts of a unit of work whose jobs change state meanwhile.
const maxTries = 20

// write runs fn in a transaction and saves its follow-ups.
func (s *Service) write(ctx context.Context, fn func(q *db.Q, then *followUps) error) error {
	err := errMoved
	for try := 0; errors.Is(err, errMoved) && try < maxTries; try++ {
		err = s.db.Write(ctx, func(q *db.Q) error {
			then := &followUps{events: s.events}
			if err := fn(q, then); err != nil {
				return err
			}
			return then.save(q, s.clock())
		})
	}
	return refused(err)
}

// refused converts errors of flow about job states, and errMoved, to errors for the caller.
func refused(err error) error {
	if errors.Is(err, errMoved) {
		return busy(err)
	}
	if move, ok := errors.AsType[*flow.MoveError](err); ok {
		return core.Errorf(core.Unprocessable, "The job is %s, so it cannot become %s", move.From, move.To)
	}
	return err
}

// busy returns the error of a build that cannot be changed at the moment.
func busy(cause error) error {
	return fmt.Errorf("%w: %w", &core.Error{Kind: core.Unavailable, Message: "The build is busy; try again.", RetryAfter: 1}, cause)
}

// change runs one unit of work on a build.
func (s *Service) change(ctx context.Context, orgID, buildID string, fn func(u *unit) error) error {
	s.kept.Take(buildID) // it will be stale
	return s.write(ctx, func(q *db.Q, then *followUps) error {
		u, err := s.open(q, orgID, buildID, then)
		if err != nil {
			return err
		}
		if err := fn(u); err != nil {
			return err
		}
		return u.close()
	})
}
