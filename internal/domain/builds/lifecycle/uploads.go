package lifecycle

import (
	"context"
	"errors"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

const (
	// maxJobs bounds the jobs of a build, without retried attempts.
	maxJobs = 4_000
	// maxUploads bounds the uploads of a build, including rejected ones.
	maxUploads = 2_000
)

// An Upload is a list of steps that a running job adds to its build.
type Upload struct {
	ID         string // a UUID from the caller
	Definition []byte // YAML or JSON, with interpolated variables
	Replace    bool   // the new steps replace all steps that have not started
}

// Upload adds steps to the build of a running job, all or none. The error lists every problem with the
// definition. An upload with a known id changes nothing and returns its first result, including a rejection, so
// that callers can retry.
func (s *Service) Upload(ctx context.Context, orgID, jobID string, up Upload) (*builds.StepUpload, error) {
	id, ok := core.ParseID(up.ID)
	if !ok {
		return nil, core.Errorf(core.Unprocessable, "The id of an upload must be a UUID")
	}
	up.ID = id
	defined, unreadable := readUpload(up.Definition)
	var done *builds.StepUpload
	err := s.onJob(ctx, orgID, jobID, func(u *unit) (err error) {
		done, err = builds.UploadByID(u.q, u.build.ID, up.ID)
		if core.KindOf(err) != core.NotFound {
			return err // nil if it is known
		}
		if err := u.checkUploads(); err != nil {
			return err
		}
		if unreadable != nil {
			return unreadable
		}
		done, err = s.addSteps(u, jobID, up, defined)
		return err
	})
	if core.KindOf(err) == core.Unprocessable && !errors.Is(err, errTooManyUploads) {
		if err := s.reject(ctx, orgID, jobID, up, err, unreadable != nil); err != nil {
			return nil, err
		}
	}
	switch {
	case err != nil:
		return nil, err
	case done.JobID != jobID:
		return nil, core.Errorf(core.Unprocessable, "Another job of the build has an upload with this id")
	case done.State == builds.UploadRejected:
		return nil, core.Errorf(core.Unprocessable, "%s", done.Message)
	}
	return done, nil
}

var errTooManyUploads = core.Errorf(core.Unprocessable, "The build has %d step uploads, which is the maximum", maxUploads)

// checkUploads returns an error if the build has the maximum number of uploads.
func (u *unit) checkUploads() error {
	var n int
	err := u.q.QueryRow(`SELECT COUNT(*) FROM step_uploads WHERE build_id = $1`, u.build.ID).Scan(&n)
	if err == nil && n >= maxUploads {
		return errTooManyUploads
	}
	return err
}

// readUpload parses a definition without interpolation.
func readUpload(source []byte) (*definition.Pipeline, error) {
	defined, err := definition.ParseWith(source, nil)
	wrong, ok := errors.AsType[definition.Errors](err)
	if !ok {
		return defined, err
	}
	lines := make([]string, len(wrong))
	for i, problem := range wrong {
		lines[i] = problem.String()
	}
	return nil, core.Errorf(core.Unprocessable, "The steps cannot be read: %s", strings.Join(lines, "; "))
}

// addSteps adds the steps of an upload to the build and stores its result.
func (s *Service) addSteps(u *unit, jobID string, up Upload, defined *definition.Pipeline) (*builds.StepUpload, error) {
	p, err := s.plannerOf(u, defined)
	if err != nil {
		return nil, err
	}
	if len(defined.Env) > 0 {
		p.Upload = up.ID
	}
	if u.plan, err = p.Plan(defined.Steps); err != nil {
		return nil, err
	}
	if u.build.MarkedFork() {
		buildevents.DropNotify(defined, u.plan)
	}
	if err := buildevents.KeepNotify(u.q, u.build, defined, u.plan); err != nil {
		return nil, err
	}
	made := len(u.plan.Jobs)
	if all := u.build.Counts.Jobs() + made; all > maxJobs {
		return nil, core.Errorf(core.Unprocessable, "With these steps the build would have %d jobs; %d are the most", all, maxJobs)
	}
	if err := u.joinGroup(jobID); err != nil {
		return nil, err
	}
	if err := u.run.AddSteps(jobID, u.plan.Specs, up.Replace); err != nil {
		return nil, err
	}
	done := up.result(u.build.ID, jobID, u.now)
	done.State, done.CreatedJobs = builds.UploadApplied, &made
	return done, insertUpload(u.q, done, defined.Env.Map())
}

// plannerOf returns a planner for more steps of a build.
func (s *Service) plannerOf(u *unit, defined *definition.Pipeline) (*plan.Planner, error) {
	b := u.build
	org, err := identity.OrganizationByID(u.q, b.OrganizationID)
	if err != nil {
		return nil, err
	}
	p, err := pipelines.ByID(u.q, pipelines.System(org.ID), b.PipelineID)
	if err != nil {
		return nil, err
	}
	set, err := settings.Of(u.q, org.ID)
	if err != nil {
		return nil, err
	}
	cluster, err := clusters.ByID(u.q, org.ID, b.ClusterID)
	if core.KindOf(err) == core.NotFound {
		return nil, core.Errorf(core.Unprocessable, "The cluster of the build was deleted, so no agent can run more steps")
	}
	if err != nil {
		return nil, err
	}
	queues, err := clusters.QueueIDs(u.q, cluster)
	if err != nil {
		return nil, err
	}
	teams, err := builds.TeamsOf(u.q, org.ID, b.Creator)
	planner := newPlanner(b, p, set, defined, queues)
	planner.Context = b.Context(org, p, teams, s.Variables(org, p, b))
	return planner, err
}

// joinGroup adds the steps of the first group to the group of the uploading job, if both have the same label.
func (u *unit) joinGroup(jobID string) error {
	first := &u.plan.Specs[0]
	if first.Step.Kind != definition.KindGroup {
		return nil
	}
	id, label, err := groupOf(u.q, jobID)
	if err == nil && id != "" && label == u.plan.Steps[first.Step.ID].Label {
		delete(u.plan.Steps, first.Step.ID)
		*first = flow.Spec{Into: id, Members: first.Members, DependsOn: first.DependsOn}
	}
	return err
}

// reject stores that an upload was rejected, and why.
func (s *Service) reject(ctx context.Context, orgID, jobID string, up Upload, why error, unreadable bool) error {
	return s.onJob(ctx, orgID, jobID, func(u *unit) error {
		done := up.result(u.build.ID, jobID, u.now)
		done.State, done.Rejection, done.Message = builds.UploadRejected, builds.RefusedSteps, storable(why.Error())
		if unreadable {
			done.Rejection = builds.InvalidDefinition
		}
		return insertUpload(u.q, done, nil)
	})
}

// result returns the result of an upload without its state.
func (up Upload) result(buildID, jobID string, now time.Time) *builds.StepUpload {
	done := &builds.StepUpload{
		ID:        up.ID,
		BuildID:   buildID,
		JobID:     jobID,
		Replace:   up.Replace,
		Bytes:     len(up.Definition),
		CreatedAt: now,
		Sequence:  core.NewID(),
	}
	if len(up.Definition) <= builds.MaxKept {
		done.Definition = storable(string(up.Definition))
	}
	return done
}

// storable removes characters that databases cannot store. Only definitions that cannot be parsed have any.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd")
}

// insertUpload adds an upload with the variables of its definition, unless it exists.
func insertUpload(q *db.Q, u *builds.StepUpload, env map[string]string) error {
	_, err := q.Exec(`
		INSERT INTO step_uploads (build_id, id, job_id, sequence, state, replaces, created_jobs, rejection, message, bytes, definition, env, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (build_id, id) DO NOTHING`,
		u.BuildID, u.ID, u.JobID, u.Sequence, u.State, u.Replace, number(u.CreatedJobs), db.Text(string(u.Rejection)), db.Text(u.Message), u.Bytes,
		db.Text(u.Definition), db.JSON(env), db.Micros(u.CreatedAt))
	return err
}

// groupOf returns the id and the label of the group of a job's step, "" when it is in none.
func groupOf(q *db.Q, jobID string) (id, label string, err error) {
	err = q.QueryRow(`
		SELECT g.id, d.label
		FROM jobs j
		JOIN steps s ON s.id = j.step_id
		JOIN steps g ON g.id = s.scope
		JOIN step_details d ON d.step_id = g.id
		WHERE j.id = $1`, jobID).Scan(&id, &label)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return id, label, err
}
