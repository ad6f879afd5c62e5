package builds

import (
	"errors"
	"fmt"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
)

// flowStore reads the rows of one build for flow.
type flowStore struct {
	q       *db.Q
	buildID string
}

// FlowStore returns what flow reads of a build.
func FlowStore(q *db.Q, buildID string) flow.Store { return flowStore{q, buildID} }

// StepRules are the parts of a step's definition that decide when it runs.
type StepRules struct {
	AllowDependencyFailure bool                    `json:"allow_dependency_failure,omitempty"`
	Retry                  definition.Retry        `json:"retry,omitzero"`
	Concurrency            *definition.Concurrency `json:"concurrency,omitempty"`
	ContinueOnFailure      bool                    `json:"continue_on_failure,omitempty"`
	BlockedState           definition.BlockedState `json:"blocked_state,omitempty"`
	Async                  bool                    `json:"async,omitempty"`
}

// RulesOf returns the rules of a step.
func RulesOf(s *flow.Step) StepRules {
	return StepRules{
		AllowDependencyFailure: s.AllowDependencyFailure,
		Retry:                  s.Retry,
		Concurrency:            s.Concurrency,
		ContinueOnFailure:      s.ContinueOnFailure,
		BlockedState:           s.BlockedState,
		Async:                  s.Async,
	}
}

const selectFlowStep = `
	SELECT s.id, s.kind, s.key, s.position, s.rules, s.cancel_on_failing, s.scope, s.barrier, s.tally,
		s.uploads, s.upload_count, s.ahead, s.replaced, s.phase, COALESCE(s.outcome, ''), s.jobs, s.unfinished, s.failed, s.canceled,
		s.unmet, s.missing, s.failed_dependencies, s.canceled_dependencies, s.gates, s.gating
	FROM steps s`

func scanFlowStep(scan db.Scan) (*flow.Step, error) {
	s := &flow.Step{}
	var rules StepRules
	err := scan(
		&s.ID, &s.Kind, db.ToText(&s.Key), &s.Position, db.ToJSON(&rules), &s.CancelOnBuildFailing, db.ToText(&s.Scope), db.ToText(&s.Barrier), db.ToText(&s.BeforeBarrier),
		db.ToText(&s.Uploads), &s.UploadCount, db.ToText(&s.Ahead), &s.Replaced, &s.Phase, &s.Outcome, &s.Jobs, &s.Unfinished, &s.Failed, &s.Canceled,
		&s.Unmet, &s.Missing, &s.FailedDependencies, &s.CanceledDependencies, &s.Gates, &s.Gating,
	)
	s.AllowDependencyFailure, s.Retry, s.Concurrency = rules.AllowDependencyFailure, rules.Retry, rules.Concurrency
	s.ContinueOnFailure, s.BlockedState, s.Async = rules.ContinueOnFailure, rules.BlockedState, rules.Async
	return s, err
}

// flowJobColumns are the columns of a job j that flow needs.
const flowJobColumns = `
		j.id, j.type, j.soft_fail, j.broken_reason, j.step_id, j.state, j.agent_id, j.unreachable, j.exit_status, j.signal, j.signal_reason,
		j.soft_failed, j.promised_exit_status, j.promised_at, j.promise_ignored, j.promise_fails, j.retried, j.retried_in, j.retry_of, COALESCE(j.retry_type, ''),
		j.retries_count, j.rule_uses, j.queued, j.concurrency_wait,
		j.limited_at, j.runnable_at, j.started_at, j.finished_at, j.expired_at, j.unblocked_at`

// flowJobDest returns the scan destinations of flowJobColumns.
func flowJobDest(j *flow.Job) []any {
	return []any{
		&j.ID, &j.Type, db.ToJSON(&j.SoftFail), db.ToText(&j.BrokenReason), &j.StepID, &j.State, db.ToText(&j.AgentID), &j.Unreachable, &j.ExitStatus, db.ToText(&j.Signal), db.ToText(&j.SignalReason),
		&j.SoftFailed, &j.PromisedExitStatus, db.ToTime(&j.PromisedAt), &j.PromiseIgnored, &j.PromiseFails, &j.Retried, db.ToText(&j.RetriedIn), db.ToText(&j.RetryOf), &j.RetryType,
		&j.RetriesCount, db.ToJSON(&j.RuleUses), &j.Queued, toDuration{&j.ConcurrencyWait},
		db.ToTime(&j.LimitedAt), db.ToTime(&j.RunnableAt), db.ToTime(&j.StartedAt), db.ToTime(&j.FinishedAt), db.ToTime(&j.ExpiredAt), db.ToTime(&j.UnblockedAt),
	}
}

func scanFlowJob(scan db.Scan) (*flow.Job, error) {
	j := &flow.Job{}
	return j, scan(flowJobDest(j)...)
}

func scanEdge(scan db.Scan) (e flow.Edge, err error) {
	return e, scan(&e.Step, db.ToText(&e.On), db.ToText(&e.Key), &e.AllowFailure)
}

