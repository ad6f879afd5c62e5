package builds

import (
	"context"
	"errors"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// A Step is a step as the jobs of its build see it.
type Step struct {
	ID    string
	Key   string // empty: none
	Type  definition.Kind
	Label string
	Work  plan.Work
	// DependsOn are the keys of the steps that the definition lists as dependencies, or their ids where they
	// have no key.
	DependsOn   []string
	Concurrency *definition.Concurrency
	State       StepState
	Outcome     StepOutcome
	Parallelism int  // number of parallel jobs; 0: not set
	Timeout     *int // minutes
	Priority    int
}

// StepState is the progress of a step.
type StepState string

// The states of steps.
const (
	StepIgnored  StepState = "ignored"                  // it never runs
	StepWaiting  StepState = "waiting_for_dependencies" // or for a person
	StepReady    StepState = "ready"                    // for agents
	StepRunning  StepState = "running"
	StepFailing  StepState = "failing" // a job failed, others run
	StepFinished StepState = "finished"
)

// StepOutcome is the result of a step.
type StepOutcome string

// The outcomes of steps.
const (
	StepNeutral    StepOutcome = "neutral" // unfinished, or never runs
	StepPassed     StepOutcome = "passed"
	StepSoftFailed StepOutcome = "soft_failed" // a failure that does not fail the build
	StepHardFailed StepOutcome = "hard_failed"
	StepErrored    StepOutcome = "errored" // timed out, canceled, expired, or never started
)

const noStep = "No step found"

// Step returns a step of a build by its id or its key, or a NotFound error.
func (s *Reader) Step(ctx context.Context, orgID, buildID, name string) (step *Step, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if _, err = ByID(q, orgID, buildID); err != nil {
			return err
		}
		step, err = StepByName(q, buildID, name)
		return err
	})
	return step, err
}

// FlowStepByName returns the step of a build with an id or a key, or a NotFound error. Keys never look like
// ids. Steps that are not part of the definition have no name.
func FlowStepByName(q *db.Q, buildID, name string) (*flow.Step, error) {
	where := `s.build_id = $1 AND s.key = $2 AND NOT s.replaced`
	if id, ok := core.ParseID(name); ok {
		where, name = `s.build_id = $1 AND s.id = $2`, id
	}
	step, err := db.One(q, scanFlowStep, selectFlowStep+` WHERE `+where+` AND s.kind NOT IN ($3, $4)`, buildID, name, flow.KindJoin, flow.KindQueue)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, noStep)
	}
	return step, err
}

// StepByName returns the step of a build with an id or a key, or a NotFound error.
func StepByName(q *db.Q, buildID, name string) (*Step, error) {
	found, err := FlowStepByName(q, buildID, name)
	if err != nil {
		return nil, err
	}
	step := &Step{ID: found.ID, Key: found.Key, Type: found.Kind, Concurrency: found.Concurrency}
	err = q.QueryRow(`SELECT label, work FROM step_details WHERE step_id = $1`, step.ID).Scan(&step.Label, db.ToJSON(&step.Work))
	if err != nil {
		return nil, err
	}
	if step.DependsOn, err = dependencies(q, step.ID); err != nil {
		return nil, err
	}
	jobs, err := JobsOfStep(q, step.ID)
	if err != nil {
		return nil, err
	}
	step.State = stateOf(found, jobs)
	step.Outcome = outcomeOf(step.State, jobs)
	err = q.QueryRow(`SELECT COALESCE(MAX(parallel_total), 0), MAX(timeout_minutes), COALESCE(MAX(priority), 0) FROM jobs WHERE step_id = $1`, step.ID).
		Scan(&step.Parallelism, &step.Timeout, &step.Priority)
	return step, err
}

// JobsOfStep returns the newest attempts of a step's jobs. Those of a group are the jobs of its members.
func JobsOfStep(q *db.Q, stepID string) ([]*flow.Job, error) {
	return db.All(q, scanFlowJob, `SELECT`+flowJobColumns+`
	FROM jobs j
	WHERE NOT j.retried AND (j.step_id = $1 OR j.step_id IN (SELECT id FROM steps WHERE scope = $1))
	ORDER BY j.position, j.id`, stepID)
}

// StepMayHaveEndedWith reports whether a job can be the last of its step that ended. It looks at few rows, so that the
// jobs of a step that end one after the other, or all at once, do not each read all others.
func StepMayHaveEndedWith(q *db.Q, j *Job) (may bool, err error) {
	err = q.QueryRow(`
		SELECT EXISTS (SELECT 1 FROM steps WHERE id = $1 AND outcome IS NOT NULL) AND NOT EXISTS (
			SELECT 1 FROM jobs
			WHERE build_id = $2 AND position > $3 AND step_id = $1 AND NOT retried AND (finished_at > $4 OR finished_at = $4 AND id > $5))`,
		j.StepID, j.BuildID, j.Position, db.Micros(j.FinishedAt), j.ID).Scan(&may)
	return may, err
}

// dependencies returns the dependencies of a step in the definition.
func dependencies(q *db.Q, stepID string) ([]string, error) {
	return db.Strings(q, `
		SELECT COALESCE(e.key, s.key, e.depends_on)
		FROM step_dependencies e
		LEFT JOIN steps s ON s.id = e.depends_on
		WHERE e.step_id = $1 AND (s.id IS NULL OR s.kind NOT IN ($2, $3))
		ORDER BY s.position NULLS LAST, e.key NULLS LAST`, stepID, flow.KindJoin, flow.KindQueue)
}

// stateOf returns the state of a step with these jobs.
func stateOf(s *flow.Step, jobs []*flow.Job) StepState {
	if s.Replaced || len(jobs) > 0 && all(jobs, func(j *flow.Job) bool { return j.State == flow.Broken || j.State == flow.Skipped }) {
		return StepIgnored
	}
	if all(jobs, func(j *flow.Job) bool { return j.State.Ended() }) && (len(jobs) > 0 || s.Outcome != "") {
		return StepFinished
	}
	begun := func(j *flow.Job) bool { return j.State.Held() || !j.StartedAt.IsZero() }
	switch {
	case slices.ContainsFunc(jobs, func(j *flow.Job) bool { return j.Failed() || j.PromiseFails }):
		return StepFailing
	case slices.ContainsFunc(jobs, begun):
		return StepRunning
	case slices.ContainsFunc(jobs, func(j *flow.Job) bool { return j.State.Ready() }):
		return StepReady
	}
	return StepWaiting
}

// outcomeOf returns the outcome of a step: the worst result of its jobs.
func outcomeOf(state StepState, jobs []*flow.Job) StepOutcome {
	if state != StepFinished {
		return StepNeutral
	}
	outcome := StepPassed
	for _, j := range jobs {
		switch {
		case j.State == flow.Finished && j.Failed():
			return StepHardFailed
		case j.Failed() || j.State == flow.WaitingFailed || j.State == flow.BlockedFailed || j.State == flow.UnblockedFailed:
			outcome = StepErrored
		case j.SoftFailed && outcome == StepPassed:
			outcome = StepSoftFailed
		}
	}
	return outcome
}

func all[T any](items []T, is func(T) bool) bool {
	return !slices.ContainsFunc(items, func(item T) bool { return !is(item) })
}
