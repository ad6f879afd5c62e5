package testresults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"stackyard/internal/platform/db"
)

// Counting by day is in two steps, because a day of a test is a row that every upload of that day would update. An upload
// adds one row with all its counts to test_day_changes. The changes of several uploads are then added to test_days
// together: when enough have piled up, and before days are read.

// foldTests is how many tests the changes of a suite may have before the upload that adds more folds them, and how many
// one transaction folds.
const foldTests = 50_000

// A dayCount is what changes say about a test on a day.
type dayCount struct {
	id uuid.UUID
	Metrics
}

// add adds what another change says about the same test and day.
func (c *dayCount) add(other *dayCount) {
	switch {
	case other.Total() == 0:
	case c.Total() == 0:
		c.Shortest, c.Longest = other.Shortest, other.Longest
	default:
		c.Shortest, c.Longest = min(c.Shortest, other.Shortest), max(c.Longest, other.Longest)
	}
	c.Passed += other.Passed
	c.Failed += other.Failed
	c.Skipped += other.Skipped
	c.Pending += other.Pending
	c.Unknown += other.Unknown
	c.Flaky += other.Flaky
	c.Duration += other.Duration
}

// numbers returns the counts in the order in which they are encoded.
func (c *dayCount) numbers() [6]*int {
	return [...]*int{&c.Passed, &c.Failed, &c.Skipped, &c.Pending, &c.Unknown, &c.Flaky}
}

// durations returns the durations in the order in which they are encoded. That of a single execution is encoded once.
func (c *dayCount) durations() []*time.Duration {
	switch c.Total() {
	case 0:
		return nil
	case 1:
		return []*time.Duration{&c.Duration}
	}
	return []*time.Duration{&c.Duration, &c.Shortest, &c.Longest}
}

// encodeDays returns counts as a column holds them: base64 of the 16 bytes of each test's id, a byte with a bit for each
// count that is not zero, these counts, and the durations in microseconds.
func encodeDays(counts []dayCount) string {
	b := make([]byte, 0, len(counts)*24)
	for i := range counts {
		c := &counts[i]
		b = append(b, c.id[:]...)
		mask := len(b)
		b = append(b, 0)
		for bit, n := range c.numbers() {
			if *n != 0 {
				b[mask] |= 1 << bit
				b = binary.AppendUvarint(b, uint64(*n))
			}
		}
		for _, d := range c.durations() {
			b = binary.AppendUvarint(b, uint64(d.Microseconds()))
		}
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

var errDays = errors.New("damaged row in test_day_changes")

// decodeDays calls add with the counts in a column.
func decodeDays(text string, add func(*dayCount)) error {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return errDays
	}
	next := func() (n uint64) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			err, size = errDays, len(b)
		}
		b = b[size:]
		return n
	}
	for len(b) > 0 && err == nil {
		var c dayCount
		if len(b) <= len(c.id) {
			return errDays
		}
		copy(c.id[:], b)
		mask := b[len(c.id)]
		b = b[len(c.id)+1:]
		for bit, n := range c.numbers() {
			if mask&(1<<bit) != 0 {
				*n = int(next())
			}
		}
		for _, d := range c.durations() {
			*d = time.Duration(next()) * time.Microsecond
		}
		if c.Total() == 1 {
			c.Shortest, c.Longest = c.Duration, c.Duration
		}
		if err == nil {
			add(&c)
		}
	}
	return err
}

// noteDays adds changes to the days of tests. It reports whether it is time to fold those of the suite.
func noteDays(q *db.Q, suiteID string, day int64, counts []dayCount) (full bool, err error) {
	_, err = q.Exec(`INSERT INTO test_day_changes (suite_id, day, tests, changes) VALUES ($1, $2, $3, $4)`, suiteID, day, len(counts), encodeDays(counts))
	if err != nil {
		return false, err
	}
	var tests int
	err = q.QueryRow(`SELECT CAST(SUM(tests) AS BIGINT) FROM test_day_changes WHERE suite_id = $1`, suiteID).Scan(&tests)
	return tests >= foldTests, err
}

// dayCounts returns what an upload says about its tests.
func (b *batch) dayCounts() ([]dayCount, error) {
	counts := make([]dayCount, len(b.tests))
	for i, t := range b.tests {
		id, err := uuid.Parse(t.id)
		if err != nil {
			return nil, err
		}
		counts[i] = dayCount{id, Metrics{Counts: t.counts, Shortest: t.shortest, Longest: t.longest}}
	}
	return counts, nil
}

