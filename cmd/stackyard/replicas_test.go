package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
)

// noticed is how long a process may use outdated data: a second, plus time for a busy machine.
const noticed = 3 * time.Second

// eachEngine runs a test with the settings of a new installation on each engine.
func eachEngine(t *testing.T, test func(t *testing.T, installation []string)) {
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		test(t, []string{"--data", t.TempDir()})
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		test(t, onPostgres(t, dbtest.EmptyURL(t, db.PostgreSQL)))
	})
}

// onPostgres returns the settings of an installation in a database.
func onPostgres(t testing.TB, url string) []string {
	return []string{"--data", t.TempDir(), "--database", url, "--secret-key", seal.NewKey().Hex()}
}

// serveOn starts a server on an installation.
func serveOn(t testing.TB, installation []string) *process {
	t.Helper()
	return start(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, installation...)...)
}

// member returns an organization file with one administrator who has one token.
func member(token string, suspended bool) string {
	return fmt.Sprintf(`
organizations:
  - slug: acme
    name: Acme Inc
    suspended: %t
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: %s, scopes: ["*"]}]
`, suspended, token)
}

func TestApply_IsNoticedByARunningServer(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		p := serveOn(t, installation)
		becomes := func(token string, status int) {
			t.Helper()
			eventually(t, noticed, fmt.Sprintf("%s gets %d", token, status), func() bool {
				return p.ask(t, token, "GET", "/v2/organizations/acme", "").Status == status
			})
		}
		becomes("svcua_1", 401)
		apply(t, installation, member("svcua_1", false))
		becomes("svcua_1", 200)
		apply(t, installation, member("svcua_1", true))
		becomes("svcua_1", 503)
		apply(t, installation, member("svcua_2", false))
		becomes("svcua_2", 200)
		becomes("svcua_1", 401)
	})
}

func TestServe_RefusesATokenThatAnotherReplicaRevoked(t *testing.T) {
	t.Parallel()
	installation := onPostgres(t, dbtest.URL(t, db.PostgreSQL))
	apply(t, installation, member("svcua_1", false))
	one, other := serveOn(t, installation), serveOn(t, installation)
	other.get(t, "svcua_1", "/v2/user")
	one.ask(t, "svcua_1", "DELETE", "/v2/access-token", "").want(t, 204)
	one.ask(t, "svcua_1", "GET", "/v2/user", "").want(t, 401)
	eventually(t, noticed, "the other replica refuses the token", func() bool {
		return other.ask(t, "svcua_1", "GET", "/v2/user", "").Status == 401
	})
}

func TestServe_StartsManyReplicasAtOnceOnAnEmptyInstallation(t *testing.T) {
	t.Parallel()
	installation := onPostgres(t, dbtest.EmptyURL(t, db.PostgreSQL))
	var replicas []*process
	for range 3 {
		replicas = append(replicas, launch(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--apply", organizations}, installation...)...))
	}
	for _, p := range replicas {
		p.waitReady(t)
	}
	for _, p := range replicas {
		p.get(t, adaToken, pipelinesPath+"/hello")
		p.stop(t)
	}
}

func TestServe_RefusesASecondServerOnOneSQLiteDatabase(t *testing.T) {
	t.Parallel()
	installation := []string{"--data", t.TempDir()}
	first := serveOn(t, installation)
	for _, command := range []string{"serve", "up"} {
		second := launch(t, append([]string{command, "--listen", "127.0.0.1:0"}, installation...)...)
		if line, more := <-second.lines; more {
			t.Fatalf("%s beside a server printed %q", command, line)
		}
		<-second.ended
		status, stderr := second.cmd.ProcessState.ExitCode(), second.stderrText(t)
		if status != cmdline.ExitFailed || !strings.Contains(stderr, "another server is using") || !strings.Contains(stderr, "PostgreSQL") {
			t.Errorf("%s beside a server: exit status %d\n%s", command, status, stderr)
		}
	}
	apply(t, installation, member("svcua_1", false))
	eventually(t, noticed, "the server notices what was applied", func() bool {
		return first.ask(t, "svcua_1", "GET", "/v2/user", "").Status == 200
	})
	first.kill()
	second := serveOn(t, installation)
	second.get(t, "svcua_1", "/v2/user")
	second.stop(t)
	serveOn(t, installation).get(t, "svcua_1", "/v2/user")
}

func TestServe_RefusesAnotherSecretKey(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		apply(t, installation, member("svcua_1", false))
		for _, command := range []string{"serve", "apply"} {
			args := append([]string{command}, installation...)
			args = append(args, "--secret-key", seal.NewKey().Hex())
			if command == "apply" {
				args = append(args, "--file", organizations)
			}
			status, stdout, stderr := stackyard(t, args...)
			if status != cmdline.ExitFailed || stdout != "" || !strings.Contains(stderr, "give the original --secret-key") {
				t.Errorf("%s: exit status %d\n%s%s", command, status, stdout, stderr)
			}
		}
		serveOn(t, installation).get(t, "svcua_1", "/v2/user")
	})
}

func TestServe_RefusesADatabaseNewerThanItself(t *testing.T) {
	t.Parallel()
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		folder := t.TempDir()
		url, installation := "sqlite:"+folder+"/stackyard.db", []string{"--data", folder}
		if engine == db.PostgreSQL {
			url = dbtest.URL(t, engine)
			installation = onPostgres(t, url)
		}
		apply(t, installation, member("svcua_1", false))
		d := dbtest.Open(t, url)
		err := d.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := stackyard(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, installation...)...)
		if status != cmdline.ExitFailed || stdout != "" || !strings.Contains(stderr, "99999") || !strings.Contains(stderr, "start a newer program") {
			t.Errorf("%s: exit status %d\n%s%s", engine, status, stdout, stderr)
		}
	}
}
