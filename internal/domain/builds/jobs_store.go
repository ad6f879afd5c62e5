package builds

import (
	"errors"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/plan"
)

const noJob = "No job found"

const selectJob = `SELECT` + flowJobColumns + `,
		j.organization_id, j.build_id, j.position, j.priority, j.queue_id, j.timeout_minutes,
		j.parallel_index, j.parallel_total, j.matrix, j.detail, j.created_at, j.scheduled_at, j.debug,
		ub.id, ub.email, ub.name, ub.created_at, ` + identity.UserColumns + `
	FROM jobs j
	LEFT JOIN users ub ON ub.id = j.unblocked_by
	LEFT JOIN users u ON u.id = j.retried_by`

func scanJob(scan db.Scan) (*Job, error) {
	j := &Job{}
	var unblockedBy, retriedBy identity.User
	dest := append(flowJobDest(&j.Job),
		&j.OrganizationID, &j.BuildID, &j.Position, &j.Priority, db.ToText(&j.QueueID), &j.Timeout,
		&j.ParallelIndex, &j.ParallelTotal, db.ToJSON(&j.Matrix), db.ToText(&j.Detail), db.ToTime(&j.CreatedAt), db.ToTime(&j.ScheduledAt), &j.Debug)
	dest = append(dest, identity.UserDest(&unblockedBy)...)
	err := scan(append(dest, identity.UserDest(&retriedBy)...)...)
	j.UnblockedBy, j.RetriedBy = unblockedBy.OrNil(), retriedBy.OrNil()
	return j, err
}

// JobByID returns a job of an organization with everything that it shows, or a NotFound error.
func JobByID(q *db.Q, orgID, id string) (*Job, error) {
	jobs, err := JobsByID(q, orgID, []string{id})
	if err == nil && len(jobs) == 0 {
		err = core.Errorf(core.NotFound, noJob)
	}
	if err != nil {
		return nil, err
	}
	return jobs[0], nil
}

// JobsByID returns those jobs of one build that exist, with everything that they show.
func JobsByID(q *db.Q, orgID string, ids []string) ([]*Job, error) {
	in, arg := q.In("j.id", 2, ids)
	jobs, err := db.All(q, scanJob, selectJob+`
	WHERE j.organization_id = $1 AND `+in, orgID, arg)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := describeJobs(q, jobs...); err != nil {
		return nil, err
	}
	unblocker, err := unblockerOf(q, jobs[0].BuildID)
	if err != nil {
		return nil, err
	}
	teams, err := TeamsOf(q, orgID, unblocker)
	if err != nil {
		return nil, err
	}
	uploads := map[string]map[string]string{"": nil}
	for _, j := range jobs {
		j.unblocker, j.unblockerTeams = unblocker, teams
		env, known := uploads[j.Work.Upload]
		if !known {
			if env, err = uploadEnv(q, j.BuildID, j.Work.Upload); err != nil {
				return nil, err
			}
			uploads[j.Work.Upload] = env
		}
		j.uploadEnv = env
	}
	return jobs, nil
}

// QueuesOf returns the queues of jobs by job. Jobs that no longer exist, and those without a queue, are left out.
func QueuesOf(q *db.Q, jobIDs []string) (map[string]string, error) {
	queues := make(map[string]string, len(jobIDs))
	if len(jobIDs) == 0 {
		return queues, nil
	}
	in, arg := q.In("id", 1, jobIDs)
	err := db.Each(q, func(scan db.Scan) error {
		var id, queue string
		err := scan(&id, &queue)
		queues[id] = queue
		return err
	}, `SELECT id, queue_id FROM jobs WHERE queue_id IS NOT NULL AND `+in, arg)
	return queues, err
}

// unblockerOf returns the last user who unblocked a job of a build, or nil.
func unblockerOf(q *db.Q, buildID string) (*identity.User, error) {
	u, err := db.One(q, identity.ScanUser, `
		SELECT `+identity.UserColumns+`
		FROM jobs j JOIN users u ON u.id = j.unblocked_by
		WHERE j.build_id = $1 AND j.unblocked_at IS NOT NULL
		ORDER BY j.unblocked_at DESC
		LIMIT 1`, buildID)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return u.OrNil(), err
}

