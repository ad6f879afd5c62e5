package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// save writes the changes of a unit of work. Many jobs and steps of large builds change alike, so rows that get
// the same values are written with one statement.
func (u *unit) save(changes flow.Changes) error {
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
	if err := u.applyEffects(changes.Jobs); err != nil {
		return err
	}
	if err := u.updateBuild(changes); err != nil {
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
	err := db.InsertMany(u.q, `
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
		u.positions[s.ID] = s.Position
		if u.plan.Steps[s.ID] != nil {
			described = append(described, s)
		}
	}
	return db.InsertMany(u.q, `INSERT INTO step_details (step_id, label, work)`, described, func(s *flow.Step) []any {
		planned := u.plan.Steps[s.ID]
		return []any{s.ID, planned.Label, db.JSON(planned.Work)}
	}, "")
}

func (u *unit) insertEdges(edges []flow.Edge) error {
	return db.InsertMany(u.q, `INSERT INTO step_dependencies (step_id, build_id, depends_on, key, allow_failure)`, edges, func(e flow.Edge) []any {
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
func (u *unit) insertJobs(changes []flow.JobChange) error {
	var first, varied, attempts []*flow.Job
	ruleSets := map[string]dispatch.RuleSet{} // by job
	for _, change := range changes {
		switch j := change.Job; {
		case change.From != "":
		case j.RetryOf != "":
			attempts = append(attempts, j)
		default:
			p := u.plan.Jobs[j.ID]
			first = append(first, j)
			ruleSets[j.ID] = dispatch.RuleSetOf(p.Agents)
			if p.Variation != nil {
				varied = append(varied, j)
			}
		}
	}
	if err := dispatch.Intern(u.q, u.build.OrganizationID, u.now, slices.Collect(maps.Values(ruleSets))...); err != nil {
		return err
	}
	err := db.InsertMany(u.q, `
		INSERT INTO jobs (id, organization_id, build_id, step_id, position, type, state, priority, queue_id, timeout_minutes,
			parallel_index, parallel_total, matrix, soft_fail, broken_reason, unreachable, soft_failed, promise_fails, retried,
			retries_count, concurrency_group, concurrency_limit, concurrency_method, queue_place, queued, concurrency_wait, exit_status,
			created_at, scheduled_at, limited_at, runnable_at, finished_at, rule_set)`, first, func(j *flow.Job) []any {
		p := u.plan.Jobs[j.ID]
		c := concurrencyColumns(p.Concurrency, u.build)
		return []any{j.ID, u.build.OrganizationID, u.build.ID, j.StepID, jobPosition(u.positions[j.StepID], p.Index), j.Type, j.State, p.Priority, db.Text(p.QueueID), number(p.Timeout),
			number(p.ParallelIndex), number(p.ParallelTotal), db.JSON(p.Matrix), softFail(j.SoftFail), db.Text(j.BrokenReason), j.Unreachable, j.SoftFailed, j.PromiseFails, j.Retried,
			j.RetriesCount, c.group, c.limit, c.method, c.place, j.Queued, duration(j.ConcurrencyWait), number(j.ExitStatus),
			db.Micros(u.now), db.Micros(u.build.ScheduledAt), db.Micros(j.LimitedAt), db.Micros(j.RunnableAt), db.Micros(j.FinishedAt), db.Text(ruleSets[j.ID].ID)}
	}, "")
	if err != nil {
		return err
	}
	err = db.InsertMany(u.q, `INSERT INTO job_details (job_id, label, work)`, varied, func(j *flow.Job) []any {
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
	_, err := u.q.Exec(`
		INSERT INTO jobs (id, organization_id, build_id, step_id, position, type, state, priority, queue_id, timeout_minutes,
			parallel_index, parallel_total, matrix, soft_fail, broken_reason, unreachable, soft_failed, promise_fails, retried,
			retry_of, retry_type, retries_count, rule_uses, concurrency_group, concurrency_limit, concurrency_method, queue_place, queued, concurrency_wait,
			created_at, scheduled_at, limited_at, runnable_at, rule_set)
		SELECT $2, organization_id, build_id, step_id, position, type, $3, priority,
			COALESCE(queue_id, (SELECT c.default_queue_id FROM clusters c WHERE c.id = $16 AND jobs.type = 'script')),
			NULLIF(COALESCE(initial_timeout, timeout_minutes), 0),
			parallel_index, parallel_total, matrix, soft_fail, broken_reason, $4, $5, $6, $7,
			$1, $8, $9, $10, concurrency_group, concurrency_limit, concurrency_method, queue_place, $11, $12,
			$13, scheduled_at, $14, $15, rule_set
		FROM jobs WHERE id = $1`,
		j.RetryOf, j.ID, j.State, j.Unreachable, j.SoftFailed, j.PromiseFails, j.Retried,
		j.RetryType, j.RetriesCount, db.JSON(j.RuleUses), j.Queued, duration(j.ConcurrencyWait),
		db.Micros(u.now), db.Micros(j.LimitedAt), db.Micros(j.RunnableAt), u.build.ClusterID)
	if err != nil {
		return err
	}
	_, err = u.q.Exec(`
		INSERT INTO job_details (job_id, label, work)
		SELECT $2, label, work FROM job_details WHERE job_id = $1`, j.RetryOf, j.ID)
	return err
}

// A batch is a set of rows that get the same values.
type batch struct {
	ids    []string
	values []any
}

// batches groups rows by the values they get, in order of first appearance.
type batches struct {
	byValues map[string]*batch
	order    []*batch
}

func (b *batches) add(id string, values ...any) {
	if b.byValues == nil {
		b.byValues = make(map[string]*batch)
	}
	key := fmt.Sprintf("%#v", values)
	same := b.byValues[key]
	if same == nil {
		same = &batch{values: values}
		b.byValues[key] = same
		b.order = append(b.order, same)
	}
	same.ids = append(same.ids, id)
}

// errMoved means that a job changed state during a unit of work: another build scheduled it in their
// concurrency group. The unit is retried.
var errMoved = errors.New("a job moved meanwhile")

// update writes each batch. Its values are $2 and following.
func (b *batches) update(q *db.Q, table, and, set string) error {
	for _, same := range b.order {
		in, ids := q.In("id", 1, same.ids)
		n, err := q.Exec(`UPDATE `+table+` SET `+set+` WHERE `+in+` `+and, append([]any{ids}, same.values...)...)
		if err != nil {
			return err
		}
		if int(n) != len(same.ids) {
			return errMoved
		}
	}
	return nil
}

func (u *unit) updateSteps(steps []*flow.Step) error {
	var alike batches
	for _, s := range steps {
		alike.add(s.ID, db.Text(s.Barrier), db.Text(s.BeforeBarrier), db.Text(s.Uploads), s.UploadCount, db.Text(s.Ahead), s.Replaced,
			s.Phase, db.Text(string(s.Outcome)), s.Jobs, s.Unfinished, s.Failed, s.Canceled,
			s.Unmet, s.Missing, s.FailedDependencies, s.CanceledDependencies, s.Gates, s.Gating)
	}
	return alike.update(u.q, "steps", "", `
		barrier = $2, tally = $3, uploads = $4, upload_count = $5, ahead = $6, replaced = $7,
		phase = $8, outcome = $9, jobs = $10, unfinished = $11, failed = $12, canceled = $13,
		unmet = $14, missing = $15, failed_dependencies = $16, canceled_dependencies = $17, gates = $18, gating = $19`)
}

func (u *unit) updateJobs(changes []flow.JobChange) error {
	var alike batches
	var ids []string
	for _, change := range changes {
		j := change.Job
		if change.From == "" {
			continue
		}
		ids = append(ids, j.ID)
		alike.add(j.ID, change.From, j.State, db.Text(j.BrokenReason), j.Unreachable, number(j.ExitStatus), db.Text(j.Signal), db.Text(j.SignalReason),
			j.SoftFailed, number(j.PromisedExitStatus), db.Micros(j.PromisedAt), j.PromiseFails, j.PromisedFailure(), j.Retried, db.Text(j.RetriedIn),
			j.RetriesCount, db.JSON(j.RuleUses), j.Queued, duration(j.ConcurrencyWait),
			db.Micros(j.LimitedAt), db.Micros(j.RunnableAt), db.Micros(j.StartedAt), db.Micros(j.FinishedAt), db.Micros(j.ExpiredAt), db.Micros(j.UnblockedAt), j.PromiseIgnored)
	}
	if len(ids) > 1 { // stacks lock jobs without the build's lock
		if err := u.q.LockAll("jobs", "id", ids); err != nil {
			return err
		}
	}
	return alike.update(u.q, "jobs", "AND state = $2", `
		state = $3, broken_reason = $4, unreachable = $5, exit_status = $6, signal = $7, signal_reason = $8,
		soft_failed = $9, promised_exit_status = $10, promised_at = $11, promise_fails = $12, promised_failure = $13, retried = $14, retried_in = $15,
		retries_count = $16, rule_uses = $17, queued = $18, concurrency_wait = $19,
		limited_at = $20, runnable_at = $21, started_at = $22, finished_at = $23, expired_at = $24, unblocked_at = $25, promise_ignored = $26,
		agent_id = CASE WHEN $3 = 'scheduled' THEN NULL ELSE agent_id END`)
}

// updateBuild writes the state of the build and its job counts, and records how the counts of its pipeline
// change.
func (u *unit) updateBuild(changes flow.Changes) error {
	var waiting, scheduled, running int
	count := func(state flow.JobState, n int) {
		switch {
		case state == "" || state.Ended():
		case state.Held():
			running += n
		case state.Ready():
			scheduled += n
		default:
			waiting += n
		}
	}
	for _, change := range changes.Jobs {
		if change.Job.Type == flow.Script {
			count(change.From, -1)
			count(change.Job.State, 1)
		}
	}
	if !changes.Build && waiting == 0 && scheduled == 0 && running == 0 {
		return nil
	}
	b := u.build
	var now pipelines.Counts
	err := u.q.QueryRow(`
		UPDATE builds SET state = $2, tally = $3, started_at = $4, failing_at = $5, finished_at = $6,
			waiting_jobs = waiting_jobs + $7, scheduled_jobs = scheduled_jobs + $8, running_jobs = running_jobs + $9
		WHERE id = $1
		RETURNING waiting_jobs, scheduled_jobs, running_jobs`,
		b.ID, b.State, db.JSON(b.Counts), db.Micros(b.StartedAt), db.Micros(b.FailingAt), db.Micros(b.FinishedAt),
		waiting, scheduled, running).Scan(&now.WaitingJobs, &now.ScheduledJobs, &now.RunningJobs)
	if err != nil {
		return err
	}
	before := now.Minus(pipelines.Counts{WaitingJobs: waiting, ScheduledJobs: scheduled, RunningJobs: running})
	after := phaseOf(b)
	u.then.counts.Add(b.PipelineID, b.ID, after.counts(now).Minus(u.counted.counts(before)))
	if u.counted.unfinished && !after.unfinished && u.measure != nil {
		u.measure.buildEnded(u.q, b)
	}
	u.counted = after
	return nil
}

// A phase is the part of a build's state that decides how its pipeline counts it. A build in the zero phase is
// not counted.
type phase struct {
	state      flow.BuildState
	unfinished bool
}

func phaseOf(b *builds.Build) phase { return phase{b.State, b.FinishedAt.IsZero()} }

// counts returns what a build with a number of jobs adds to the counts of its pipeline.
func (p phase) counts(jobs pipelines.Counts) pipelines.Counts {
	if !p.unfinished {
		return pipelines.Counts{}
	}
	switch p.state {
	case flow.BuildCreating, flow.BuildScheduled:
		jobs.ScheduledBuilds = 1
	case flow.BuildRunning, flow.BuildFailing, flow.BuildCanceling:
		jobs.RunningBuilds = 1
	}
	return jobs
}
