package db_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// These tests need other processes: this test binary, started again with a role and the URL of a database in
// its environment.

const roleVariable, urlVariable = "DB_TEST_ROLE", "DB_TEST_URL"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, os.Getenv(urlVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process returns a command for another process with a role.
func process(t *testing.T, role, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, urlVariable+"="+url)
	cmd.Stderr = t.Output()
	return cmd
}

func play(role, url string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, url, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	switch role {
	case "migrate":
		return d.Migrate(ctx)
	case "increment":
		if err := increment(ctx, d); err != nil {
			return err
		}
		return d.Close()
	case "insert":
		return insertForever(ctx, d, os.Stdout)
	default:
		return fmt.Errorf("no role %q", role)
	}
}

const incrementers, increments = 8, 25

// increment adds one to a counter many times.
func increment(ctx context.Context, d *db.DB) error {
	failed := make(chan error, incrementers)
	for range incrementers {
		go func() {
			for range increments {
				if err := d.Write(ctx, execute(`UPDATE counters SET n = n + 1 WHERE id = $1`, "a")); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range incrementers {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

func TestWrite_LosesNothingToOtherProcesses(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			d := dbtest.Open(t, url)
			counters(t, d)
			others := []*exec.Cmd{process(t, "increment", url), process(t, "increment", url)}
			for _, other := range others {
				if err := other.Start(); err != nil {
					t.Fatal(err)
				}
			}
			if err := increment(t.Context(), d); err != nil {
				t.Error(err)
			}
			for _, other := range others {
				if err := other.Wait(); err != nil {
					t.Error(err)
				}
			}
			if n, want := number(t, d, `SELECT n FROM counters`), 3*incrementers*increments; n != want {
				t.Errorf("n is %d, want %d", n, want)
			}
		})
	}
}

const inserters = 8

// insertForever inserts numbers, each in its own write, and prints each when it is acknowledged.
func insertForever(ctx context.Context, d *db.DB, acknowledged io.Writer) error {
	first := 0
	err := d.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`SELECT coalesce(max(n), 0) FROM numbers`).Scan(&first)
	})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for i := range inserters {
		go func() {
			for n := first + 1 + i; ; n += inserters {
				if err := d.Write(ctx, execute(`INSERT INTO numbers (n) VALUES ($1)`, n)); err != nil {
					failed <- err
					return
				}
				fmt.Fprintf(acknowledged, "%d\n", n)
			}
		}()
	}
	return <-failed
}

func TestWrite_SurvivesTheSuddenDeathOfItsProcess(t *testing.T) {
	for engine, rounds := range map[db.Engine]int{db.SQLite: 20, db.PostgreSQL: 5} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			d := dbtest.Open(t, url)
			write(t, d, `CREATE TABLE numbers (n BIGINT PRIMARY KEY)`)
			d.Close()
			acknowledged := map[int]bool{}
			for range rounds {
				killWhileInserting(t, url, acknowledged)
				checkNumbers(t, url, acknowledged, rounds)
			}
			t.Logf("%d acknowledged writes in %d rounds", len(acknowledged), rounds)
		})
	}
}

// killWhileInserting kills a process at some moment of its writing and adds the numbers that it acknowledged to
// acknowledged.
func killWhileInserting(t *testing.T, url string, acknowledged map[int]bool) {
	t.Helper()
	cmd := process(t, "insert", url)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	moment := 1 + rand.N(200)
	lines := bufio.NewScanner(output)
	for seen := 1; lines.Scan(); seen++ {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("the process said %q", lines.Text())
		}
		acknowledged[n] = true
		if seen == moment {
			cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process was not killed: %v", err)
	}
}

// checkNumbers opens the database as a restarted server does and checks that all acknowledged numbers are
// there.
func checkNumbers(t *testing.T, url string, acknowledged map[int]bool, rounds int) {
	t.Helper()
	d := dbtest.Open(t, url)
	defer d.Close()
	err := d.Read(t.Context(), func(q *db.Q) error {
		stored, err := db.All(q, func(scan db.Scan) (n int, err error) { return n, scan(&n) }, `SELECT n FROM numbers`)
		if err != nil {
			return err
		}
		found := map[int]bool{}
		for _, n := range stored {
			found[n] = true
		}
		for n := range acknowledged {
			if !found[n] {
				t.Errorf("%d was acknowledged and is gone", n)
			}
		}
		if extra := len(stored) - len(acknowledged); extra > inserters*rounds {
			t.Errorf("%d numbers are there that no caller waited for", extra)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.Engine() == db.SQLite {
		err := d.Read(t.Context(), func(q *db.Q) error {
			verdict, err := db.One(q, scanText, `PRAGMA integrity_check`)
			if verdict != "ok" {
				t.Errorf("the file is damaged: %s", verdict)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrate_LetsManyProcessesStartAtOnce(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.EmptyURL(t, engine)
			var wait sync.WaitGroup
			for range 4 {
				other := process(t, "migrate", url)
				wait.Go(func() {
					if err := other.Run(); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			d := dbtest.Open(t, url)
			again := number(t, d, `SELECT count(*) - count(DISTINCT version_id) FROM goose_db_version`)
			if again != 0 {
				t.Errorf("%d migrations were applied more than once", again)
			}
			write(t, d, `INSERT INTO installation (name, value) VALUES ('id', '1')`)
		})
	}
}