// describeJobs loads what jobs show of their steps and of the builds that they triggered. It reads each step
// once.
func describeJobs(q *db.Q, jobs ...*Job) error {
	steps, err := describedSteps(q, jobs)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		s := steps[j.StepID]
		j.Step, j.Label, j.Work, j.StepWork = s.StepRef, s.label, s.work, s.work
		j.Step.Label = s.label
		if j.ParallelIndex != nil {
			j.Label = parallelLabel(s.label, *j.ParallelIndex, *j.ParallelTotal)
		}
	}
	if err := applyVariations(q, jobs); err != nil {
		return err
	}
	return describeChildren(q, jobs)
}

// parallelLabel returns the label of a job of a parallel step. %n is the index of the job from 0, %N from 1,
// and %t the number of jobs.
func parallelLabel(label string, index, total int) string {
	if !strings.Contains(label, "%") {
		return label
	}
	return strings.NewReplacer("%n", strconv.Itoa(index), "%N", strconv.Itoa(index+1), "%t", strconv.Itoa(total)).Replace(label)
}

type describedStep struct {
	StepRef
	label string
	work  plan.Work
}

func describedSteps(q *db.Q, jobs []*Job) (map[string]describedStep, error) {
	in, arg := q.In("s.id", 1, distinct(jobs, func(j *Job) string { return j.StepID }))
	steps, err := db.All(q, func(scan db.Scan) (s describedStep, err error) {
		var rules StepRules
		var kind definition.Kind
		err = scan(&s.ID, &kind, db.ToText(&s.Key), db.ToText(&s.GroupID), db.ToText(&s.GroupKey), db.ToText(&s.GroupLabel), db.ToJSON(&rules), &s.label, db.ToJSON(&s.work))
		s.Async, s.ManualRetry = rules.Async, manualRetry(kind, rules.Retry)
		return s, err
	}, `
		SELECT s.id, s.kind, s.key, g.id, g.key, gd.label, s.rules, d.label, d.work
		FROM steps s
		JOIN step_details d ON d.step_id = s.id
		LEFT JOIN steps g ON g.id = s.scope
		LEFT JOIN step_details gd ON gd.step_id = g.id
		WHERE `+in, arg)
	byID := make(map[string]describedStep, len(steps))
	for _, s := range steps {
		byID[s.ID] = s
	}
	return byID, err
}

// manualRetry says whether people can retry the jobs of a step.
func manualRetry(kind definition.Kind, rules definition.Retry) definition.ManualRetry {
	if kind == definition.KindCommand {
		return rules.Manual
	}
	return definition.ManualRetry{Allowed: true}
}

func describeChildren(q *db.Q, jobs []*Job) error {
	byID := make(map[string]*Job)
	for _, j := range jobs {
		if j.Work.Trigger != nil {
			byID[j.ID] = j
		}
	}
	if len(byID) == 0 {
		return nil
	}
	in, arg := q.In("b.triggered_by", 1, keys(byID))
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var child Link
		if err := scan(&id, &child.ID, &child.Number, &child.Slug); err != nil {
			return none, err
		}
		byID[id].Child = child
		return none, nil
	}, `
		SELECT b.triggered_by, b.id, b.number, p.slug
		FROM builds b
		JOIN pipelines p ON p.id = b.pipeline_id AND p.deleted_at IS NULL
		WHERE b.triggered_by IS NOT NULL AND `+in, arg)
	return err
}

// applyVariations gives the jobs of a matrix their own label and work.
func applyVariations(q *db.Q, jobs []*Job) error {
	byID := make(map[string]*Job)
	for _, j := range jobs {
		if j.Matrix != nil {
			byID[j.ID] = j
		}
	}
	if len(byID) == 0 {
		return nil
	}
	in, arg := q.In("job_id", 1, keys(byID))
	return db.Each(q, func(scan db.Scan) error {
		var id string
		var own plan.Variation
		if err := scan(&id, &own.Label, db.ToJSON(&own)); err != nil {
			return err
		}
		j := byID[id]
		j.Label, j.Work = own.Label, own.Apply(j.Work)
		return nil
	}, `SELECT job_id, label, work FROM job_details WHERE `+in, arg)
}
