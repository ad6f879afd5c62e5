package db_test

import (
	"fmt"
	"slices"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

type fruit struct {
	id    string
	note  string
	count int
	ripe  bool
	tags  []string
}

func (f fruit) values() []any {
	return []any{f.id, db.Text(f.note), f.count, f.ripe, db.JSON(f.tags)}
}

func scanFruit(scan db.Scan) (f fruit, err error) {
	return f, scan(&f.id, db.ToText(&f.note), &f.count, &f.ripe, db.ToJSON(&f.tags))
}

// insertFruits inserts rows into a new table, and returns the statements it took.
func insertFruits(t *testing.T, d *db.DB, n int, after string) (texts []string) {
	t.Helper()
	fruits := make([]fruit, n)
	for i := range fruits {
		fruits[i] = fruit{id: fmt.Sprintf("%05d", i), count: i, ripe: i%3 == 0}
		if i%2 == 0 {
			fruits[i].note, fruits[i].tags = "it's “good”, {a,b}", []string{"x", `"y"`}
		}
	}
	d.OnStatement(func(text string, _ []any) { texts = append(texts, text) })
	err := d.Write(t.Context(), func(q *db.Q) error {
		return db.InsertMany(q, `INSERT INTO fruits (id, note, count, ripe, tags)`, fruits, fruit.values, after)
	})
	if err != nil {
		t.Fatal(err)
	}
	d.OnStatement(func(string, []any) {})
	err = d.Read(t.Context(), func(q *db.Q) error {
		got, err := db.All(q, scanFruit, `SELECT id, note, count, ripe, tags FROM fruits ORDER BY id`)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(fruits) {
			t.Errorf("inserted %d rows, got %v", n, got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func fruitTable(t *testing.T, d *db.DB) {
	t.Helper()
	write(t, d, `CREATE TABLE fruits (id TEXT PRIMARY KEY, note TEXT, count BIGINT NOT NULL, ripe BOOLEAN NOT NULL, tags TEXT)`)
}

func TestInsertMany_InsertsAnyNumberOfRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fruitTable(t, d)
		texts := map[string]bool{}
		for _, n := range []int{0, 1, 2, 3, 64, 65, 127, 500} {
			for _, text := range insertFruits(t, d, n, "") {
				texts[text] = true
			}
			write(t, d, `DELETE FROM fruits`)
		}
		if want := map[db.Engine]int{db.SQLite: 7, db.PostgreSQL: 2}[d.Engine()]; len(texts) != want {
			t.Errorf("used %d statement texts, want %d", len(texts), want)
		}
	})
}

func TestInsertMany_ResolvesConflicts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fruitTable(t, d)
		write(t, d, `INSERT INTO fruits (id, count, ripe) VALUES ('00001', 77, FALSE)`)
		insertFruits(t, d, 3, `ON CONFLICT (id) DO UPDATE SET count = excluded.count`)
	})
}

func TestInsertMany_FailsWhenAColumnDoesNotExist(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fruitTable(t, d)
		for range 2 {
			err := d.Write(t.Context(), func(q *db.Q) error {
				return db.InsertMany(q, `INSERT INTO fruits (id, size)`, []int{1, 2}, func(n int) []any { return []any{fmt.Sprint(n), n} }, "")
			})
			if err == nil {
				t.Error("no error")
			}
		}
	})
}

func TestValues_YieldsRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, rows := range [][][]any{{}, {{"a", 1, true}}, {{"b", nil, false}, {nil, 3, nil}, {`"c"`, 1 << 62, true}}} {
			var got []string
			err := d.Read(t.Context(), func(q *db.Q) error {
				values, args, err := q.Values(2, []string{"text", "bigint", "boolean"}, rows)
				if err != nil {
					return err
				}
				return db.Each(q, func(scan db.Scan) error {
					var text string
					var number *int64
					var truth *bool
					err := scan(db.ToText(&text), &number, &truth)
					got = append(got, fmt.Sprint(text, number != nil, truth != nil && *truth))
					return err
				}, `WITH v (a, b, c) AS (`+values+`) SELECT a, b, c FROM v WHERE CAST($1 AS text) = 'yes'`, append([]any{"yes"}, args...)...)
			})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, r := range rows {
				text, _ := r[0].(string)
				truth, _ := r[2].(bool)
				want = append(want, fmt.Sprint(text, r[1] != nil, truth))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestStrings_ReturnsOneColumn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		fruitTable(t, d)
		write(t, d, `INSERT INTO fruits (id, note, count, ripe) VALUES ('a', 'x', 1, TRUE), ('b', NULL, 1, TRUE)`)
		err := d.Read(t.Context(), func(q *db.Q) error {
			got, err := db.Strings(q, `SELECT note FROM fruits WHERE count = $1 ORDER BY id`, 1)
			if !slices.Equal(got, []string{"x", ""}) {
				t.Errorf("got %q", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
