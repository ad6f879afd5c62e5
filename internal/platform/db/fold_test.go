package db_test

import (
	"errors"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// sums adds numbers to the row "a" of counters.
var sums = &db.Fold[int]{Write: func(q *db.Q, values []int) error {
	sum := 0
	for _, v := range values {
		sum += v
	}
	return q.Later(`UPDATE counters SET n = n + $1 WHERE id = 'a'`, sum)
}}

func TestFold_WritesTheValuesOfWritesThatSucceed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		refused := errors.New("refused")
		var writes sync.WaitGroup
		for range 20 {
			writes.Go(func() {
				err := d.Write(t.Context(), func(q *db.Q) error {
					sums.Add(q, 2)
					sums.Add(q, 3)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			writes.Go(func() {
				err := d.Write(t.Context(), func(q *db.Q) error {
					sums.Add(q, 1000)
					return refused
				})
				if !errors.Is(err, refused) {
					t.Errorf("a refused write: %v", err)
				}
			})
		}
		writes.Wait()
		if n := number(t, d, `SELECT n FROM counters`); n != 100 {
			t.Errorf("the sum is %d, want 100", n)
		}
	})
}

func TestFold_IsSeenByWatchesAndLosesTheWriteWhenItFails(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	counters(t, d)
	watch := d.Watch("counters")
	before, statements := watch.Version(), d.Statements()
	if err := d.Write(t.Context(), func(q *db.Q) error { sums.Add(q, 1); return nil }); err != nil {
		t.Fatal(err)
	}
	if watch.Version() == before || d.Statements() != statements+1 {
		t.Errorf("a fold ran %d statements, and the watch saw %d changes", d.Statements()-statements, watch.Version()-before)
	}
	wrong := &db.Fold[int]{Write: func(q *db.Q, _ []int) error { return q.Later(`UPDATE counters SET nothing = 1`) }}
	err := d.Write(t.Context(), func(q *db.Q) error {
		wrong.Add(q, 1)
		_, err := q.Exec(`UPDATE counters SET n = 50`)
		return err
	})
	if err == nil {
		t.Error("a write with a fold that fails succeeded")
	}
	if n := number(t, d, `SELECT n FROM counters`); n != 1 {
		t.Errorf("n is %d, want 1", n)
	}
}

func TestCached_ReturnsWhatReadingWouldReturn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		cached, reads := db.NewCached[string, int](d, 10, "counters"), 0
		get := func(q *db.Q) (n int) {
			n, err := cached.Get(q, "a", func(q *db.Q) (n int, err error) {
				reads++
				return n, q.QueryRow(`SELECT n FROM counters WHERE id = 'a'`).Scan(&n)
			})
			if err != nil {
				t.Error(err)
			}
			return n
		}
		check := func(what string, want int) {
			t.Helper()
			err := d.Read(t.Context(), func(q *db.Q) error {
				if n := get(q); n != want {
					t.Errorf("%s: %d, want %d", what, n, want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		check("at first", 0)
		check("again", 0)
		if d.Engine() == db.SQLite && reads != 1 {
			t.Errorf("read %d times, want 1", reads)
		}
		refused := errors.New("refused")
		for _, result := range []error{nil, refused} {
			err := d.Write(t.Context(), func(q *db.Q) error {
				before := get(q)
				if _, err := q.Exec(`UPDATE counters SET n = n + 1`); err != nil {
					return err
				}
				if n := get(q); n != before+1 {
					t.Errorf("after a change in the same transaction: %d, want %d", n, before+1)
				}
				return result
			})
			if !errors.Is(err, result) {
				t.Fatal(err)
			}
			check("after a transaction", 1)
		}
		before := reads
		err := d.Write(t.Context(), func(q *db.Q) error { get(q); return nil })
		if err != nil || d.Engine() == db.SQLite && reads != before {
			t.Errorf("a write that changes nothing read %d times, %v", reads-before, err)
		}
	})
}

func TestEachLater_ReadsBeforeTheNextStatement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		var before, after, added int
		read := func(q *db.Q, n *int) error {
			return db.EachLater(q, func(scan db.Scan) error { return scan(n) }, `SELECT n FROM counters WHERE id = $1`, "a")
		}
		err := d.Write(t.Context(), func(q *db.Q) error {
			insert := db.EachLater(q, func(scan db.Scan) error { return scan(&added) }, `INSERT INTO counters (id, n) VALUES ('b', $1) RETURNING n`, 7)
			return errors.Join(read(q, &before), q.Later(`UPDATE counters SET n = n + 5 WHERE id = 'a'`), read(q, &after), insert, q.Flush())
		})
		if err != nil || before != 0 || after != 5 || added != 7 {
			t.Errorf("read %d, %d and %d, %v; want 0, 5 and 7", before, after, added, err)
		}
		refused := errors.New("refused")
		err = d.Write(t.Context(), func(q *db.Q) error {
			return errors.Join(q.Later(`UPDATE counters SET n = 100`), db.EachLater(q, func(db.Scan) error { return refused }, `SELECT n FROM counters`))
		})
		if !errors.Is(err, refused) {
			t.Errorf("a write whose scan failed: %v", err)
		}
		var last int
		if err := d.Read(t.Context(), func(q *db.Q) error { return read(q, &last) }); err != nil || last != 5 {
			t.Errorf("read %d, %v; want 5", last, err)
		}
	})
}
