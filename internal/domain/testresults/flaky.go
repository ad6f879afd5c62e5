package testresults

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// The bounds of looking for flaky tests.
const (
	commitRuns     = 50     // of one commit, the newest
	commitFailures = 10_000 // in these runs
	uploadFailures = 2000   // tests that failed in an upload; when more fail, something else is broken
)

// findFlaky records the tests of an upload that both passed and failed on its commit: within the upload, or together
// with executions in runs of the same commit. The results of the upload are committed, so of two uploads that arrive at
// the same time at least one finds what the other has added.
func (s *Service) findFlaky(ctx context.Context, run Run, b *batch) error {
	if b.run.CommitSHA == "" {
		return nil
	}
	commit := core.CutBytes(b.run.CommitSHA, maxRunText)
	passed, failed := make(map[string]bool), make([]string, 0)
	for _, t := range b.tests {
		if t.counts.Passed > 0 {
			passed[t.id] = true
		}
		if t.counts.Failed > 0 && len(failed) < uploadFailures {
			failed = append(failed, t.id)
		}
	}
	var flaky []string
	err := s.results.Read(ctx, func(q *db.Q) error {
		flaky = nil
		runs, err := runsOfCommit(q, b.to.suite.ID, commit)
		if err != nil {
			return err
		}
		had, err := failedTests(q, runs)
		if err != nil {
			return err
		}
		for _, id := range had {
			if passed[id] {
				flaky = append(flaky, id)
			}
		}
		also, err := passedTests(q, runs, failed)
		flaky = append(flaky, also...)
		return err
	})
	if err != nil || len(flaky) == 0 {
		return err
	}
	slices.Sort(flaky)
	flaky = slices.Compact(flaky)
	return s.results.Write(ctx, func(q *db.Q) error { return recordFlaky(q, b, commit, flaky) })
}

// runsOfCommit returns the newest runs of a suite on a commit.
func runsOfCommit(q *db.Q, suiteID, commit string) ([]int64, error) {
	return db.All(q, func(scan db.Scan) (seq int64, err error) { return seq, scan(&seq) }, `
		SELECT seq FROM test_runs WHERE suite_id = $1 AND commit_sha = $2 ORDER BY created_at DESC LIMIT $3`, suiteID, commit, commitRuns)
}

// failedTests returns tests that failed in any of the runs. Sorted by n, it reads the index of failures instead of whole
// runs.
func failedTests(q *db.Q, runs []int64) (ids []string, err error) {
	for _, run := range runs {
		found, err := db.Strings(q, `SELECT test_id FROM test_executions WHERE run = $1 AND result = 'failed' ORDER BY n LIMIT $2`, run, commitFailures)
		if err != nil {
			return nil, err
		}
		if ids = append(ids, found...); len(ids) > commitFailures {
			break
		}
	}
	return ids, nil
}

// passedTests returns those of tests that passed in any of the runs.
func passedTests(q *db.Q, runs []int64, tests []string) ([]string, error) {
	if len(tests) == 0 || len(runs) == 0 {
		return nil, nil
	}
	in, arg := q.In("test_id", 1, tests)
	return db.Strings(q, `SELECT DISTINCT test_id FROM test_executions WHERE run IN (`+integers(runs)+`) AND result = 'passed' AND `+in, arg)
}

// recordFlaky notes that tests are flaky on a commit, those that are not noted yet.
func recordFlaky(q *db.Q, b *batch, commit string, ids []string) error {
	suiteID := b.to.suite.ID
	if err := q.LockName("flaky tests of " + suiteID + " on " + commit); err != nil {
		return err
	}
	in, arg := q.In("test_id", 3, ids)
	noted, err := db.Strings(q, `SELECT test_id FROM test_flakes WHERE suite_id = $1 AND commit_sha = $2 AND `+in, suiteID, commit, arg)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(noted))
	for _, id := range noted {
		known[id] = true
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return known[id] })
	if len(ids) == 0 {
		return nil
	}
	branch := db.Text(core.CutBytes(b.run.Branch, maxRunText))
	err = db.InsertMany(q, `INSERT INTO test_flakes (suite_id, commit_sha, test_id, branch, created_at)`, ids,
		func(id string) []any { return []any{suiteID, commit, id, branch, db.Micros(b.at)} }, "ON CONFLICT DO NOTHING")
	if err != nil {
		return err
	}
	in, arg = q.In("id", 2, ids)
	if _, err := q.Exec(`UPDATE tests SET flaky_count = flaky_count + 1, flaky_at = $1 WHERE `+q.InOrder("tests", "id", in), db.Micros(b.at), arg); err != nil {
		return err
	}
	counts := make([]dayCount, len(ids))
	for i, id := range ids {
		counts[i].Flaky = 1
		if counts[i].id, err = uuid.Parse(id); err != nil {
			return err
		}
	}
	_, err = noteDays(q, suiteID, b.day, counts)
	return err
}
