package testresults

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/testreport"
)

// The bounds of texts that are kept, in bytes. PostgreSQL indexes the scope and the name together.
const (
	maxTestText      = 1024
	maxRunText       = 1024
	maxFailureReason = 8 << 10
	maxFailureLines  = 32 << 10
)

// saved is what became of an upload.
type saved struct {
	id, runID string
	repeated  bool // the same was uploaded before
}

// A batch is an upload on its way into the database.
type batch struct {
	to     target
	run    testreport.Run
	link   link
	digest string
	at     time.Time
	day    int64

	executions []executionRow // by test
	tags       testreport.Tags
	tests      []testRow // by id
	counts     Counts
}

type executionRow struct {
	*testreport.Execution
	testID string
	n      int64
}

// A testRow is a test with what an upload says about it.
type testRow struct {
	*testreport.Execution // the last of the test
	id                    string
	counts                Counts
	shortest, longest     time.Duration
}

// save adds the executions of a report to their run.
func (s *Service) save(ctx context.Context, to target, report *testreport.Report) (out saved, err error) {
	link, err := s.linkOf(ctx, to, report.Run)
	if err != nil {
		return out, err
	}
	now := s.clock()
	b := newBatch(to, report, link, now, s.numbers.take(now, len(report.Executions)))
	days, err := b.dayCounts()
	if err != nil {
		return out, err
	}
	var run Run
	var fold bool
	err = s.results.Write(ctx, func(q *db.Q) error {
		out = saved{id: core.NewID()}
		if run, err = openRun(q, b); err != nil {
			return err
		}
		out.runID = run.ID
		if out.id, out.repeated, err = noteUpload(q, run.seq, b.digest, out.id); err != nil || out.repeated {
			return err
		}
		if err := s.insertTests(q, b); err != nil {
			return err
		}
		if err := insertExecutions(q, run.seq, b); err != nil {
			return err
		}
		if fold, err = noteDays(q, to.suite.ID, b.day, days); err != nil {
			return err
		}
		return countRun(q, run.seq, b)
	})
	if err != nil || out.repeated {
		return out, err
	}
	s.rememberTests(b)
	// The results are saved; sending them again when something fails from here on would not help.
	if err := s.findFlaky(ctx, run, b); err != nil {
		s.log.WarnContext(ctx, "find flaky tests failed", "suite_id", to.suite.ID, "run_id", run.ID, "error", err)
	}
	if fold {
		if err := s.foldDays(ctx, to.suite.ID); err != nil {
			s.log.WarnContext(ctx, "count days of tests failed", "suite_id", to.suite.ID, "error", err)
		}
	}
	return out, nil
}

// newBatch returns what a report adds. first is the number of its first execution.
func newBatch(to target, report *testreport.Report, link link, now time.Time, first int64) *batch {
	b := &batch{to: to, run: report.Run, tags: report.Tags, link: link, digest: report.Digest(), at: now, day: dayOf(now)}
	b.executions = make([]executionRow, len(report.Executions))
	index := make(map[string]int, len(report.Executions))
	for i := range report.Executions {
		e := &report.Executions[i]
		id := TestID(to.suite.ID, e.Scope, e.Name)
		b.executions[i] = executionRow{e, id, first + int64(i)}
		b.counts.add(e)
		at, known := index[id]
		if !known {
			at = len(b.tests)
			index[id] = at
			b.tests = append(b.tests, testRow{id: id, shortest: e.Duration})
		}
		t := &b.tests[at]
		t.Execution = e
		t.counts.add(e)
		t.shortest, t.longest = min(t.shortest, e.Duration), max(t.longest, e.Duration)
	}
	// All uploads write tests in one order, so that none waits for another that waits for it.
	slices.SortFunc(b.tests, func(x, y testRow) int { return cmp.Compare(x.id, y.id) })
	slices.SortFunc(b.executions, func(x, y executionRow) int {
		return cmp.Or(cmp.Compare(x.testID, y.testID), cmp.Compare(x.n, y.n))
	})
	return b
}

