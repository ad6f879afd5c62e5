package buildevents

import (
	"errors"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/condition"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/notify"
	"stackyard/internal/rules/plan"
)

// notifyConsumer wants the events that notifications of builds and steps follow on, in organizations that have any.
const notifyConsumer = "notify"

// Events that notifications of a build and of a step follow on.
var (
	buildNotifyEvents = events.NamesOf(events.BuildFailing, events.BuildFinished)
	stepNotifyEvents  = events.NamesOf(events.JobFinished)
)

// KeepNotify stores what a definition asks to be notified of about the whole build, after what others asked for, and
// has the events written that notifications of the build and of the planned steps follow on.
func KeepNotify(q *db.Q, b *builds.Build, defined *definition.Pipeline, planned plan.Plan) error {
	var wanted events.Names
	if list, _ := defined.Attributes["notify"].([]any); len(list) > 0 {
		wanted = buildNotifyEvents
		kept, err := notifyOf(q, b.ID)
		if err != nil {
			return err
		}
		kept = append(kept, list...)
		_, err = q.Exec(`
			INSERT INTO build_notify (build_id, items) VALUES ($1, $2)
			ON CONFLICT (build_id) DO UPDATE SET items = excluded.items`, b.ID, db.JSON(kept[:min(len(kept), notify.Max)]))
		if err != nil {
			return err
		}
	}
	for _, step := range planned.Steps {
		if step.Work.Attributes["notify"] != nil {
			wanted |= stepNotifyEvents
			break
		}
	}
	if err := wantStatuses(q, b.OrganizationID, planned); err != nil {
		return err
	}
	return events.AddWanted(q, notifyConsumer, b.OrganizationID, wanted)
}

// DropNotify removes what the uploaded steps of a build from a fork ask to be notified of: strangers wrote them, and
// notifications are sent with the credentials of the organization.
func DropNotify(defined *definition.Pipeline, planned plan.Plan) {
	delete(defined.Attributes, "notify")
	for _, step := range planned.Steps {
		delete(step.Work.Attributes, "notify")
	}
}

func notifyOf(q *db.Q, buildID string) (list []any, err error) {
	err = q.QueryRow(`SELECT items FROM build_notify WHERE build_id = $1`, buildID).Scan(db.ToJSON(&list))
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return list, err
}

// WantStepNotify has the events of an organization written that notifications of steps follow on.
func WantStepNotify(q *db.Q, orgID string) error {
	if err := events.AddWanted(q, connections.StatusConsumer, orgID, connections.JobStatusEvents); err != nil {
		return err
	}
	return events.AddWanted(q, notifyConsumer, orgID, stepNotifyEvents)
}

// NotifyEvents returns the events of an organization that notifications of its builds and steps follow on. Those of
// other organizations have no notifications.
func NotifyEvents(q *db.Q, orgID string) (events.Names, error) {
	return events.WantedBy(q, notifyConsumer, orgID)
}

// Notifications returns the notifications of an event whose conditions hold: those in the build's notify list and, for
// the last job of a step, those in the step's.
func Notifications(q *db.Q, r *builds.Reader, org *identity.Organization, e events.Event) ([]notify.Notification, error) {
	var list []any
	var step *builds.Step
	var err error
	switch {
	case e.BuildID == "": // an event of an agent or a pipeline
	case e.JobID == "" && buildNotifyEvents.Has(e.Name):
		list, err = notifyOf(q, e.BuildID)
	case stepNotifyEvents.Has(e.Name):
		step, err = endedStep(q, e)
		if step != nil {
			list, _ = step.Work.Attributes["notify"].([]any)
		}
	}
	if err != nil || len(list) == 0 {
		return nil, err
	}
	context, err := notifyContext(q, r, org, e, step)
	if err != nil {
		return nil, err
	}
	var matching []notify.Notification
	for _, n := range notify.Read(list) {
		if n.Holds(context) {
			matching = append(matching, n)
		}
	}
	return matching, nil
}

// endedStep returns the step that the job of an event was the last to end; nil if others have not ended, or ended
// later.
func endedStep(q *db.Q, e events.Event) (*builds.Step, error) {
	j, err := builds.JobByID(q, e.OrganizationID, e.JobID)
	if core.KindOf(err) == core.NotFound {
		return nil, nil
	}
	if err != nil || j.StepWork.Attributes["notify"] == nil || e.Facts.Job == nil || e.Facts.Job.Retried {
		return nil, err
	}
	if ended, err := builds.StepMayHaveEndedWith(q, j); err != nil || !ended {
		return nil, err
	}
	jobs, err := builds.JobsOfStep(q, j.StepID)
	if err != nil {
		return nil, err
	}
	last := &j.Job
	for _, other := range jobs {
		if !other.State.Ended() {
			return nil, nil
		}
		if after := other.FinishedAt.Compare(last.FinishedAt); after > 0 || after == 0 && other.ID > last.ID {
			last = other
		}
	}
	if last.ID != j.ID {
		return nil, nil
	}
	return builds.StepByName(q, e.BuildID, j.StepID)
}

// notifyContext returns what the conditions of notifications of an event refer to.
func notifyContext(q *db.Q, r *builds.Reader, org *identity.Organization, e events.Event, step *builds.Step) (*condition.Context, error) {
	b, err := builds.ByID(q, org.ID, e.BuildID)
	if err != nil {
		return nil, err
	}
	AsOf(e.Facts, b, nil)
	p, err := pipelines.ByID(q, pipelines.System(org.ID), b.PipelineID)
	if err != nil {
		return nil, err
	}
	teams, err := builds.TeamsOf(q, org.ID, b.Creator)
	if err != nil {
		return nil, err
	}
	c := b.Context(org, p, teams, r.Variables(org, p, b))
	if b.Blocked() {
		c.Build.State = string(flow.BuildBlocked)
	}
	if step != nil {
		c.Step = &condition.Step{ID: step.ID, Key: core.OrNull(step.Key), Label: core.OrNull(step.Label), Type: string(step.Type), State: string(step.State), Outcome: string(step.Outcome)}
		return c, nil
	}
	failedBefore, err := previousFailed(q, b)
	passing, failing := b.State == flow.BuildPassed && failedBefore, b.State == flow.BuildFailed && !failedBefore
	c.Pipeline.StartedPassing, c.Pipeline.StartedFailing = &passing, &failing
	return c, err
}
