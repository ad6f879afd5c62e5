package dbtest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestEach_GivesAFreshMigratedDatabase(t *testing.T) {
	for range 2 {
		dbtest.Each(t, func(t *testing.T, d *db.DB) {
			err := d.Write(t.Context(), func(q *db.Q) error {
				_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, $2)`, "id", "1")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			err = d.Read(t.Context(), func(q *db.Q) error {
				return q.QueryRow(`SELECT count(*) FROM installation`).Scan(&n)
			})
			if err != nil || n != 1 {
				t.Errorf("found %d rows, %v", n, err)
			}
		})
	}
}

func TestNew_ServesManyTestsAtOnce(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if err := dbtest.New(t, engine).Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
}

const childVariable = "DBTEST_CHILD"

// TestMain lets this binary be a test process that is about to be killed: it starts a server, says
// how to reach it, and waits.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	server, err := dbtest.StartServer(nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(server.Folder())
	select {}
}

func TestServer_EndsWithItsProcessEvenWhenThatIsKilled(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=yes")
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	folder := strings.TrimSpace(line)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	child.Process.Kill()
	child.Wait()

	// The folder is deleted after the server has ended.
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := os.Stat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", folder)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
