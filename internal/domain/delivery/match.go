package delivery

import (
	"context"
	"slices"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
)

// An openReceiver is a receiver with its settings in the clear and its provider.
type openReceiver struct {
	*notifications.Receiver
	settings notifications.Settings
	provider *Provider
}

// match returns a function that writes the deliveries of a batch of events.
func (s *Service) match(ctx context.Context, batch []events.Event) (commit func(q *db.Q) error, err error) {
	var list []*Delivery
	byOrg := map[string][]events.Event{}
	for _, e := range batch {
		byOrg[e.OrganizationID] = append(byOrg[e.OrganizationID], e)
	}
	err = s.DB.Read(ctx, func(q *db.Q) error {
		list = nil
		for orgID, happened := range byOrg {
			matched, err := s.matchOrganization(q, orgID, happened)
			if err != nil {
				return err
			}
			list = append(list, matched...)
		}
		return nil
	})
	return func(q *db.Q) error { return s.enqueue(q, list) }, err
}

// matchOrganization returns the deliveries of events of one organization: those that pipelines and steps ask for, and
// those that receivers want, in the order of the events.
func (s *Service) matchOrganization(q *db.Q, orgID string, happened []events.Event) (list []*Delivery, err error) {
	receivers, err := s.enabled(q, orgID)
	if err != nil {
		return nil, err
	}
	teams, err := teamsOf(q, orgID, receivers, happened)
	if err != nil {
		return nil, err
	}
	list, err = s.askedFor(q, orgID, happened, receivers, teams)
	if err != nil || len(receivers) == 0 {
		return list, err
	}
	now := s.Clock()
	for _, e := range happened {
		target := targetOf(e, teams)
		for _, r := range receivers {
			if r.provider.pushes() && r.covers(e, target) {
				list = append(list, newDelivery(orgID, r.ID, e, now))
			}
		}
	}
	return list, nil
}

// targetOf returns the subject of an event. teams are those of pipelines.
func targetOf(e events.Event, teams map[string][]string) notifications.Target {
	return notifications.Target{PipelineID: e.PipelineID, TeamIDs: teams[e.PipelineID], ClusterID: e.ClusterID}
}

// covers reports whether a receiver wants an event about a target.
func (r openReceiver) covers(e events.Event, target notifications.Target) bool {
	return r.provider.wants(r, e) && (e.BuildID == "" || r.Branches.Match(e.Branch)) && r.Covers(target)
}

// enabled returns the receivers of an organization that are sent to and whose provider is known here.
func (s *Service) enabled(q *db.Q, orgID string) ([]openReceiver, error) {
	found, err := notifications.Enabled(q, orgID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	org, err := identity.OrganizationByID(q, orgID)
	if err != nil {
		return nil, err
	}
	var open []openReceiver
	for _, r := range found {
		one, ok, err := s.open(r, org.Features)
		if err != nil {
			// One receiver whose settings cannot be read does not keep events from the others.
			s.Log.Error("open notification service failed", "service", r.ID, "error", err)
			continue
		}
		if ok {
			open = append(open, one)
		}
	}
	return open, nil
}

// open returns a receiver with its settings, and whether its provider is known here and available to organizations
// with these features.
func (s *Service) open(r *notifications.Receiver, f identity.Features) (one openReceiver, ok bool, err error) {
	provider := providers[r.Provider.ID]
	if provider == nil || !r.Provider.Available(f) {
		return openReceiver{}, false, nil
	}
	settings, err := s.Receivers.Settings(r, f)
	return openReceiver{r, settings, provider}, err == nil, err
}

// teamsOf returns the teams with access to the pipelines of events, by pipeline, if a receiver selects by team.
func teamsOf(q *db.Q, orgID string, receivers []openReceiver, happened []events.Event) (map[string][]string, error) {
	byTeam := func(r openReceiver) bool { return r.Scope == notifications.SomeTeams }
	if !slices.ContainsFunc(receivers, byTeam) {
		return nil, nil
	}
	var ids []string
	for _, e := range happened {
		if e.PipelineID != "" && !slices.Contains(ids, e.PipelineID) {
			ids = append(ids, e.PipelineID)
		}
	}
	return organizations.TeamsOfPipelines(q, orgID, ids)
}

// enqueue writes deliveries and has them sent. A receiver that is given a rest is left alone until it ends.
func (s *Service) enqueue(q *db.Q, list []*Delivery) error {
	if len(list) == 0 {
		return nil
	}
	if err := insert(q, list...); err != nil {
		return err
	}
	first := map[string]*Delivery{} // by receiver
	var ids []string
	for _, d := range list {
		if first[d.ReceiverID] == nil {
			ids = append(ids, d.ReceiverID)
			first[d.ReceiverID] = d
		}
	}
	rests, err := restsUntil(q, ids)
	if err != nil {
		return err
	}
	now := s.Clock()
	due := make([]tasks.Task, len(ids))
	for i, id := range ids {
		at := now
		if rests[id].After(now) {
			at = rests[id]
		}
		due[i] = first[id].task(at)
	}
	return tasks.Add(q, due...)
}
