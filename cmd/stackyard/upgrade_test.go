package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// previousInstallation is the data folder of the release before, on SQLite: a build that passed, one that waits, a secret.
// It is made anew for each release by running the release.
const previousInstallation = "testdata/upgrade/schema-60.tar.gz"

const (
	upgradeToken  = "svcua_ada-everything"
	upgradeBuilds = "/v2/organizations/acme/pipelines/hello/builds"
)

// An installation of the release before keeps its builds, logs, artifacts and secrets, and its jobs run.
func TestUpgrade_OfAnInstallationOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if output, err := exec.Command("tar", "xzf", previousInstallation, "-C", folder).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			installation := []string{"--data", filepath.Join(folder, "data")}
			if engine == db.PostgreSQL {
				url := dbtest.EmptyURL(t, engine)
				if status, _, stderr := stackyard(t, "migrate-database", "--from", "sqlite:"+filepath.Join(folder, "data"), "--to", url); status != 0 {
					t.Fatalf("migrate-database: exit status %d: %s", status, stderr)
				}
				installation = append(installation, "--database", url, "--secret-key", secretKeyOf(t, installation))
			}
			p := serveOn(t, installation)
			build := decode[struct {
				State    string
				MetaData map[string]string `json:"meta_data"`
				Jobs     []struct{ ID, Type string }
			}](t, p.get(t, upgradeToken, upgradeBuilds+"/1"))
			if build.State != "passed" || build.MetaData["color"] != "blue" {
				t.Errorf("build %+v", build)
			}
			if log := p.get(t, upgradeToken, upgradeBuilds+"/1/jobs/"+build.Jobs[0].ID+"/log"); !strings.Contains(string(log.Body), "hello from the release before") {
				t.Errorf("log %s", log.Body)
			}
			artifacts := decode[[]struct {
				DownloadURL string `json:"download_url"`
			}](t, p.get(t, upgradeToken, upgradeBuilds+"/1/artifacts"))
			if len(artifacts) != 1 {
				t.Fatalf("artifacts %+v", artifacts)
			}
			_, path, _ := strings.Cut(artifacts[0].DownloadURL, "/v2/")
			if got := string(p.get(t, upgradeToken, "/v2/"+path).Body); got != "kept\n" {
				t.Errorf("artifact %q", got)
			}
			p.ask(t, upgradeToken, "POST", pipelinesPath, `{"name": "After", "repository": "https://git.example.test/a.git", "configuration": "env: {SERVICE_SKIP_CHECKOUT: 'true'}\nsteps: [{command: 'test \"$$(stackyard agent secret get DEPLOY_KEY)\" = \"sealed by the release before\"'}]"}`).want(t, http.StatusCreated)
			after := pipelinesPath + "/after/builds"
			p.ask(t, upgradeToken, "POST", after, `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated)
			agent := launch(t, "agent", "--endpoint", p.URL+"/v3", "--token", chaosAgentToken, "--build-path", t.TempDir())
			for _, path := range []string{after + "/1", upgradeBuilds + "/2"} {
				var state string
				eventually(t, waitLimit, "a build of "+path+" has ended", func() bool {
					state = decode[struct{ State string }](t, p.get(t, upgradeToken, path)).State
					return state == "passed" || state == "failed"
				})
				// Jobs that wait for a month expire, and then the second build fails.
				if state != "passed" && path == after+"/1" {
					jobs := decode[struct{ Jobs []struct{ ID string } }](t, p.get(t, upgradeToken, path)).Jobs
					t.Errorf("%s is %s: %s", path, state, p.get(t, upgradeToken, path+"/jobs/"+jobs[0].ID+"/log").Body)
				}
			}
			agent.stop(t)
		})
	}
}

// Agents run jobs on servers of the release before while servers of this one start, on PostgreSQL beside them. No
// acknowledged report is lost, and no job runs twice.
func TestUpgrade_UnderLoadFromTheReleaseBefore(t *testing.T) {
	t.Parallel()
	previous := os.Getenv("STACKYARD_PREVIOUS_BINARY")
	if previous == "" {
		t.Skip("STACKYARD_PREVIOUS_BINARY is not set to the program of the release before; run: make upgrade-test")
	}
	eachEngine(t, func(t *testing.T, installation []string) {
		older := func(args ...string) *exec.Cmd {
			cmd := exec.Command(previous, append(args, installation...)...)
			cmd.Env = command().Env
			return cmd
		}
		if output, err := older("apply", "-f", write(t, chaosFile)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		c := &chaos{t: t, installation: installation}
		old := spawn(t, older("serve", "--listen", "127.0.0.1:0"))
		old.waitReady(t)
		c.server.Store(old)
		ctx, leave := context.WithCancel(t.Context())
		var agents sync.WaitGroup
		defer agents.Wait()
		defer leave()
		for i := range uint64(chaosAgents) {
			agents.Go(func() { (&wildAgent{chaos: c, random: rand.New(rand.NewPCG(rand.Uint64(), i))}).live(ctx) })
		}
		c.mode.Store(rude)
		work := func() {
			for range 4 {
				c.build()
				c.waitAnswers(60)
			}
		}
		work()
		if strings.Contains(fmt.Sprint(installation), "postgres://") {
			beside := serveOn(t, installation)
			c.beside.Store(beside)
			work()
			c.server.Store(beside)
			c.beside.Store(nil)
			old.terminate(t)
		} else {
			old.kill()
			c.serve()
		}
		work()
		c.mode.Store(mild)
		eventually(t, enough, "all builds have ended", c.allEnded)
		leave()
		agents.Wait()
		jobs := c.outcome()
		c.history.check(t, jobs)
		t.Logf("%d jobs of %d builds; %s", len(jobs), c.builds, c.history.summary())
	})
}
