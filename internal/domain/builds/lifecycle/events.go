package lifecycle

import (
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/events"
	"stackyard/internal/rules/flow"
)

// RecordEvents has state changes of builds and jobs written as events. Call it before the first change.
func (s *Service) RecordEvents(e *events.Service) { s.events = e }

// noteEvents notes the events of changes that were saved. The transaction writes them last.
func (u *unit) noteEvents(changes flow.Changes) error {
	before := u.noted
	u.noted = buildevents.OutlineOf(u.build)
	if u.then.events == nil {
		return nil
	}
	wanted, err := u.then.events.Wanted(u.q, u.build.OrganizationID)
	if err != nil || wanted == 0 {
		return err
	}
	list, err := buildevents.Of(u.q, wanted, buildevents.Change{Build: u.build, Before: before, Changes: changes, Promises: u.promises})
	u.then.happened = append(u.then.happened, list...)
	return err
}
