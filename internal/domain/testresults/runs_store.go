package testresults

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/testreport"
)

const noRun = "No run found"

const selectRun = `
	SELECT r.seq, r.id, r.suite_id, r.key, r.number, r.branch, r.commit_sha, r.message, r.url, r.build_id, r.pipeline_id, r.created_at,
		r.passed, r.failed, r.skipped, r.pending, r.unknown, r.duration
	FROM test_runs r`

func scanRun(scan db.Scan) (Run, error) {
	var r Run
	err := scan(append([]any{
		&r.seq, &r.ID, &r.SuiteID, &r.Key, db.ToText(&r.Number), db.ToText(&r.Branch), db.ToText(&r.CommitSHA), db.ToText(&r.Message), db.ToText(&r.URL),
		db.ToText(&r.BuildID), db.ToText(&r.PipelineID), db.ToTime(&r.CreatedAt),
	}, r.Counts.dest()...)...)
	return r, err
}

// listRuns returns runs of a suite, newest first; those of a build, and of a branch, if these are not "".
func listRuns(q *db.Q, suiteID, buildID, branch string, limit, offset int) ([]Run, error) {
	var s db.Statement
	s.Where("r.suite_id = %s", suiteID)
	if buildID != "" {
		s.Where("r.build_id = %s", buildID)
	}
	if branch != "" {
		s.Where("r.branch = %s", branch)
	}
	return db.All(q, scanRun, selectRun+`
		`+s.Clause()+`
		ORDER BY r.created_at DESC, r.seq DESC
		LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
}

// runByID returns a run of a suite, or a NotFound error.
func runByID(q *db.Q, suiteID, id string) (Run, error) {
	return db.Find(q, noRun, scanRun, selectRun+` WHERE r.suite_id = $1 AND r.id = $2`, suiteID, id)
}

// maxBuildRuns is how many runs of a build are shown.
const maxBuildRuns = 100

// runsOfBuild returns the runs of a build, oldest first.
func runsOfBuild(q *db.Q, orgID, buildID string) ([]Run, error) {
	return db.All(q, scanRun, selectRun+`
		WHERE r.build_id = $1 AND r.organization_id = $2
		ORDER BY r.created_at, r.seq
		LIMIT $3`, buildID, orgID, maxBuildRuns)
}

// suitesOfPipeline returns the ids of the suites that have runs of a pipeline.
func suitesOfPipeline(q *db.Q, pipelineID string) ([]string, error) {
	return db.Strings(q, `SELECT suite_id FROM pipeline_suites WHERE pipeline_id = $1 AND runs > 0`, pipelineID)
}

// An Execution is one time that a test was executed.
type Execution struct {
	run           int64
	n             int64
	TestID        string
	Result        testreport.Result
	Duration      time.Duration
	FailureReason string
	Failures      []testreport.Failure // not always loaded
	Sections      map[string]Section   // by name
	Tags          map[string]string
}

// A Section is where an execution spent time, such as in calls of a database.
type Section struct {
	Count   int     `json:"count"`
	Seconds float64 `json:"duration"`
}

// ID returns the id of the execution.
func (e *Execution) ID() string { return executionID(e.TestID, e.run, e.n) }

// At returns when the execution was uploaded.
func (e *Execution) At() time.Time { return executionTime(e.n) }

const executionColumns = `e.run, e.n, e.test_id, e.result, e.duration, e.failure_reason, e.failure_expanded, e.sections, e.tags`

func (e *Execution) dest() []any {
	return []any{&e.run, &e.n, &e.TestID, &e.Result, micros(&e.Duration), db.ToText(&e.FailureReason), db.ToJSON(&e.Failures), db.ToJSON(&e.Sections), db.ToJSON(&e.Tags)}
}

func scanExecution(scan db.Scan) (e Execution, err error) { return e, scan(e.dest()...) }

// A FailedExecution is an execution that failed, with its test.
type FailedExecution struct {
	Execution
	Test Test
}

// failedExecutions returns executions of a run that failed, oldest first.
func failedExecutions(q *db.Q, run int64, limit, offset int) ([]FailedExecution, error) {
	return db.All(q, func(scan db.Scan) (f FailedExecution, err error) {
		return f, scan(append(f.Execution.dest(), f.Test.dest()...)...)
	}, `
		SELECT `+executionColumns+`, `+testColumns+`
		FROM (SELECT * FROM test_executions WHERE run = $1 AND result = 'failed' ORDER BY n LIMIT $2 OFFSET $3) e
		JOIN tests t ON t.id = e.test_id
		ORDER BY e.n`, run, limit, offset)
}

// integers returns integers as they stand in an IN list.
func integers(list []int64) string {
	text, err := json.Marshal(list)
	if err != nil || len(list) == 0 {
		return "NULL"
	}
	return strings.Trim(string(text), "[]")
}

// testExecutions returns the newest executions of a test in runs, up to a number for each run.
func testExecutions(q *db.Q, runs []int64, testIDs []string, limit int, condition string) ([]Execution, error) {
	in, arg := q.In("e.test_id", 1, testIDs)
	return db.All(q, scanExecution, fmt.Sprintf(`
		SELECT %s FROM test_executions e
		WHERE e.run IN (%s) AND %s AND %s
		ORDER BY e.n DESC
		LIMIT %d`, executionColumns, integers(runs), in, condition, limit), arg)
}
