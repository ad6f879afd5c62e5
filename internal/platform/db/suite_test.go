package db_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// All tests in this file run on both engines.

// counters creates a table of numbers with one row, "a", at zero.
func counters(t testing.TB, d *db.DB) {
	t.Helper()
	write(t, d, `CREATE TABLE counters (id TEXT PRIMARY KEY, n BIGINT NOT NULL)`)
	write(t, d, `INSERT INTO counters (id, n) VALUES ('a', 0)`)
}

func write(t testing.TB, d *db.DB, statement string, args ...any) {
	t.Helper()
	if err := d.Write(t.Context(), execute(statement, args...)); err != nil {
		t.Fatal(err)
	}
}

// execute returns a function for Write that runs one statement.
func execute(statement string, args ...any) func(*db.Q) error {
	return func(q *db.Q) error {
		_, err := q.Exec(statement, args...)
		return err
	}
}

// number reads one number.
func number(t testing.TB, d *db.DB, query string, args ...any) (n int) {
	t.Helper()
	err := d.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(query, args...).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func scanText(scan db.Scan) (s string, err error) {
	err = scan(&s)
	return s, err
}

func TestWrite_RollsBackWhatFailed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		refused := errors.New("refused")
		err := d.Write(t.Context(), func(q *db.Q) error {
			if _, err := q.Exec(`UPDATE counters SET n = 7`); err != nil {
				return err
			}
			return refused
		})
		if err != refused {
			t.Errorf("got error %v", err)
		}
		if n := number(t, d, `SELECT n FROM counters`); n != 0 {
			t.Errorf("n is %d after a write that failed", n)
		}
	})
}

func TestWrite_IsSpoiledByAFailedStatementThatIsIgnored(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		err := d.Write(t.Context(), func(q *db.Q) error {
			q.Exec(`UPDATE counters SET n = 7`)
			q.Exec(`INSERT INTO counters (id, n) VALUES ('a', 1)`)
			q.Exec(`UPDATE counters SET n = 8`)
			return nil
		})
		if !db.IsUnique(err) {
			t.Errorf("got error %v", err)
		}
		if n := number(t, d, `SELECT n FROM counters`); n != 0 {
			t.Errorf("n is %d after a write that was spoiled", n)
		}
	})
}

func TestWrite_LetsAPanicThroughAndRollsBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		func() {
			defer func() {
				if r := recover(); r != "out of paper" {
					t.Errorf("recovered %v", r)
				}
			}()
			d.Write(t.Context(), func(q *db.Q) error {
				q.Exec(`UPDATE counters SET n = 7`)
				panic("out of paper")
			})
		}()
		write(t, d, `UPDATE counters SET n = n + 1`)
		if n := number(t, d, `SELECT n FROM counters`); n != 1 {
			t.Errorf("n is %d, want 1", n)
		}
	})
}

func TestWrite_SurvivesAFunctionThatEndsItsGoroutine(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		var wait sync.WaitGroup
		wait.Go(func() {
			d.Write(t.Context(), func(q *db.Q) error {
				q.Exec(`UPDATE counters SET n = 7`)
				runtime.Goexit() // as t.Fatal does
				return nil
			})
		})
		wait.Wait()
		write(t, d, `UPDATE counters SET n = n + 1`)
		if n := number(t, d, `SELECT n FROM counters`); n != 1 {
			t.Errorf("n is %d, want 1", n)
		}
	})
}

func TestWrite_DoesNotRunWhenItsContextIsDone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := d.Write(ctx, func(*db.Q) error {
			t.Error("it ran")
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestWrite_ReportsWhatBecameOfItWhenItsContextEndsOnTheWay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		err := d.Write(ctx, func(q *db.Q) error {
			_, err := q.Exec(`UPDATE counters SET n = n + 1`)
			cancel()
			return err
		})
		// All statements have run on both engines, and a commit is not canceled.
		if err != nil {
			t.Errorf("got error %v", err)
		}
		write(t, d, `UPDATE counters SET n = n + 1`)
		if n := number(t, d, `SELECT n FROM counters`); n != 2 {
			t.Errorf("n is %d, want 2", n)
		}
	})
}