// openRun returns the run of a batch, and adds it when it is the first of its key.
func openRun(q *db.Q, b *batch) (Run, error) {
	const columns = `SELECT seq, id FROM test_runs WHERE suite_id = $1 AND key = $2`
	find := func() (r Run, err error) {
		err = q.QueryRow(columns, b.to.suite.ID, b.run.Key).Scan(&r.seq, &r.ID)
		return r, err
	}
	r, err := find()
	if !errors.Is(err, db.ErrNoRows) {
		return r, err
	}
	err = q.QueryRow(`
		INSERT INTO test_runs (id, organization_id, suite_id, key, number, branch, commit_sha, message, url, ci, collector,
			build_id, pipeline_id, passed, failed, skipped, pending, unknown, duration, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, 0, 0, 0, 0, $14, $14)
		ON CONFLICT (suite_id, key) DO NOTHING
		RETURNING seq, id`,
		core.NewID(), b.to.org.ID, b.to.suite.ID, b.run.Key, runText(b.run.Number), runText(b.run.Branch), runText(b.run.CommitSHA), runText(b.run.Message), runText(b.run.URL), runText(b.run.CI), runText(b.run.Collector),
		db.Text(b.link.buildID), db.Text(b.link.pipelineID), db.Micros(b.at)).Scan(&r.seq, &r.ID)
	if errors.Is(err, db.ErrNoRows) { // another upload was faster
		return find()
	}
	if err != nil || b.link.pipelineID == "" {
		return r, err
	}
	_, err = q.Exec(`
		INSERT INTO pipeline_suites AS p (pipeline_id, suite_id, runs) VALUES ($1, $2, 1)
		ON CONFLICT (pipeline_id, suite_id) DO UPDATE SET runs = p.runs + 1`, b.link.pipelineID, b.to.suite.ID)
	return r, err
}