// jobs and the other queries by id have no condition on the build: the ids belong to it, and with the condition
// SQLite would read all rows of the build.
func (f flowStore) jobs(column string, values []string, and string) ([]*flow.Job, error) {
	in, arg := f.q.In(column, 1, values)
	return db.All(f.q, scanFlowJob, `SELECT`+flowJobColumns+`
	FROM jobs j
	WHERE `+in+and+`
	ORDER BY j.position, j.id`, arg)
}

// Jobs returns jobs by id.
func (f flowStore) Jobs(ids ...string) ([]*flow.Job, error) { return f.jobs("j.id", ids, "") }

// JobsOf returns the newest attempts of the jobs of steps.
func (f flowStore) JobsOf(stepIDs ...string) ([]*flow.Job, error) {
	return f.jobs("j.step_id", stepIDs, " AND NOT j.retried")
}

func (f flowStore) steps(where string, args ...any) ([]*flow.Step, error) {
	return db.All(f.q, scanFlowStep, selectFlowStep+`
	WHERE s.build_id = $1 AND `+where+`
	ORDER BY s.position`, append([]any{f.buildID}, args...)...)
}

// Steps returns steps by id.
func (f flowStore) Steps(ids ...string) ([]*flow.Step, error) {
	in, arg := f.q.In("s.id", 1, ids)
	return db.All(f.q, scanFlowStep, selectFlowStep+` WHERE `+in+` ORDER BY s.position`, arg)
}

// StepsByKey returns the steps that have one of the keys and are not replaced.
func (f flowStore) StepsByKey(keys ...string) ([]*flow.Step, error) {
	in, arg := f.q.In("s.key", 2, keys)
	return f.steps(`s.key IS NOT NULL AND NOT s.replaced AND `+in, arg)
}

// Unfinished returns the steps that have not ended.
func (f flowStore) Unfinished() ([]*flow.Step, error) { return f.steps(`s.outcome IS NULL`) }

// CancelOnFailing returns the steps that end when the build is failing, and have not ended.
func (f flowStore) CancelOnFailing() ([]*flow.Step, error) {
	return f.steps(`s.outcome IS NULL AND s.cancel_on_failing`)
}

// Between returns the steps of a scope with positions between two others, without joins.
func (f flowStore) Between(scope, after, before string) ([]*flow.Step, error) {
	return f.steps(`s.position > $2 AND s.position < $3 AND COALESCE(s.scope, '') = $4 AND s.kind NOT IN ($5, $6)`,
		after, before, scope, flow.KindJoin, flow.KindQueue)
}

// LastInGroup returns the last step before a position that has that concurrency group, or nil.
func (f flowStore) LastInGroup(group, before string) (*flow.Step, error) {
	s, err := db.One(f.q, scanFlowStep, selectFlowStep+`
	WHERE s.build_id = $1 AND s.concurrency_group = $2 AND s.position < $3
	ORDER BY s.position DESC
	LIMIT 1`, f.buildID, group, before)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return s, err
}

const selectEdge = `SELECT e.step_id, e.depends_on, e.key, e.allow_failure FROM step_dependencies e`

// Dependents returns the edges of steps that depend on one of the steps.
func (f flowStore) Dependents(stepIDs ...string) ([]flow.Edge, error) {
	in, arg := f.q.In("e.depends_on", 1, stepIDs)
	return db.All(f.q, scanEdge, selectEdge+` WHERE e.depends_on IS NOT NULL AND `+in, arg)
}

// Missing returns the edges that wait for a step with one of the keys to be added.
func (f flowStore) Missing(keys ...string) ([]flow.Edge, error) {
	in, arg := f.q.In("e.key", 2, keys)
	return db.All(f.q, scanEdge, selectEdge+` WHERE e.build_id = $1 AND e.depends_on IS NULL AND `+in, f.buildID, arg)
}

// toDuration scans microseconds; NULL gives nil.
type toDuration struct{ dst **time.Duration }

// Scan implements sql.Scanner.
func (c toDuration) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.dst = nil
	case int64:
		d := time.Duration(v) * time.Microsecond
		*c.dst = &d
	default:
		return fmt.Errorf("a duration is stored as whole microseconds, not as %T", src)
	}
	return nil
}

// FailedJobs returns the newest attempts of a build's jobs that did not pass.
func FailedJobs(q *db.Q, buildID string) ([]*flow.Job, error) {
	return db.All(q, scanFlowJob, `SELECT`+flowJobColumns+`
		FROM jobs j
		WHERE j.build_id = $1 AND NOT j.retried AND j.type IN ('script', 'trigger')
			AND (j.state IN ('canceled', 'expired', 'timed_out') OR j.state = 'finished' AND j.exit_status <> 0)
		ORDER BY j.position, j.id`, buildID)
}

// Orphaned reports whether a trigger job no longer waits for the build that it started, because its own build
// was canceled.
func Orphaned(q *db.Q, triggerID string) (bool, error) {
	step, err := db.One(q, scanFlowStep, selectFlowStep+`
		JOIN jobs j ON j.step_id = s.id
		JOIN builds b ON b.id = j.build_id
		WHERE j.id = $1 AND b.state IN ($2, $3)`, triggerID, flow.BuildCanceling, flow.BuildCanceled)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil && !step.Async, err
}
