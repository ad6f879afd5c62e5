package testresults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const noTest = "No test found"

const testColumns = `t.id, t.scope, t.name, t.location, t.file_name, t.flaky_count, t.flaky_at, t.created_at, t.state`

func (t *Test) dest() []any {
	return []any{&t.ID, &t.Scope, &t.Name, db.ToText(&t.Location), db.ToText(&t.FileName), &t.Flaky, db.ToTime(&t.FlakyAt), db.ToTime(&t.CreatedAt), &t.State}
}

func scanTest(scan db.Scan) (t Test, err error) {
	err = scan(t.dest()...)
	t.noteFlaky()
	return t, err
}

// noteFlaky gives a test that was found to be flaky its label.
func (t *Test) noteFlaky() {
	if t.Flaky > 0 {
		t.Labels = []string{flakyLabel}
	}
}

// FullName returns the scope and the name.
func (t *Test) FullName() string { return strings.TrimSpace(t.Scope + " " + t.Name) }

// testByID returns a test of a suite, or a NotFound error.
func testByID(q *db.Q, suiteID, id string) (Test, error) {
	t, err := db.One(q, scanTest, `SELECT `+testColumns+` FROM tests t WHERE t.suite_id = $1 AND t.id = $2`, suiteID, id)
	if errors.Is(err, db.ErrNoRows) {
		return t, core.Errorf(core.NotFound, noTest)
	}
	labeled, err := withLabels(q, []Test{t}, itself, err)
	return labeled[0], err
}

// A testFilter says which tests are listed.
type testFilter struct {
	search     string // a part of the scope, the name or the location
	labels     []labelFilter
	state      TestState // "": any
	flaky      bool      // whether only tests that were found to be flaky are listed
	flakySince time.Time // the last time that it was flaky; zero: any
	branch     string    // that it was flaky on; "": any
}

func (f testFilter) restrict(suiteID string, s *db.Statement) {
	s.Where("t.suite_id = %s", suiteID)
	if f.search != "" {
		pattern := "%" + db.Like(f.search) + "%"
		s.Where(`(t.name LIKE %s ESCAPE '\' OR t.scope LIKE %s ESCAPE '\' OR t.location LIKE %s ESCAPE '\')`, pattern, pattern, pattern)
	}
	f.restrictKind(s)
	if f.flaky {
		s.And("t.flaky_count > 0")
	}
	if !f.flakySince.IsZero() {
		s.Where("t.flaky_at >= %s", db.Micros(f.flakySince))
	}
	if f.branch != "" {
		s.Where("EXISTS (SELECT 1 FROM test_flakes f WHERE f.suite_id = %s AND f.branch = %s AND f.test_id = t.id)", suiteID, f.branch)
	}
}

// restrictKind restricts a statement to tests t with the labels and the state that are wanted.
func (f testFilter) restrictKind(s *db.Statement) {
	for _, label := range f.labels {
		label.restrict(s)
	}
	if f.state != "" {
		s.Where("t.state = %s", string(f.state))
	}
	if f.state == Muted || f.state == SkippedTest {
		s.And("t.state <> 'enabled'") // for the index of such tests
	}
}