// noteUpload records an upload of a run. When the same was uploaded before, it returns the id of that upload.
func noteUpload(q *db.Q, run int64, digest, id string) (noted string, repeated bool, err error) {
	n, err := q.Exec(`INSERT INTO test_uploads (run, digest, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, run, digest, id)
	if err != nil || n == 1 {
		return id, false, err
	}
	err = q.QueryRow(`SELECT id FROM test_uploads WHERE run = $1 AND digest = $2`, run, digest).Scan(&noted)
	return noted, true, err
}

// seenTest is what was written about a test: a hash of its location on a day.
type seenTest uint64

var seenSeed = maphash.MakeSeed()

func (b *batch) seen(t *testRow) seenTest {
	return seenTest(maphash.Comparable(seenSeed, struct {
		day            int64
		location, file string
	}{b.day, t.Location, t.File}))
}

// insertTests adds tests that are new, and updates those whose location or last day has changed.
func (s *Service) insertTests(q *db.Q, b *batch) error {
	changed := make([]testRow, 0, len(b.tests))
	for _, t := range b.tests {
		if known, ok := s.seen.Get(t.id); !ok || known != b.seen(&t) {
			changed = append(changed, t)
		}
	}
	return db.InsertMany(q, `INSERT INTO tests AS t (id, suite_id, scope, name, location, file_name, created_at, last_day, flaky_count)`, changed,
		func(t testRow) []any {
			return []any{
				t.id, b.to.suite.ID, core.CutBytes(t.Scope, maxTestText), core.CutBytes(t.Name, maxTestText),
				db.Text(core.CutBytes(t.Location, maxTestText)), db.Text(core.CutBytes(t.File, maxTestText)), b.at.UnixMicro(), b.day, 0,
			}
		}, `
		ON CONFLICT (id) DO UPDATE SET location = excluded.location, file_name = excluded.file_name, last_day = excluded.last_day
		WHERE t.last_day < excluded.last_day OR t.location IS DISTINCT FROM excluded.location OR t.file_name IS DISTINCT FROM excluded.file_name`)
}

// rememberTests notes what insertTests has written, once it is committed.
func (s *Service) rememberTests(b *batch) {
	for i := range b.tests {
		s.seen.Add(b.tests[i].id, b.seen(&b.tests[i]))
	}
}

func insertExecutions(q *db.Q, run int64, b *batch) error {
	return db.InsertMany(q, `INSERT INTO test_executions (run, test_id, n, result, duration, failure_reason, failure_expanded, sections, tags)`, b.executions,
		func(e executionRow) []any {
			return []any{
				run, e.testID, e.n, string(e.Result), e.Duration.Microseconds(),
				db.Text(core.CutBytes(e.FailureReason, maxFailureReason)), failuresColumn(e.Failures), sectionsColumn(e.Sections), tagsColumn(b.tags.With(e.Tags)),
			}
		}, "")
}

// failuresColumn returns failures as a column holds them, without the lines that there is no room for.
func failuresColumn(failures []testreport.Failure) any {
	room := maxFailureLines
	cut := func(lines []string) []string {
		kept := []string{}
		for _, line := range lines {
			if room -= len(line) + 4; room < 0 {
				break
			}
			kept = append(kept, line)
		}
		return kept
	}
	var kept []testreport.Failure
	for _, f := range failures {
		if room -= 50; room < 0 {
			break
		}
		kept = append(kept, testreport.Failure{Expanded: cut(f.Expanded), Backtrace: cut(f.Backtrace)})
	}
	if len(kept) == 0 {
		return nil
	}
	return db.JSON(kept)
}

// sectionsColumn returns sections as a column holds them. There may be some in every execution, so it encodes them by
// itself.
func sectionsColumn(sections []testreport.Section) any {
	if len(sections) == 0 {
		return nil
	}
	b := []byte{'{'}
	for _, section := range sections {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, section.Name)
		b = append(b, `:{"count":`...)
		b = strconv.AppendInt(b, int64(section.Count), 10)
		b = append(b, `,"duration":`...)
		b = strconv.AppendFloat(b, section.Duration.Seconds(), 'f', -1, 64)
		b = append(b, '}')
	}
	return string(append(b, '}'))
}

// tagsColumn returns tags as a column holds them.
func tagsColumn(tags testreport.Tags) any {
	if len(tags) == 0 {
		return nil
	}
	b := []byte{'{'}
	for i, tag := range tags {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, tag.Key)
		b = append(b, ':')
		b, _ = jsontext.AppendQuote(b, tag.Value)
	}
	return string(append(b, '}'))
}

// countRun adds the executions of an upload to the totals of its run, and what earlier uploads did not say about the
// run. It comes last, so that other uploads of the run do not wait for long.
func countRun(q *db.Q, run int64, b *batch) error {
	c := b.counts
	_, err := q.Exec(`
		UPDATE test_runs SET passed = passed + $2, failed = failed + $3, skipped = skipped + $4, pending = pending + $5,
			unknown = unknown + $6, duration = duration + $7, updated_at = $8,
			branch = COALESCE(branch, $9), commit_sha = COALESCE(commit_sha, $10), message = COALESCE(message, $11),
			url = COALESCE(url, $12), number = COALESCE(number, $13)
		WHERE seq = $1`, run, c.Passed, c.Failed, c.Skipped, c.Pending, c.Unknown, c.Duration.Microseconds(), db.Micros(b.at),
		runText(b.run.Branch), runText(b.run.CommitSHA), runText(b.run.Message), runText(b.run.URL), runText(b.run.Number))
	return err
}

// runText returns a text about a run as a column holds it.
func runText(text string) any { return db.Text(core.CutBytes(text, maxRunText)) }

// micros scans a duration that is stored in microseconds; NULL is zero.
func micros(dst *time.Duration) sql.Scanner { return durationColumn{dst} }

type durationColumn struct{ dst *time.Duration }

func (c durationColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c.dst = 0
	case int64:
		*c.dst = time.Duration(v) * time.Microsecond
	case []byte, string: // PostgreSQL sums up to NUMERIC
		var n float64
		if _, err := fmt.Sscan(fmt.Sprintf("%s", v), &n); err != nil {
			return err
		}
		*c.dst = time.Duration(n) * time.Microsecond
	default:
		return fmt.Errorf("a duration is stored as whole microseconds, not as %T", src)
	}
	return nil
}