// foldDays adds the changes of a suite to test_days. It writes nothing when there are none.
func (s *Service) foldDays(ctx context.Context, suiteID string) error {
	for {
		var pending bool
		err := s.results.Read(ctx, func(q *db.Q) error {
			return q.QueryRow(`SELECT EXISTS (SELECT 1 FROM test_day_changes WHERE suite_id = $1)`, suiteID).Scan(&pending)
		})
		if err != nil || !pending {
			return err
		}
		if err := s.results.Write(ctx, func(q *db.Q) error { return foldBatch(q, suiteID) }); err != nil {
			return err
		}
	}
}

// foldBatch adds the oldest changes of a suite to test_days.
func foldBatch(q *db.Q, suiteID string) error {
	if err := q.LockName("test days of " + suiteID); err != nil {
		return err
	}
	seqs, err := oldestChanges(q, suiteID)
	if err != nil || len(seqs) == 0 {
		return err
	}
	byDay := make(map[int64]map[uuid.UUID]*dayCount)
	err = db.Each(q, func(scan db.Scan) error {
		var day int64
		var changes string
		if err := scan(&day, &changes); err != nil {
			return err
		}
		tests := byDay[day]
		if tests == nil {
			tests = make(map[uuid.UUID]*dayCount)
			byDay[day] = tests
		}
		return decodeDays(changes, func(c *dayCount) {
			if known := tests[c.id]; known != nil {
				known.add(c)
			} else {
				tests[c.id] = c
			}
		})
	}, `SELECT day, changes FROM test_day_changes WHERE seq IN (`+integers(seqs)+`)`)
	if err != nil {
		return err
	}
	for day, tests := range byDay {
		if err := addDays(q, suiteID, day, tests); err != nil {
			return err
		}
	}
	_, err = q.Exec(`DELETE FROM test_day_changes WHERE seq IN (` + integers(seqs) + `)`)
	return err
}

// oldestChanges returns the oldest changes of a suite, as many as one transaction folds.
func oldestChanges(q *db.Q, suiteID string) (seqs []int64, err error) {
	const atOnce = 500
	total := 0
	err = db.Each(q, func(scan db.Scan) error {
		var seq int64
		var tests int
		err := scan(&seq, &tests)
		if total < foldTests {
			seqs = append(seqs, seq)
		}
		total += tests
		return err
	}, `SELECT seq, tests FROM test_day_changes WHERE suite_id = $1 ORDER BY seq LIMIT $2`, suiteID, atOnce)
	return seqs, err
}

// addDays adds counts to the rows of tests on a day. Most tests only passed or failed; the others have more columns to
// count.
func addDays(q *db.Q, suiteID string, day int64, tests map[uuid.UUID]*dayCount) error {
	var common, others []*dayCount
	flaky := make(map[int][]string) // by count
	for id, c := range tests {
		switch total := c.Total(); {
		case total == 0:
		case total == c.Passed+c.Failed:
			common = append(common, c)
		default:
			others = append(others, c)
		}
		if c.Flaky > 0 {
			flaky[c.Flaky] = append(flaky[c.Flaky], id.String())
		}
	}
	byID := func(x, y *dayCount) int { return bytes.Compare(x.id[:], y.id[:]) }
	slices.SortFunc(common, byID) // rows that are next to each other are updated after each other
	slices.SortFunc(others, byID)
	row := func(c *dayCount) []any {
		return []any{suiteID, day, c.id.String(), c.Passed, c.Failed, c.Duration.Microseconds(), c.Shortest.Microseconds(), c.Longest.Microseconds()}
	}
	const add = `
		ON CONFLICT (suite_id, day, test_id) DO UPDATE SET
			passed       = d.passed + excluded.passed,
			failed       = d.failed + excluded.failed,
			duration_sum = d.duration_sum + excluded.duration_sum,
			duration_min = CASE WHEN excluded.duration_min < d.duration_min THEN excluded.duration_min ELSE d.duration_min END,
			duration_max = CASE WHEN excluded.duration_max > d.duration_max THEN excluded.duration_max ELSE d.duration_max END`
	err := db.InsertMany(q, `INSERT INTO test_days AS d (suite_id, day, test_id, passed, failed, duration_sum, duration_min, duration_max)`, common, row, add)
	if err != nil {
		return err
	}
	err = db.InsertMany(q, `INSERT INTO test_days AS d (suite_id, day, test_id, passed, failed, duration_sum, duration_min, duration_max, skipped, pending, unknown)`, others,
		func(c *dayCount) []any { return append(row(c), c.Skipped, c.Pending, c.Unknown) }, add+`,
			skipped      = d.skipped + excluded.skipped,
			pending      = d.pending + excluded.pending,
			unknown      = d.unknown + excluded.unknown`)
	if err != nil {
		return err
	}
	for n, ids := range flaky {
		in, arg := q.In("test_id", 4, ids)
		if _, err := q.Exec(`UPDATE test_days SET flaky = flaky + $1 WHERE suite_id = $2 AND day = $3 AND `+in, n, suiteID, day, arg); err != nil {
			return err
		}
	}
	return nil
}