// listTests returns tests of a suite by scope and name, or the newest flaky ones first when the filter asks for flaky tests.
func listTests(q *db.Q, suiteID string, f testFilter, limit, offset int) ([]Test, error) {
	var s db.Statement
	f.restrict(suiteID, &s)
	order := "t.scope, t.name"
	if f.flaky {
		order = "t.flaky_at DESC, t.id"
	}
	tests, err := db.All(q, scanTest, `
		SELECT `+testColumns+` FROM tests t
		`+s.Clause()+`
		ORDER BY `+order+`
		LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return withLabels(q, tests, itself, err)
}

// Metrics are what happened to a test in a number of days, or in a build.
type Metrics struct {
	Counts
	Shortest, Longest time.Duration
	Flaky             int // commits on which it was found to be flaky
}

// dest returns where to scan the columns of Counts and the shortest and the longest duration.
func (m *Metrics) dest() []any {
	return append(m.Counts.dest(), micros(&m.Shortest), micros(&m.Longest))
}

// Reliability is the part of passed executions among those that passed or failed; nil when there are none.
func (m *Metrics) Reliability() *float64 {
	if m.Passed+m.Failed == 0 {
		return nil
	}
	return new(float64(m.Passed) / float64(m.Passed+m.Failed))
}

// Average is that of the durations.
func (m *Metrics) Average() time.Duration {
	if m.Total() == 0 {
		return 0
	}
	return m.Duration / time.Duration(m.Total())
}

// days is a range of days, both included.
type days struct{ first, last int64 }

// condition returns the condition that d.day is in the range. It lists the days, so that the engines look up the rows of
// a test by their whole keys instead of reading those of all tests, and has the bounds too, for plans that read a range.
func (d days) condition() string {
	var all []int64
	for day := d.first; day <= d.last; day++ {
		all = append(all, day)
	}
	return fmt.Sprintf("d.day IN (%s) AND d.day BETWEEN %d AND %d", integers(all), d.first, d.last)
}

// sums are the columns of test_days d that Metrics.dest reads.
const sums = `SUM(d.passed), SUM(d.failed), SUM(d.skipped), SUM(d.pending), SUM(d.unknown), SUM(d.duration_sum), MIN(d.duration_min), MAX(d.duration_max)`

// metricsOf returns what happened to tests of a suite within days.
func metricsOf(q *db.Q, suiteID string, ids []string, within days) (map[string]*Metrics, error) {
	metrics := make(map[string]*Metrics, len(ids))
	if len(ids) == 0 {
		return metrics, nil
	}
	in, arg := q.In("d.test_id", 2, ids)
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var m Metrics
		err := scan(append([]any{&id, &m.Flaky}, m.dest()...)...)
		metrics[id] = &m
		return err
	}, fmt.Sprintf(`
		SELECT d.test_id, SUM(d.flaky), %s
		FROM test_days d
		WHERE d.suite_id = $1 AND %s AND %s
		GROUP BY d.test_id`, sums, within.condition(), in), suiteID, arg)
	return metrics, err
}

// metricOrders are the metrics that tests can be sorted by, as expressions over sums.
var metricOrders = map[string]string{
	"duration_avg": `SUM(d.duration_sum) / SUM(d.passed + d.failed + d.skipped + d.pending + d.unknown)`,
	"duration_sum": `SUM(d.duration_sum)`,
	"duration_min": `MIN(d.duration_min)`,
	"duration_max": `MAX(d.duration_max)`,
	"reliability":  `CASE WHEN SUM(d.passed + d.failed) > 0 THEN SUM(d.passed) * 1000000 / SUM(d.passed + d.failed) END`,
}

// sortedTests returns tests of a suite that were executed within days, sorted by a metric.
func sortedTests(q *db.Q, suiteID string, f testFilter, within days, by string, descending bool, limit, offset int) ([]Test, error) {
	var s db.Statement
	f.restrict(suiteID, &s)
	order := metricOrders[by]
	if descending {
		order += " DESC"
	}
	tests, err := db.All(q, scanTest, `
		SELECT `+testColumns+`
		FROM tests t
		JOIN test_days d ON d.suite_id = t.suite_id AND d.test_id = t.id AND d.day BETWEEN `+s.Arg(within.first)+` AND `+s.Arg(within.last)+`
		`+s.Clause()+`
		GROUP BY `+testColumns+`
		ORDER BY `+order+` NULLS LAST, t.id
		LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return withLabels(q, tests, itself, err)
}

// A Day is what happened to a test on a day.
type Day struct {
	Day int64
	Metrics
}

// daysOf returns the days within a range on which tests of a suite were executed, by test, oldest first.
func daysOf(q *db.Q, suiteID string, ids []string, within days) (map[string][]Day, error) {
	found := make(map[string][]Day, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	in, arg := q.In("d.test_id", 2, ids)
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var d Day
		err := scan(append([]any{&id, &d.Day, &d.Flaky}, d.dest()...)...)
		found[id] = append(found[id], d)
		return err
	}, fmt.Sprintf(`
		SELECT d.test_id, d.day, d.flaky, d.passed, d.failed, d.skipped, d.pending, d.unknown, d.duration_sum, d.duration_min, d.duration_max
		FROM test_days d
		WHERE d.suite_id = $1 AND %s AND %s`, within.condition(), in), suiteID, arg)
	for _, list := range found {
		slices.SortFunc(list, func(a, b Day) int { return int(a.Day - b.Day) })
	}
	return found, err
}