func TestLock_LosesNoIncrementOfMany(t *testing.T) {
	loseNoIncrement(t, func(q *db.Q) (n int, err error) {
		if err := q.Lock("counters", "a"); err != nil {
			return 0, err
		}
		return n, q.QueryRow(`SELECT n FROM counters WHERE id = $1`, "a").Scan(&n)
	})
}

func TestLocking_LosesNoIncrementOfMany(t *testing.T) {
	loseNoIncrement(t, func(q *db.Q) (n int, err error) {
		err = q.QueryRow(`
			SELECT c.n FROM counters c LEFT JOIN installation i ON i.name = c.id
			WHERE c.id = $1`+q.Locking("c"), "a").Scan(&n)
		return n, err
	})
}

// loseNoIncrement lets many goroutines increment a counter with read, which locks it, and checks that no
// increment is lost.
func loseNoIncrement(t *testing.T, read func(q *db.Q) (int, error)) {
	const callers, each = 16, 20
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				for range each {
					err := d.Write(t.Context(), func(q *db.Q) error {
						n, err := read(q)
						if err != nil {
							return err
						}
						_, err = q.Exec(`UPDATE counters SET n = $1 WHERE id = $2`, n+1, "a")
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if n := number(t, d, `SELECT n FROM counters`); n != callers*each {
			t.Errorf("n is %d, want %d", n, callers*each)
		}
	})
}

func TestLockName_LetsOneDecideAtATime(t *testing.T) {
	const callers = 16
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `CREATE TABLE tickets (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE)`)
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				err := d.Write(t.Context(), func(q *db.Q) error {
					if err := q.LockName("numbers"); err != nil {
						return err
					}
					_, err := q.Exec(`INSERT INTO tickets (id, number) SELECT $1, coalesce(max(number), 0) + 1 FROM tickets`, core.NewID())
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := number(t, d, `SELECT max(number) FROM tickets`); n != callers {
			t.Errorf("the highest number is %d, want %d", n, callers)
		}
	})
}

func TestReadAndWrite_RefuseToBeNested(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		type way = func(context.Context, func(*db.Q) error) error
		for _, outer := range []way{d.Read, d.Write} {
			for _, inner := range []way{d.Read, d.Write} {
				func() {
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					outer(t.Context(), func(q *db.Q) error { return inner(q.Context(), func(*db.Q) error { return nil }) })
				}()
			}
		}
	})
}

func TestRead_CannotWriteOrLock(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for name, fn := range map[string]func(*db.Q) error{
			"exec":      execute(`DELETE FROM installation`),
			"lock":      func(q *db.Q) error { return q.Lock("installation", "x") },
			"lock name": func(q *db.Q) error { return q.LockName("x") },
		} {
			if err := d.Read(t.Context(), fn); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

func TestRead_IsCancelledWithItsContextAndLeavesTheNextOneAlone(t *testing.T) {
	const endless = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for range 6 { // more than there are readers
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			err := d.Read(ctx, func(q *db.Q) error {
				var n int
				return q.QueryRow(endless).Scan(&n)
			})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got error %v", err)
			}
			if n := number(t, d, `SELECT 1`); n != 1 {
				t.Errorf("read %d", n)
			}
		}
	})
}

func TestQ_IsOfNoUseAfterItsEnd(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var kept *db.Q
		keep := func(q *db.Q) error { kept = q; return nil }
		for name, err := range map[string]error{"read": d.Read(t.Context(), keep), "write": d.Write(t.Context(), keep)} {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kept.Exec(`DELETE FROM installation`); err == nil {
				t.Errorf("a statement after the %s: no error", name)
			}
		}
	})
}

func TestQ_ClosesRowsThatWereLeftOpen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		write(t, d, `INSERT INTO counters (id, n) VALUES ('b', 0), ('c', 0)`)
		for range 20 {
			err := d.Write(t.Context(), func(q *db.Q) error {
				if _, err := q.Exec(`UPDATE counters SET n = n + 1`); err != nil {
					return err
				}
				rows, err := q.Query(`SELECT id FROM counters`)
				if err != nil {
					return err
				}
				rows.Next()
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := number(t, d, `SELECT n FROM counters WHERE id = 'a'`); n != 20 {
			t.Errorf("n is %d, want 20", n)
		}
	})
}

