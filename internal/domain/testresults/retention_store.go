package testresults

import (
	"time"

	"stackyard/internal/platform/db"
)

// oldRuns are the runs of an organization, or of a suite, that began before a time, with their executions.
type oldRuns struct {
	organizationID, suiteID string // one of them
	before                  time.Time
}

func (o oldRuns) restrict() *db.Statement {
	var s db.Statement
	if o.suiteID != "" {
		s.Where("suite_id = %s", o.suiteID)
	} else {
		s.Where("organization_id = %s", o.organizationID)
	}
	s.Where("created_at < %s", db.Micros(o.before))
	return &s
}

func (o oldRuns) exists(q *db.Q) (found bool, err error) {
	s := o.restrict()
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM test_runs `+s.Clause()+`)`, s.Args()...).Scan(&found)
	return found, err
}

// remove removes old runs, oldest first, until enough rows are removed.
func (o oldRuns) remove(q *db.Q) (more bool, err error) {
	const atOnce = 50
	type oldRun struct {
		seq                 int64
		pipelineID, suiteID string
	}
	s := o.restrict()
	runs, err := db.All(q, func(scan db.Scan) (r oldRun, err error) {
		return r, scan(&r.seq, db.ToText(&r.pipelineID), &r.suiteID)
	}, `SELECT seq, pipeline_id, suite_id FROM test_runs `+s.Clause()+` ORDER BY created_at LIMIT `+s.Arg(atOnce)+q.ForUpdate(), s.Args()...)
	if err != nil {
		return false, err
	}
	room := int64(removeRows)
	for _, run := range runs {
		n, err := q.Exec(`
			DELETE FROM test_executions
			WHERE run = $1 AND (test_id, n) IN (SELECT test_id, n FROM test_executions WHERE run = $1 LIMIT $2)`, run.seq, room)
		if err != nil {
			return false, err
		}
		if room -= n; room <= 0 { // the run may have more
			return true, nil
		}
		if err := removeRun(q, run.seq, run.pipelineID, run.suiteID); err != nil {
			return false, err
		}
	}
	return len(runs) == atOnce, nil
}

// removeRun removes a run that has no executions any more.
func removeRun(q *db.Q, seq int64, pipelineID, suiteID string) error {
	if _, err := q.Exec(`DELETE FROM test_uploads WHERE run = $1`, seq); err != nil {
		return err
	}
	if _, err := q.Exec(`DELETE FROM test_runs WHERE seq = $1`, seq); err != nil || pipelineID == "" {
		return err
	}
	if _, err := q.Exec(`UPDATE pipeline_suites SET runs = runs - 1 WHERE pipeline_id = $1 AND suite_id = $2`, pipelineID, suiteID); err != nil {
		return err
	}
	_, err := q.Exec(`DELETE FROM pipeline_suites WHERE pipeline_id = $1 AND suite_id = $2 AND runs <= 0`, pipelineID, suiteID)
	return err
}

// oldTests are the days, flaky instances and tests of a suite from before a time.
type oldTests struct {
	suiteID string
	before  time.Time
	all     bool // also tests that people have muted or skipped
}

// The conditions of what is old. Their parameters are the suite and the time in the unit of the column.
const (
	oldDay   = `suite_id = $1 AND day < $2`
	oldFlake = `suite_id = $1 AND created_at < $2`
	oldTest  = `suite_id = $1 AND last_day < $2`
)

// oldTest returns the condition of tests that are old. Those that are muted or skipped may not run for long, and people
// want them to stay so.
func (o oldTests) oldTest() string {
	if o.all {
		return oldTest
	}
	return oldTest + ` AND state = 'enabled'`
}

func (o oldTests) exists(q *db.Q) (bool, error) {
	for _, look := range []struct {
		query string
		until any
	}{
		{`SELECT EXISTS (SELECT 1 FROM test_day_changes WHERE ` + oldDay + `)`, dayOf(o.before)},
		{`SELECT EXISTS (SELECT 1 FROM test_days WHERE ` + oldDay + `)`, dayOf(o.before)},
		{`SELECT EXISTS (SELECT 1 FROM test_flakes WHERE ` + oldFlake + `)`, db.Micros(o.before)},
		{`SELECT EXISTS (SELECT 1 FROM tests WHERE ` + o.oldTest() + `)`, dayOf(o.before)},
	} {
		var found bool
		if err := q.QueryRow(look.query, o.suiteID, look.until).Scan(&found); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// remove removes a batch of days, then of flaky instances, then of tests.
func (o oldTests) remove(q *db.Q) (more bool, err error) {
	if _, err := q.Exec(`DELETE FROM test_day_changes WHERE `+oldDay, o.suiteID, dayOf(o.before)); err != nil {
		return false, err
	}
	n, err := q.Exec(`
		DELETE FROM test_days
		WHERE `+oldDay+` AND (day, test_id) IN (SELECT day, test_id FROM test_days WHERE `+oldDay+` LIMIT $3)`, o.suiteID, dayOf(o.before), removeRows)
	if err != nil || n == removeRows {
		return true, err
	}
	flakes, err := o.removeFlakes(q)
	if err != nil || flakes == removeFlaky {
		return true, err
	}
	ids, err := db.Strings(q, `SELECT id FROM tests WHERE `+o.oldTest()+` LIMIT $3`, o.suiteID, dayOf(o.before), removeRows)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	in, arg := q.In("test_id", 1, ids)
	if _, err := q.Exec(`DELETE FROM test_labels WHERE `+in, arg); err != nil {
		return false, err
	}
	in, arg = q.In("id", 3, ids)
	_, err = q.Exec(`DELETE FROM tests WHERE `+o.oldTest()+` AND `+in, o.suiteID, dayOf(o.before), arg)
	return len(ids) == removeRows, err
}

// removeFlaky is how many flaky instances one transaction removes, with two statements each.
const removeFlaky = 500

// removeFlakes removes a batch of flaky instances and takes them off the counts of their tests.
func (o oldTests) removeFlakes(q *db.Q) (removed int, err error) {
	type flake struct{ commit, testID string }
	old, err := db.All(q, func(scan db.Scan) (f flake, err error) { return f, scan(&f.commit, &f.testID) }, `
		SELECT commit_sha, test_id FROM test_flakes WHERE `+oldFlake+` ORDER BY created_at LIMIT $3`, o.suiteID, db.Micros(o.before), removeFlaky)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	for _, f := range old {
		if _, err := q.Exec(`DELETE FROM test_flakes WHERE suite_id = $1 AND commit_sha = $2 AND test_id = $3`, o.suiteID, f.commit, f.testID); err != nil {
			return 0, err
		}
		_, err := q.Exec(`
			UPDATE tests SET flaky_count = flaky_count - 1, flaky_at = CASE WHEN flaky_count > 1 THEN flaky_at END
			WHERE id = $1 AND flaky_count > 0`, f.testID)
		if err != nil {
			return 0, err
		}
	}
	return len(old), nil
}
