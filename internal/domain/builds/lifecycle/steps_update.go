package lifecycle

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// A StepUpdate changes one attribute of a step.
type StepUpdate struct {
	ID        string // a UUID from the caller; an update is applied once per id
	Attribute string
	Value     string
	Append    bool // append to the current value
}

const (
	maxLabel  = 1_000 // characters of a label
	maxNotify = 100   // notifications of a step
	// updatesKept is how long the ids of updates are kept, much longer than callers retry.
	updatesKept = time.Hour
)

// UpdateStep changes a step of a build, named by its id or its key.
func (s *Service) UpdateStep(ctx context.Context, orgID, buildID, name string, update StepUpdate) error {
	id, ok := core.ParseID(update.ID)
	if !ok {
		return core.Errorf(core.Unprocessable, "The idempotency_uuid of an update must be a UUID")
	}
	update.ID = id
	return s.change(ctx, orgID, buildID, func(u *unit) error {
		step, err := builds.StepByName(u.q, buildID, name)
		if err != nil {
			return err
		}
		u.touched = true
		known, err := u.noteUpdate(update)
		if err != nil || known {
			return err
		}
		switch update.Attribute {
		case "label":
			return u.setLabel(step, update)
		case "notify":
			return u.setNotify(step, update)
		case "priority":
			return u.setPriority(step, update)
		}
		return core.Errorf(core.Unprocessable, "The attribute %q of a step cannot be changed; label, notify and priority can", update.Attribute)
	})
}

// noteUpdate records the id of an update that appends, and reports whether it was recorded before. Updates that
// replace can be repeated.
func (u *unit) noteUpdate(update StepUpdate) (known bool, err error) {
	if !update.Append {
		return false, nil
	}
	if _, err := u.q.Exec(`DELETE FROM step_updates WHERE build_id = $1 AND created_at < $2`, u.build.ID, db.Micros(u.now.Add(-updatesKept))); err != nil {
		return false, err
	}
	n, err := u.q.Exec(`INSERT INTO step_updates (build_id, id, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, u.build.ID, update.ID, db.Micros(u.now))
	return n == 0, err
}

func (u *unit) setLabel(step *builds.Step, update StepUpdate) error {
	label := update.Value
	if update.Append {
		label = step.Label + label
	}
	label = strings.TrimSpace(label)
	if n := len([]rune(label)); n > maxLabel {
		return core.Errorf(core.Unprocessable, "The label of a step can have %d characters, not %d", maxLabel, n)
	}
	_, err := u.q.Exec(`UPDATE step_details SET label = $2 WHERE step_id = $1`, step.ID, label)
	return err
}

func (u *unit) setNotify(step *builds.Step, update StepUpdate) error {
	if u.build.MarkedFork() {
		return core.Errorf(core.Forbidden, "Jobs of builds from forks cannot change notify")
	}
	list, err := readNotify(update.Value)
	if err != nil {
		return err
	}
	if had, ok := step.Work.Attributes["notify"].([]any); ok && update.Append {
		list = append(had, list...)
	}
	if len(list) > maxNotify {
		return core.Errorf(core.Unprocessable, "A step can have %d notifications, not %d", maxNotify, len(list))
	}
	if step.Work.Attributes == nil {
		step.Work.Attributes = map[string]any{}
	}
	step.Work.Attributes["notify"] = list
	if _, err = u.q.Exec(`UPDATE step_details SET work = $2 WHERE step_id = $1`, step.ID, db.JSON(step.Work)); err != nil {
		return err
	}
	return buildevents.WantStepNotify(u.q, u.build.OrganizationID)
}

// readNotify parses notifications with the checks of definitions.
func readNotify(value string) ([]any, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, core.Errorf(core.Unprocessable, "notify must be a JSON list of notifications")
	}
	source, err := json.Marshal(map[string]any{"steps": []any{map[string]any{"command": "true", "notify": list}}})
	if err != nil {
		return nil, err
	}
	defined, err := readUpload(source)
	if err != nil {
		return nil, err
	}
	notify, _ := defined.Steps[0].Attributes["notify"].([]any)
	return notify, nil
}

func (u *unit) setPriority(step *builds.Step, update StepUpdate) error {
	priority, err := strconv.ParseInt(strings.TrimSpace(update.Value), 10, 32)
	if err != nil || update.Append {
		return core.Errorf(core.Unprocessable, "The priority of a step is replaced by an integer")
	}
	if step.Type != definition.KindCommand {
		return core.Errorf(core.Unprocessable, "Only command steps have a priority")
	}
	jobs, err := builds.JobsOfStep(u.q, step.ID)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.State.Ended() || j.State.Held() {
			continue // it has started already
		}
		if err := reprioritize(u.q, u.build.OrganizationID, j.ID, int(priority)); err != nil {
			return err
		}
	}
	return nil
}

// CancelStep cancels all unfinished jobs of a step and returns the step's id. With force, jobs end after the
// grace period even if their agents have not stopped them.
func (s *Service) CancelStep(ctx context.Context, orgID, buildID, name string, force bool, grace time.Duration) (id string, err error) {
	err = s.change(ctx, orgID, buildID, func(u *unit) error {
		step, err := builds.FlowStepByName(u.q, buildID, name)
		if err != nil {
			return err
		}
		id = step.ID
		if force {
			u.grace = min(grace, stopGrace)
		}
		jobs, err := builds.JobsOfStep(u.q, step.ID)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := u.cancelOrHasten(j); err != nil {
				return err
			}
		}
		return nil
	})
	return id, err
}

// cancelOrHasten cancels a job. If it is already being stopped, it ends within the unit's grace period.
func (u *unit) cancelOrHasten(j *flow.Job) error {
	if j.State == flow.Canceling || j.State == flow.TimingOut {
		at := u.now.Add(u.grace)
		u.timer.Due(at)
		_, err := u.q.Exec(`UPDATE jobs SET deadline_at = $2 WHERE id = $1 AND (deadline_at IS NULL OR deadline_at > $2)`, j.ID, db.Micros(at))
		return err
	}
	err := u.run.CancelJob(j.ID)
	if core.KindOf(err) == core.Unprocessable {
		return nil // it has ended, maybe because a job before it was canceled
	}
	return err
}