func TestIn_TakesAnyNumberOfValues(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `CREATE TABLE words (word TEXT PRIMARY KEY, kind TEXT NOT NULL)`)
		var words []string
		err := d.Write(t.Context(), func(q *db.Q) error {
			words = nil
			for i := range 1000 {
				words = append(words, fmt.Sprintf("it's \"%d\" <ü>", i))
				if _, err := q.Exec(`INSERT INTO words (word, kind) VALUES ($1, 'x')`, words[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, values := range [][]string{nil, {}, {"nothing"}, words[:1], words[:2], words, append(words[5:7:7], "nothing")} {
			err := d.Read(t.Context(), func(q *db.Q) error {
				in, list := q.In("word", 2, values)
				found, err := db.All(q, scanText, `SELECT word FROM words WHERE kind = $1 AND `+in, "x", list)
				if err != nil {
					return err
				}
				want := slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "nothing" })
				slices.Sort(want)
				slices.Sort(found)
				if !slices.Equal(found, want) {
					t.Errorf("of %d values found %d", len(values), len(found))
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAll_IsEmptyAndNotNilWithoutRows(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		err := d.Read(t.Context(), func(q *db.Q) error {
			all, err := db.All(q, scanText, `SELECT name FROM installation`)
			if all == nil || len(all) != 0 {
				t.Errorf("got %#v", all)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestOne_ReportsWhenThereIsNone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		err := d.Read(t.Context(), func(q *db.Q) error {
			_, err := db.One(q, scanText, `SELECT name FROM installation WHERE name = $1`, "x")
			return err
		})
		if !errors.Is(err, db.ErrNoRows) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestOne_ReturnsWhatAnInsertMade(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var name string
		err := d.Write(t.Context(), func(q *db.Q) (err error) {
			name, err = db.One(q, scanText, `INSERT INTO installation (name, value) VALUES ($1, $2) RETURNING name`, "id", "1")
			return err
		})
		if err != nil || name != "id" {
			t.Errorf("got %q, %v", name, err)
		}
		if n := number(t, d, `SELECT count(*) FROM installation`); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}

func TestOne_ReportsACollisionOfAnInsertThatReturns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		insert := func(q *db.Q) error {
			_, err := db.One(q, scanText, `INSERT INTO installation (name, value) VALUES ($1, $2) RETURNING name`, "id", "1")
			return err
		}
		if err := d.Write(t.Context(), insert); err != nil {
			t.Fatal(err)
		}
		if err := d.Write(t.Context(), insert); !db.IsUnique(err) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestUniqueConstraint_NamesWhatCollides(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `CREATE TABLE books (id TEXT PRIMARY KEY, shelf TEXT NOT NULL, place TEXT NOT NULL, title TEXT NOT NULL, UNIQUE (shelf, place))`)
		write(t, d, `CREATE UNIQUE INDEX books_by_folded_title ON books (shelf, lower(title))`)
		write(t, d, `INSERT INTO books (id, shelf, place, title) VALUES ('1', 'o', 's', 'n')`)
		for values, want := range map[string]string{
			`('1', 'p', 't', 'm')`: "id",
			`('2', 'o', 's', 'm')`: "place",
			`('2', 'o', 't', 'N')`: "books_by_folded_title",
		} {
			err := d.Write(t.Context(), execute(`INSERT INTO books (id, shelf, place, title) VALUES `+values))
			if !db.IsUnique(err) {
				t.Errorf("%s: got error %v", values, err)
			}
			if c := db.UniqueConstraint(fmt.Errorf("create: %w", err)); !strings.Contains(c, want) {
				t.Errorf("%s: collides in %q, want %q", values, c, want)
			}
		}
		err := d.Write(t.Context(), execute(`INSERT INTO books (id, shelf, place, title) VALUES ('2', 'o', NULL, 'm')`))
		if err == nil || db.IsUnique(err) || db.UniqueConstraint(err) != "" {
			t.Errorf("a missing value: %v", err)
		}
	})
}

func TestWrite_ReportsTheCommitThatWasRefusedToItsCallerOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `CREATE TABLE parents (id TEXT PRIMARY KEY)`)
		write(t, d, `CREATE TABLE children (id TEXT PRIMARY KEY, parent_id TEXT NOT NULL REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`)
		var wait sync.WaitGroup
		for i := range 30 {
			wait.Go(func() {
				err := d.Write(t.Context(), func(q *db.Q) error {
					id := fmt.Sprint(i)
					if i%10 != 0 {
						if _, err := q.Exec(`INSERT INTO parents (id) VALUES ($1)`, id); err != nil {
							return err
						}
					}
					_, err := q.Exec(`INSERT INTO children (id, parent_id) VALUES ($1, $2)`, id, id)
					return err
				})
				if orphan := i%10 == 0; orphan != (err != nil) {
					t.Errorf("%d: got error %v", i, err)
				}
			})
		}
		wait.Wait()
		if n := number(t, d, `SELECT count(*) FROM children`); n != 27 {
			t.Errorf("%d children, want 27", n)
		}
	})
}

func TestText_SortsByItsBytes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, name := range []string{"b", "ä", "B", "a-b", "ab", "A"} {
			write(t, d, `INSERT INTO installation (name, value) VALUES ($1, '')`, name)
		}
		err := d.Read(t.Context(), func(q *db.Q) error {
			sorted, err := db.All(q, scanText, `SELECT name FROM installation ORDER BY name`)
			if want := []string{"A", "B", "a-b", "ab", "b", "ä"}; !slices.Equal(sorted, want) {
				t.Errorf("sorted %q, want %q", sorted, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestLike_MindsCase(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		write(t, d, `INSERT INTO installation (name, value) VALUES ('Main', ''), ('main', ''), ('m_in', '')`)
		for pattern, want := range map[string]int{"main": 1, "M%": 1, "m%": 2, `m\_in`: 1, "m_in": 2} {
			if n := number(t, d, `SELECT count(*) FROM installation WHERE name LIKE $1 ESCAPE '\'`, pattern); n != want {
				t.Errorf("%d are like %s, want %d", n, pattern, want)
			}
		}
	})
}

func TestPing_IsWellWithAnOpenDatabaseOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		d.Close()
		if err := d.Ping(t.Context()); err == nil {
			t.Error("no error from a closed database")
		}
		if err := d.Write(t.Context(), execute(`SELECT 1`)); core.KindOf(err) != core.Unavailable {
			t.Errorf("a write to a closed database: %v", err)
		}
		if err := d.Read(t.Context(), func(*db.Q) error { return nil }); core.KindOf(err) != core.Unavailable {
			t.Errorf("a read of a closed database: %v", err)
		}
	})
}

func TestStatements_CountsThoseOfReadsAndWrites(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		before := d.Statements()
		write(t, d, `INSERT INTO counters (id, n) VALUES ('b', 0)`)
		number(t, d, `SELECT n FROM counters WHERE id = 'b'`)
		if ran := d.Statements() - before; ran != 2 {
			t.Errorf("it counts %d statements, want 2", ran)
		}
	})
}

func TestWriteOne_IsATransactionOfOneStatement(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		counters(t, d)
		before := d.Statements()
		var n int
		err := d.WriteOne(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`UPDATE counters SET n = n + 1 WHERE id = 'a' RETURNING n`).Scan(&n)
		})
		if err != nil || n != 1 {
			t.Errorf("it returned %d, %v", n, err)
		}
		if ran := d.Statements() - before; ran != 1 {
			t.Errorf("it counts %d statements, want 1", ran)
		}
		if got := number(t, d, `SELECT n FROM counters WHERE id = 'a'`); got != 1 {
			t.Errorf("it wrote %d, want 1", got)
		}
		if err := d.WriteOne(t.Context(), execute(`INSERT INTO counters (id, n) VALUES ('a', 0)`)); !db.IsUnique(err) {
			t.Errorf("a collision: %v", err)
		}
		defer func() {
			if recover() == nil {
				t.Error("a second statement is let through")
			}
		}()
		d.WriteOne(t.Context(), func(q *db.Q) error {
			q.Exec(`UPDATE counters SET n = 2`)
			_, err := q.Exec(`UPDATE counters SET n = 3`)
			return err
		})
	})
}

func TestClock_IsThePresent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var now time.Time
		before := time.Now()
		err := d.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT ` + q.Clock()).Scan(db.ToTime(&now))
		})
		// Both clocks are those of this machine. SQLite's has milliseconds.
		if err != nil || now.Before(before.Add(-time.Millisecond)) || now.After(time.Now()) {
			t.Errorf("the database says %v, %v", now, err)
		}
	})
}
