package lifecycle

import (
	"fmt"
	"maps"
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// save writes the changes of a unit of work. Many jobs and steps of large builds change alike, so rows that get
// the same values are written with one statement.
func (u *unit) save(changes flow.Changes) error {
	if err := u.updateBuild(changes); err != nil {
		return err
	}
	if err := u.freeKeys(changes); err != nil {
		return err
	}
	if err := u.insertSteps(changes.NewSteps); err != nil {
		return err
	}
	if err := u.insertEdges(changes.NewEdges); err != nil {
		return err
	}
	for _, e := range changes.Resolved {
		if err := resolveEdge(u.q, e); err != nil {
			return err
		}
	}
	if err := u.insertJobs(changes.Jobs); err != nil {
		return err
	}
	if err := u.updateSteps(changes.Steps); err != nil {
		return err
	}
	if err := u.updateJobs(changes.Jobs); err != nil {
		return err
	}
	if err := u.saveDetails(); err != nil {
		return err
	}
	if err := u.applyEffects(changes.Jobs); err != nil {
		return err
	}
	return u.noteEvents(changes)
}

// freeKeys marks steps as replaced before new steps with the same keys are inserted.
func (u *unit) freeKeys(changes flow.Changes) error {
	var replaced []string
	for _, s := range changes.Steps {
		if s.Replaced && s.Key != "" && len(changes.NewSteps) > 0 {
			replaced = append(replaced, s.ID)
		}
	}
	if len(replaced) == 0 {
		return nil
	}
	in, ids := u.q.In("id", 1, replaced)
	_, err := u.q.Exec(`UPDATE steps SET replaced = TRUE WHERE `+in, ids)
	return err
}

func (u *unit) insertSteps(steps []*flow.Step) error {
	err := db.InsertLater(u.q, `
		INSERT INTO steps (id, build_id, kind, key, position, rules, concurrency_group, cancel_on_failing, scope, barrier, tally,
			uploads, upload_count, ahead, replaced, phase, outcome, jobs, unfinished, failed, canceled,
			unmet, missing, failed_dependencies, canceled_dependencies, gates, gating)`, steps, func(s *flow.Step) []any {
		var group any
		if s.Concurrency != nil {
			group = s.Concurrency.Group
		}
		return []any{s.ID, u.build.ID, s.Kind, db.Text(s.Key), s.Position, db.JSON(builds.RulesOf(s)), group, s.CancelOnBuildFailing, db.Text(s.Scope), db.Text(s.Barrier), db.Text(s.BeforeBarrier),
			db.Text(s.Uploads), s.UploadCount, db.Text(s.Ahead), s.Replaced, s.Phase, db.Text(string(s.Outcome)), s.Jobs, s.Unfinished, s.Failed, s.Canceled,
			s.Unmet, s.Missing, s.FailedDependencies, s.CanceledDependencies, s.Gates, s.Gating}
	}, "")
	if err != nil {
		return err
	}
	var described []*flow.Step
	for _, s := range steps {
		u.positions[s.ID], u.keys[s.ID] = s.Position, s.Key
		if u.plan.Steps[s.ID] != nil {
			described = append(described, s)
		}
	}
	return db.InsertLater(u.q, `INSERT INTO step_details (step_id, label, work)`, described, func(s *flow.Step) []any {
		planned := u.plan.Steps[s.ID]
		return []any{s.ID, planned.Label, db.JSON(planned.Work)}
	}, "")
}

func (u *unit) insertEdges(edges []flow.Edge) error {
	return db.InsertLater(u.q, `INSERT INTO step_dependencies (step_id, build_id, depends_on, key, allow_failure)`, edges, func(e flow.Edge) []any {
		return []any{e.Step, u.build.ID, db.Text(e.On), db.Text(e.Key), e.AllowFailure}
	}, "")
}

func resolveEdge(q *db.Q, e flow.Edge) error {
	_, err := q.Exec(`
		UPDATE step_dependencies SET depends_on = $3
		WHERE step_id = $1 AND key = $2 AND depends_on IS NULL`, e.Step, e.Key, e.On)
	return err
}

// insertJobs adds the jobs of new steps, and new attempts of jobs.
func (u *unit) insertJobs(changes []flow.JobChange) (err error) {
	var first, varied, attempts []*flow.Job
	ruleSets := map[string]dispatch.RuleSet{} // by job
	deadlines := map[string]any{}             // by job
	for _, change := range changes {
		switch j := change.Job; {
		case change.From != "":
		case j.RetryOf != "":
			attempts = append(attempts, j)
		default:
			p := u.plan.Jobs[j.ID]
			first = append(first, j)
			if deadlines[j.ID], err = u.deadlineOf(j); err != nil {
				return err
			}
			ruleSets[j.ID] = dispatch.RuleSetOf(p.Agents)
			if p.Variation != nil {
				varied = append(varied, j)
			}
		}
	}
	if err := dispatch.Intern(u.q, u.build.OrganizationID, u.now, slices.Collect(maps.Values(ruleSets))...); err != nil {
		return err
	}
	err = db.InsertLater(u.q, `
		INSERT INTO jobs (id, organization_id, build_id, step_id, position, type, state, priority, queue_id, timeout_minutes,
			parallel_index, parallel_total, matrix, soft_fail, broken_reason, unreachable, soft_failed, promise_fails, retried,
			retries_count, concurrency_group, concurrency_limit, concurrency_method, queue_place, queued, concurrency_wait, exit_status,
			created_at, scheduled_at, limited_at, runnable_at, finished_at, rule_set, deadline_at)`, first, func(j *flow.Job) []any {
		p := u.plan.Jobs[j.ID]
		c := concurrencyColumns(p.Concurrency, u.build)
		return []any{j.ID, u.build.OrganizationID, u.build.ID, j.StepID, jobPosition(u.positions[j.StepID], p.Index), j.Type, j.State, p.Priority, db.Text(p.QueueID), number(p.Timeout),
			number(p.ParallelIndex), number(p.ParallelTotal), db.JSON(p.Matrix), softFail(j.SoftFail), db.Text(j.BrokenReason), j.Unreachable, j.SoftFailed, j.PromiseFails, j.Retried,
			j.RetriesCount, c.group, c.limit, c.method, c.place, j.Queued, duration(j.ConcurrencyWait), number(j.ExitStatus),
			db.Micros(u.now), db.Micros(u.build.ScheduledAt), db.Micros(j.LimitedAt), db.Micros(j.RunnableAt), db.Micros(j.FinishedAt), db.Text(ruleSets[j.ID].ID), deadlines[j.ID]}
	}, "")
	if err != nil {
		return err
	}
	err = db.InsertLater(u.q, `INSERT INTO job_details (job_id, label, work)`, varied, func(j *flow.Job) []any {
		own := u.plan.Jobs[j.ID].Variation
		return []any{j.ID, own.Label, db.JSON(own)}
	}, "")
	if err != nil {
		return err
	}
	for _, j := range attempts {
		if err := u.insertAttempt(j); err != nil {
			return err
		}
	}
	return u.capTimeouts(attempts)
}

// concurrency are the columns of a job about its concurrency group, all NULL when it has none.
type concurrency struct{ group, limit, method, place any }

func concurrencyColumns(c *definition.Concurrency, b *builds.Build) concurrency {
	if c == nil {
		return concurrency{}
	}
	return concurrency{c.Group, c.Limit, string(c.Method), b.QueuePlace}
}

// jobPosition returns the position of a job in its build: after its step and before the next one. A space sorts
// before all characters of step positions.
func jobPosition(step string, index int) string { return fmt.Sprintf("%s %04d", step, index) }

// insertAttempt adds a new attempt of a job. It copies what flow does not know from the attempt before. A job
// without a queue gets the default queue of the cluster, which may be new.
func (u *unit) insertAttempt(j *flow.Job) error {
	deadline, err := u.deadlineOf(j)
	if err != nil {
		return err
	}
	_, err = u.q.Exec(`
		INSERT INTO jobs (id, organization_id, build_id, step_id, position, type, state, priority, queue_id, timeout_minutes,
			parallel_index, parallel_total, matrix, soft_fail, broken_reason, unreachable, soft_failed, promise_fails, retried,
			retry_of, retry_type, retries_count, rule_uses, concurrency_group, concurrency_limit, concurrency_method, queue_place, queued, concurrency_wait,
			created_at, scheduled_at, limited_at, runnable_at, rule_set, deadline_at)
		SELECT $2, organization_id, build_id, step_id, position, type, $3, priority,
			COALESCE(queue_id, (SELECT c.default_queue_id FROM clusters c WHERE c.id = $16 AND jobs.type = 'script')),
			NULLIF(COALESCE(initial_timeout, timeout_minutes), 0),
			parallel_index, parallel_total, matrix, soft_fail, broken_reason, $4, $5, $6, $7,
			$1, $8, $9, $10, concurrency_group, concurrency_limit, concurrency_method, queue_place, $11, $12,
			$13, scheduled_at, $14, $15, rule_set, $17
		FROM jobs WHERE id = $1`,
		j.RetryOf, j.ID, j.State, j.Unreachable, j.SoftFailed, j.PromiseFails, j.Retried,
		j.RetryType, j.RetriesCount, db.JSON(j.RuleUses), j.Queued, duration(j.ConcurrencyWait),
		db.Micros(u.now), db.Micros(j.LimitedAt), db.Micros(j.RunnableAt), u.build.ClusterID, deadline)
	if err != nil {
		return err
	}
	_, err = u.q.Exec(`
		INSERT INTO job_details (job_id, label, work)
		SELECT $2, label, work FROM job_details WHERE job_id = $1`, j.RetryOf, j.ID)
	return err
}
