package settings

import (
	"context"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// Service reads and changes pipeline settings.
type Service struct {
	db     *db.DB
	public core.PublicURL
	clock  core.Clock

	onChange []func(q *db.Q, orgID string, set Settings) error
}

// New returns a Service.
func New(d *db.DB, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, public: public, clock: clock}
}

// OnChange registers fn to run in the transaction of every change, with the new settings. Call it before the first
// request.
func (s *Service) OnChange(fn func(q *db.Q, orgID string, set Settings) error) {
	s.onChange = append(s.onChange, fn)
}

// load returns the settings of an organization.
func (s *Service) load(ctx context.Context, orgID string) (set Settings, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		set, err = Of(q, orgID)
		return err
	})
	return set, err
}

// change applies fn to the settings of an organization and returns the result. It locks the organization, so
// that each change sees the one before.
func (s *Service) change(ctx context.Context, orgID string, fn func(q *db.Q, set *Settings) error) (set Settings, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		if err := q.Lock("organizations", orgID); err != nil {
			return err
		}
		if set, err = Of(q, orgID); err != nil {
			return err
		}
		if err := fn(q, &set); err != nil {
			return err
		}
		if err := save(q, orgID, set); err != nil {
			return err
		}
		for _, react := range s.onChange {
			if err := react(q, orgID, set); err != nil {
				return err
			}
		}
		return nil
	})
	return set, err
}

// update changes the fields that were sent: all of them, or none if one is invalid.
func (s *Service) update(ctx context.Context, orgID string, sent pipelineSettingsUpdate) (Settings, error) {
	return s.change(ctx, orgID, func(q *db.Q, set *Settings) error {
		before := set.ScheduledJobExpiry
		if err := sent.applyTo(q, orgID, set); err != nil || set.ScheduledJobExpiry == before {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: ExpiryChanged, Key: orgID, RunAt: s.clock()})
	})
}

// A switchSelector selects one switch of the settings.
type switchSelector func(*Settings) *Switch

// turnOn enables a switch. If it is enabled already, the first user and time are kept.
func (s *Service) turnOn(ctx context.Context, orgID string, selectSwitch switchSelector, by Person) (Settings, error) {
	return s.change(ctx, orgID, func(_ *db.Q, set *Settings) error {
		selectSwitch(set).enable(by, s.clock())
		return nil
	})
}

// turnOff disables a switch.
func (s *Service) turnOff(ctx context.Context, orgID string, selectSwitch switchSelector) (Settings, error) {
	return s.change(ctx, orgID, func(_ *db.Q, set *Settings) error {
		selectSwitch(set).disable()
		return nil
	})
}

// startExport enables the export of builds to a destination after checking that the bucket can be used.
func (s *Service) startExport(ctx context.Context, orgID string, to Destination) (Settings, error) {
	// An object store can be slow, so it is checked before the transaction.
	if err := blob.CheckBucket(ctx, to.Strategy, to.Location); err != nil {
		var problems core.Problems
		problems.Add("location", "could not be validated: %s", err)
		return Settings{}, problems.Err()
	}
	return s.setExport(ctx, orgID, to)
}

// stopExport disables the export of builds.
func (s *Service) stopExport(ctx context.Context, orgID string) (Settings, error) {
	return s.setExport(ctx, orgID, Destination{})
}

func (s *Service) setExport(ctx context.Context, orgID string, to Destination) (Settings, error) {
	return s.change(ctx, orgID, func(_ *db.Q, set *Settings) error {
		set.BuildExport = to
		return nil
	})
}
