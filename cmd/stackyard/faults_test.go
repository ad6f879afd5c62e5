package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The long run: go test ./cmd/stackyard -run WithBackupsBeside -kills 1000 -timeout 10h -v
var kills = flag.Int("kills", 3, "how often TestServe_LosesNothingInManyKillsWithBackupsBeside kills the server on each engine")

const (
	// killsPerBackup is how often the server is killed between the starts of two backups.
	killsPerBackup = 10
	// killsPerCrash is how often the server is killed between two crashes of PostgreSQL.
	killsPerCrash = 25
	// maxUnfinished is how many builds wait or run while builds are created.
	maxUnfinished = 4
	// restored is how many backups are restored at the end.
	restored = 3
)

// A server is killed many times while users create builds, agents run their jobs, and backups are made. Every write that
// was acknowledged is there after the next start and at the end, no job is run twice, and all backups are complete.
func TestServe_LosesNothingInManyKillsWithBackupsBeside(t *testing.T) {
	if *kills > 10 {
		waitLimit = 10 * time.Minute
	}
	t.Parallel()
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		(&faultRun{}).run(t, []string{"--data", t.TempDir()})
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		postgres, err := dbtest.StartServer(map[string]string{"autovacuum": "on"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(postgres.Stop)
		(&faultRun{postgres: postgres}).run(t, onPostgres(t, postgres.Database(t)))
	})
}

// A faultRun is a chaos whose builds are created concurrently, with backups.
type faultRun struct {
	chaos
	postgres *dbtest.Server // nil on SQLite
	seen     int            // calls that were checked after a restart
	starting int            // how often the server was killed before it was ready
	crashes  int            // of PostgreSQL

	mu      sync.Mutex
	created []int // numbers of acknowledged builds
	unknown int   // builds whose creation got no response

	place   string
	backups []faultBackup
	aborted int          // backups that were killed or lost the database
	stopped atomic.Bool  // no more builds
	outage  atomic.Int32 // odd while PostgreSQL is down; increases when it crashes and when it is back
}

// A faultBackup is a backup with what had been acknowledged when it began.
type faultBackup struct {
	id             string
	created, calls int // lengths of the lists then
}

func (r *faultRun) run(t *testing.T, installation []string) {
	apply(t, installation, chaosFile)
	r.t, r.outages = t, r.postgres != nil
	r.installation = append(installation, "--agent-lost-after", "20s", "--log-level", "error")
	r.place = filepath.Join(t.TempDir(), "backups")
	r.serve()
	ctx, leave := context.WithCancel(t.Context())
	var agents, others sync.WaitGroup
	defer agents.Wait()
	defer leave()
	for i := range uint64(chaosAgents) {
		agents.Go(func() { (&wildAgent{chaos: &r.chaos, random: rand.New(rand.NewPCG(rand.Uint64(), i))}).live(ctx) })
	}
	others.Go(func() { r.create(ctx) })
	backup := make(chan struct{}, 1)
	others.Go(func() { r.backUp(installation, backup) })

	r.mode.Store(rude)
	began := time.Now()
	for i := range *kills {
		if *kills > 10 && i%100 == 10 {
			r.mode.Store(wild)
		} else if i%100 == 30 {
			r.mode.Store(rude)
		}
		r.waitAnswers(10 + rand.IntN(50))
		if i%killsPerBackup == 0 {
			select {
			case backup <- struct{}{}:
			default: // the last one still runs
			}
		}
		if r.postgres != nil && i%killsPerCrash == killsPerCrash/2 {
			r.crash()
			r.waitAnswers(10)
		}
		r.restart()
		r.check()
		if i%50 == 49 {
			t.Logf("%d kills after %s: %d builds, %d jobs ended, %d backups", i+1, time.Since(began).Round(time.Second), len(r.created), r.history.endedJobs(), len(r.backups))
		}
		if t.Failed() {
			break
		}
	}
	close(backup)
	r.stopped.Store(true)
	r.mode.Store(mild)
	others.Wait()
	eventually(t, waitLimit+enough, "all builds have ended", r.allEnded)
	leave()
	agents.Wait()

	jobs := r.checkAll()
	t.Logf("killed %d times, %d of them while it started; PostgreSQL crashed %d times; %d jobs of %d builds; %s", *kills, r.starting, r.crashes, len(jobs), r.builds, r.history.summary())
	t.Logf("acknowledged: %d builds, %s", len(r.created), r.history.acknowledgedByVerb())
	r.server.Load().stop(t)
	r.checkBackups(installation)
}

