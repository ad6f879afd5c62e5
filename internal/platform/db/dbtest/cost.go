package dbtest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
)

// A Recorder records the statements of a database that read or change existing rows: all but inserts.
type Recorder struct {
	mu         sync.Mutex
	statements []Statement
}

// A Statement is an SQL text with its arguments.
type Statement struct {
	Text string
	Args []any
}

// Record returns a recorder of the statements that run from now on.
func Record(d *db.DB) *Recorder {
	r := &Recorder{}
	d.OnStatement(func(text string, args []any) {
		verb, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		if !slices.Contains([]string{"SELECT", "WITH", "UPDATE", "DELETE"}, strings.TrimSpace(verb)) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.statements = append(r.statements, Statement{text, slices.Clone(args)})
	})
	return r
}

// Take returns the statements that ran since the last call.
func (r *Recorder) Take() []Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.statements
	r.statements = nil
	return taken
}

// RowsRead runs statements on a PostgreSQL database and returns how many rows they read of each table. Their
// changes are rolled back. The plans are those for large tables: indexes are used if there are any, however few
// rows there are.
func RowsRead(t testing.TB, d *db.DB, statements []Statement) map[string]int {
	t.Helper()
	rows := map[string]int{}
	err := d.Write(t.Context(), func(q *db.Q) error {
		_, err := q.Exec(`ANALYZE`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		err := rolledBack(t, d, func(q *db.Q) error {
			for _, setting := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin"} {
				if _, err := q.Exec(`SET LOCAL ` + setting + ` = off`); err != nil {
					return err
				}
			}
			var text string
			if err := q.QueryRow(`EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) `+s.Text, s.Args...).Scan(&text); err != nil {
				return err
			}
			var plans []struct{ Plan planNode }
			if err := json.Unmarshal([]byte(text), &plans); err != nil {
				return err
			}
			plans[0].Plan.count(rows)
			return nil
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Text)
		}
	}
	return rows
}

// A planNode is a node in the output of EXPLAIN.
type planNode struct {
	Relation string     `json:"Relation Name"`
	Kind     string     `json:"Node Type"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Filtered float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

func (n planNode) count(rows map[string]int) {
	if n.Relation != "" && strings.Contains(n.Kind, "Scan") {
		rows[n.Relation] += int((n.Rows + n.Filtered) * n.Loops)
	}
	for _, below := range n.Plans {
		below.count(rows)
	}
}

// Plan returns the query plan of a SQLite database for a statement, one step per line.
func Plan(t testing.TB, d *db.DB, s Statement) string {
	t.Helper()
	var lines []string
	err := rolledBack(t, d, func(q *db.Q) (err error) {
		lines, err = db.All(q, func(scan db.Scan) (line string, err error) {
			var id, parent, unused int
			return line, scan(&id, &parent, &unused, &line)
		}, `EXPLAIN QUERY PLAN `+s.Text, s.Args...)
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Text)
	}
	return strings.Join(lines, "\n")
}

// rolledBack runs fn in a transaction that is rolled back.
func rolledBack(t testing.TB, d *db.DB, fn func(q *db.Q) error) error {
	rollback := errors.New("rolled back")
	err := d.Write(t.Context(), func(q *db.Q) error {
		if err := fn(q); err != nil {
			return err
		}
		return rollback
	})
	if errors.Is(err, rollback) {
		return nil
	}
	return err
}
