package testresults

import (
	"slices"

	"stackyard/internal/platform/db"
)

// A TestState says whether people want a test to run and its failures to count. The server only keeps it: clients ask
// for muted and skipped tests, and act on them.
type TestState string

// The states of tests.
const (
	Enabled     TestState = "enabled"
	Muted       TestState = "muted"
	SkippedTest TestState = "skipped"
)

// Values lists every state.
func (TestState) Values() []string {
	return []string{string(Enabled), string(Muted), string(SkippedTest)}
}

// flakyLabel is the label of tests that are flaky: those that were found to be, and those that people gave it to.
const flakyLabel = "flaky"

// A labelFilter wants tests that have a label, or that do not have it.
type labelFilter struct {
	label  string
	wanted bool
}

func (f labelFilter) restrict(s *db.Statement) {
	condition := `EXISTS (SELECT 1 FROM test_labels l WHERE l.test_id = t.id AND l.label = ` + s.Arg(f.label) + `)`
	if f.label == flakyLabel {
		condition = `(t.flaky_count > 0 OR ` + condition + `)`
	}
	if !f.wanted {
		condition = `NOT ` + condition
	}
	s.And(condition)
}

// withLabels adds to tests the labels that people have given them. The tests come from a query that may have failed.
func withLabels[T any](q *db.Q, tests []T, test func(*T) *Test, err error) ([]T, error) {
	if err != nil || len(tests) == 0 {
		return tests, err
	}
	byID, ids := make(map[string]*Test, len(tests)), make([]string, len(tests))
	for i := range tests {
		t := test(&tests[i])
		byID[t.ID], ids[i] = t, t.ID
	}
	in, arg := q.In("test_id", 1, ids)
	err = db.Each(q, func(scan db.Scan) error {
		var id, label string
		if err := scan(&id, &label); err != nil {
			return err
		}
		if t := byID[id]; !slices.Contains(t.Labels, label) {
			t.Labels = append(t.Labels, label)
		}
		return nil
	}, `SELECT test_id, label FROM test_labels WHERE `+in+` ORDER BY test_id, label`, arg)
	return tests, err
}

func itself(t *Test) *Test { return t }

func addLabels(q *db.Q, suiteID, testID string, labels []string) error {
	return db.InsertMany(q, `INSERT INTO test_labels (test_id, label, suite_id)`, labels,
		func(label string) []any { return []any{testID, label, suiteID} }, "ON CONFLICT DO NOTHING")
}

func removeLabels(q *db.Q, testID string, labels []string) error {
	in, arg := q.In("label", 2, labels)
	if _, err := q.Exec(`DELETE FROM test_labels WHERE test_id = $1 AND `+in, testID, arg); err != nil || !slices.Contains(labels, flakyLabel) {
		return err
	}
	_, err := q.Exec(`UPDATE tests SET flaky_count = 0, flaky_at = NULL WHERE id = $1`, testID)
	return err
}