// checkAll compares everything that was acknowledged with what there is, and returns all jobs.
func (r *faultRun) checkAll() map[string]*chaosJob {
	r.builds = r.newest()
	if extra := r.builds - len(r.created); extra < 0 || extra > r.unknown {
		r.t.Errorf("there are %d builds; %d were acknowledged, %d got no response", r.builds, len(r.created), r.unknown)
	}
	jobs := r.outcome()
	r.history.check(r.t, jobs)
	for _, c := range r.history.after(0) {
		if c.verb == storing && c.acknowledged() {
			r.checkOn(r.server.Load(), c)
		}
	}
	return jobs
}

// restart kills the server and starts the next one, which is sometimes killed before it is ready.
func (r *faultRun) restart() {
	r.server.Load().kill()
	if rand.IntN(8) == 0 {
		p := launch(r.t, append([]string{"serve", "--listen", "127.0.0.1:0"}, r.installation...)...)
		time.Sleep(rand.N(400 * time.Millisecond)) // any moment of the start
		p.kill()
		r.starting++
	}
	r.serve()
}

// crash crashes PostgreSQL, and waits until the server is ready again.
func (r *faultRun) crash() {
	r.outage.Add(1)
	defer r.outage.Add(1)
	if err := r.postgres.Crash(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.crashes++
	eventually(r.t, waitLimit, "the server is ready after a crash of PostgreSQL", func() bool {
		got, err := r.server.Load().try("", "GET", "/readyz", "")
		return err == nil && got.Status == http.StatusOK
	})
}

// wantsBuild reports whether few builds have not ended.
func (r *faultRun) wantsBuild() bool {
	got, err := r.server.Load().try(adaToken, "GET", unfinishedBuilds, "")
	var unfinished []struct{}
	return err == nil && got.Status == http.StatusOK && json.Unmarshal(got.Body, &unfinished) == nil && len(unfinished) < maxUnfinished
}

// create creates builds while few jobs are left.
func (r *faultRun) create(ctx context.Context) {
	for !r.stopped.Load() && ctx.Err() == nil {
		if !r.wantsBuild() {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		got, err := r.server.Load().try(adaToken, "POST", chaosBuilds, `{"commit": "0123456789012345678901234567890123456789", "branch": "main"}`)
		r.mu.Lock()
		switch {
		case err != nil, r.outages && got.Status == http.StatusServiceUnavailable:
			r.unknown++
		case got.Status == http.StatusCreated:
			var build struct{ Number int }
			if err := json.Unmarshal(got.Body, &build); err != nil {
				r.t.Error(err)
			}
			r.created = append(r.created, build.Number)
		default:
			r.t.Errorf("create a build: %d %s", got.Status, got.Body)
		}
		r.mu.Unlock()
		if err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// acknowledged returns the builds and calls so far.
func (r *faultRun) acknowledged() (created, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.created), len(r.history.after(0))
}

// check checks the newest writes that were acknowledged before the last kill.
func (r *faultRun) check() {
	const newest = 12
	calls := r.history.after(r.seen)
	r.seen += len(calls)
	n := 0
	for i := len(calls) - 1; i >= 0 && n < newest; i-- {
		if c := calls[i]; c.acknowledged() && c.verb != pinging {
			r.checkOn(r.server.Load(), c)
			n++
		}
	}
	r.mu.Lock()
	created := r.created[max(0, len(r.created)-2):]
	r.mu.Unlock()
	for _, number := range created {
		r.server.Load().get(r.t, adaToken, fmt.Sprintf("%s/%d", chaosBuilds, number))
	}
}

// checkOn checks that a server has an acknowledged write of an agent.
func (r *faultRun) checkOn(p *process, c exchange) {
	r.t.Helper()
	path := "/v2/organizations/acme/jobs/" + c.job
	switch c.verb {
	case finishing:
		j := decode[chaosJob](r.t, p.get(r.t, adaToken, path))
		if !j.ended() || j.ExitStatus == nil || fmt.Sprint(*j.ExitStatus) != c.text {
			r.t.Errorf("the job is %s: %s", j.State, c)
		}
	case printing:
		if log := p.get(r.t, adaToken, path+"/log"); !bytes.Contains(log.Body, []byte(strings.TrimSpace(c.text))) {
			r.t.Errorf("the log lacks it: %s", c)
		}
	case storing:
		id, content, _ := strings.Cut(c.text, "=")
		if got := p.get(r.t, adaToken, path+"/artifacts/"+id+"/download"); string(got.Body) != content {
			r.t.Errorf("the artifact is %q: %s", got.Body, c)
		}
	}
}

// newest returns the number of the newest build.
func (r *faultRun) newest() int {
	builds := decode[[]struct{ Number int }](r.t, r.server.Load().get(r.t, adaToken, chaosBuilds+"?per_page=1"))
	if len(builds) == 0 {
		return 0
	}
	return builds[0].Number
}

// backUp makes a backup for each signal. Every fifth is killed and made again.
func (r *faultRun) backUp(installation []string, signals <-chan struct{}) {
	for range signals {
		n := len(r.backups) + 1
		create := append([]string{"backup", "create", r.place}, installation...)
		if n%5 == 0 {
			p := launch(r.t, create...)
			select {
			case <-time.After(rand.N(500 * time.Millisecond)):
			case <-p.ended:
			}
			p.kill()
			r.aborted++
		}
		for {
			outage := r.outage.Load()
			b := faultBackup{}
			b.created, b.calls = r.acknowledged()
			status, stdout, stderr := stackyard(r.t, create...)
			if status == 0 {
				fmt.Sscanf(stdout, "created backup %s", &b.id)
				r.mu.Lock()
				r.backups = append(r.backups, b)
				r.mu.Unlock()
				break
			}
			if outage%2 == 0 && r.outage.Load() == outage {
				r.t.Errorf("backup: exit status %d: %s", status, stderr)
				return
			}
			r.aborted++
		}
	}
}

// checkBackups verifies all backups, and restores some of them into both engines in turn.
func (r *faultRun) checkBackups(installation []string) {
	for _, b := range r.backups {
		if status, _, stderr := stackyard(r.t, "backup", "verify", r.place, "--snapshot", b.id); status != 0 {
			r.t.Errorf("verify %s: exit status %d: %s", b.id, status, stderr)
		}
	}
	calls, checked := r.history.after(0), 0
	n := min(restored, len(r.backups))
	for i := range n {
		b := r.backups[(i+1)*len(r.backups)/n-1]
		engine := []db.Engine{db.SQLite, db.PostgreSQL}[i%2]
		target := emptyInstallation(r.t, engine, secretKeyOf(r.t, installation))
		if status, _, stderr := stackyard(r.t, append([]string{"backup", "restore", r.place, "--snapshot", b.id}, target...)...); status != 0 {
			r.t.Errorf("restore %s into %s: exit status %d: %s", b.id, engine, status, stderr)
			continue
		}
		p := serveOn(r.t, append(target, "--log-level", "error"))
		for _, number := range r.created[:b.created] {
			p.get(r.t, adaToken, fmt.Sprintf("%s/%d?exclude_jobs=true", chaosBuilds, number))
		}
		for _, c := range calls[:b.calls] {
			// Every backup would take minutes with all of them.
			if c.acknowledged() && c.verb != pinging && (b.calls < 1000 || rand.IntN(20) == 0) {
				r.checkOn(p, c)
				checked++
			}
		}
		p.stop(r.t)
	}
	r.t.Logf("%d backups were made beside it and %d interrupted; all verify; %d were restored with all builds that were acknowledged before, and %d of the agents' writes were compared", len(r.backups), r.aborted, n, checked)
}

// acknowledgedByVerb returns numbers of acknowledged writes.
func (h *history) acknowledgedByVerb() string {
	count := make(map[verb]int)
	for _, c := range h.calls {
		if c.acknowledged() {
			count[c.verb]++
		}
	}
	var parts []string
	for _, v := range []verb{accepting, acquiring, starting, printing, setting, storing, finishing, canceling, retrying} {
		parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
	}
	return strings.Join(parts, ", ")
}
