package buildevents

import (
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/notify"
	"stackyard/internal/rules/plan"
)

// CommitStatuses returns the contexts of the commit statuses that a build asks for and whose conditions hold, or that
// the step of an event's job does, and that step. A status without a context has the context "".
func CommitStatuses(q *db.Q, r *builds.Reader, org *identity.Organization, e events.Event) (contexts []string, step *builds.Step, err error) {
	var list any
	if e.JobID == "" {
		list, err = notifyOf(q, e.BuildID)
	} else {
		var j *builds.Job
		if j, err = builds.JobByID(q, e.OrganizationID, e.JobID); err == nil {
			list = j.StepWork.Attributes["notify"]
		}
		if err == nil && len(commitStatuses(list)) > 0 {
			step, err = builds.StepByName(q, e.BuildID, j.StepID)
		}
	}
	asked := commitStatuses(list)
	if err != nil || len(asked) == 0 {
		return nil, nil, err
	}
	context, err := notifyContext(q, r, org, e, step)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range asked {
		if n.Holds(context) && !slices.Contains(contexts, n.Target) {
			contexts = append(contexts, n.Target)
		}
	}
	return contexts, step, nil
}

// commitStatuses returns the notifications in a list that are commit statuses. Checks are shown as statuses, too.
func commitStatuses(list any) []notify.Notification {
	return slices.DeleteFunc(notify.Read(list), func(n notify.Notification) bool { return n.Kind != notify.CommitStatus && n.Kind != notify.Check })
}

// wantStatuses has the events of jobs written if a planned step asks for a commit status.
func wantStatuses(q *db.Q, orgID string, planned plan.Plan) error {
	for _, step := range planned.Steps {
		if list := step.Work.Attributes["notify"]; list != nil && len(commitStatuses(list)) > 0 {
			return events.AddWanted(q, connections.StatusConsumer, orgID, connections.JobStatusEvents)
		}
	}
	return nil
}
