package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const (
	loadAgents   = 50
	loadCreators = 4
	loadBuilds   = 1000 // builds of one job in a run
	loadJobs     = 2000 // jobs of one large build
	loadToken    = "svcct_load"
)

var loadFile = fmt.Sprintf(`
organizations:
  - slug: acme
    name: Acme Inc
    limits: {rest_requests_per_second: 0}
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: %s, scopes: ["*"]}]
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: one, token: %s}]
    pipelines:
      - {slug: one, name: One, repository: "https://git.example.test/one.git", cluster: Default, configuration: "steps: [{command: work}]"}
      - {slug: many, name: Many, repository: "https://git.example.test/many.git", cluster: Default, configuration: "steps: [{command: work, parallelism: %d}]"}
`, adaToken, loadToken, loadJobs)

// loadLog is what each job of the load writes: ten lines.
var loadLog = strings.Repeat("a line of the log of a job, of usual length\r\n", 10)

// BenchmarkLoad measures the release binary, in its own process, under load from this one. Each figure has two
// baselines of the same run: rate/bare-server divides by the requests a second of a server that does nothing,
// and rate/durable-server by the jobs a second of one that answers the same requests with one durable insert
// each.
func BenchmarkLoad(b *testing.B) {
	buildBinary(b)
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			b.Run("OneJobBuilds", func(b *testing.B) { benchmarkLoad(b, engine, loadBuilds, oneJobBuilds) })
			b.Run("LargeBuild", func(b *testing.B) { benchmarkLoad(b, engine, loadJobs, largeBuild) })
			b.Run("Create", func(b *testing.B) { benchmarkCreate(b, engine) })
			b.Run("IdleFleet", func(b *testing.B) { benchmarkFleet(b, engine) })
			b.Run("Reaction", func(b *testing.B) { benchmarkReaction(b, engine) })
			b.Run("Logs", func(b *testing.B) { benchmarkLogs(b, engine) })
		})
	}
}

// buildBinary puts the release binary first in the PATH.
func buildBinary(b *testing.B) {
	b.Helper()
	folder := b.TempDir()
	build := exec.Command("go", "build", "-o", folder, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, output)
	}
	b.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

// oneJobBuilds creates builds of one job each.
func oneJobBuilds(url string) error {
	var created atomic.Int64
	return together(loadCreators, func(int) error {
		c, err := servertest.Dial(url)
		if err != nil {
			return err
		}
		defer c.Close()
		c.Scheme = "Bearer"
		for created.Add(1) <= loadBuilds {
			if err := c.Call("POST", pipelinesPath+"/one/builds", adaToken, loadBuild, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// largeBuild creates one build of many jobs.
func largeBuild(url string) error {
	c, err := servertest.Dial(url)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Scheme = "Bearer"
	return c.Call("POST", pipelinesPath+"/many/builds", adaToken, loadBuild, nil)
}

func benchmarkLoad(b *testing.B, engine db.Engine, jobs int, create func(url string) error) {
	database := loadDatabase(b, engine)
	apply(b, database, loadFile)
	p := serveOn(b, database)
	agents := registerFleet(b, p.URL, loadAgents)
	durable := spawn(b, exec.Command("durable-server", loadDatabase(b, engine)...))
	durable.waitReady(b)
	bare := spawn(b, exec.Command("bare-server", write(b, `{"id": "none"}`)))
	bare.waitReady(b)
	var took, durableTook, bareTook, used time.Duration
	before := p.counts(b)
	for b.Loop() {
		bareTook += getMany(b, bare, "/", 4000)
		durableTook += answerJobs(b, durable.URL, jobs)
		cpu, began := p.cpu(b), time.Now()
		runLoad(b, p, agents, jobs, create)
		took += time.Since(began)
		used += p.cpu(b) - cpu
	}
	after := p.counts(b)
	all := float64(b.N * jobs)
	rate, bareRate := all/took.Seconds(), float64(b.N*4000)/bareTook.Seconds()
	b.ReportMetric(rate, "jobs/s")
	b.ReportMetric(used.Seconds()*1000/all, "server-CPU-ms/job")
	b.ReportMetric(bareRate, "bare-requests/s")
	b.ReportMetric(rate/bareRate, "rate/bare-server")
	b.ReportMetric(durableTook.Seconds()/took.Seconds(), "rate/durable-server")
	for _, name := range []string{"statements", "transactions", "syncs"} {
		b.ReportMetric((after[name]-before[name])/all, name+"/job")
	}
	b.ReportMetric(float64(p.kernelCount(b, "status", "VmRSS"))/1024, "MB-RSS")
	b.ReportMetric(0, "ns/op")
}

// loadDatabase returns the options of an installation whose database is on a disk.
func loadDatabase(b *testing.B, engine db.Engine) []string {
	b.Helper()
	if engine == db.SQLite {
		return []string{"--data", b.TempDir()}
	}
	postgres, err := dbtest.StartServer(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(postgres.Stop)
	return onPostgres(b, postgres.Database(b))
}

// loadAgent is an agent that runs jobs as fast as it gets them.
type loadAgent struct {
	*servertest.Caller
	token string
}

// runLoad returns when all jobs have finished.
func runLoad(b *testing.B, p *process, agents []*loadAgent, jobs int, create func(url string) error) {
	b.Helper()
	var finished atomic.Int64
	var creating sync.WaitGroup
	creating.Go(func() {
		if err := create(p.URL); err != nil {
			b.Error(err)
			finished.Add(int64(jobs))
		}
	})
	err := together(len(agents), func(i int) error {
		for finished.Load() < int64(jobs) {
			ran, err := agents[i].runOne()
			if err != nil {
				return err
			}
			if ran {
				finished.Add(1)
			}
		}
		return nil
	})
	creating.Wait()
	if err != nil {
		b.Fatal(err)
	}
	if got := finished.Load(); got != int64(jobs) {
		b.Fatalf("%d jobs finished, want %d", got, jobs)
	}
}

// runOne takes a job, if one is offered, through its life.
func (a *loadAgent) runOne() (ran bool, err error) {
	job, err := a.ping()
	if err != nil || job == "" {
		return false, err
	}
	var accepted struct{ Token string }
	if err := a.Call("PUT", "/v3/jobs/"+job+"/accept", a.token, "", &accepted); err != nil {
		return false, err
	}
	return true, a.finish(job, accepted.Token)
}

// finish starts an accepted job, writes its log and ends it.
func (a *loadAgent) finish(job, token string) error {
	path := "/v3/jobs/" + job
	for _, step := range []struct{ method, path, body string }{
		{"PUT", path + "/start", `{"started_at": "2026-01-02T03:04:05Z"}`},
		{"POST", fmt.Sprintf("%s/chunks?sequence=1&offset=0&size=%d", path, len(loadLog)), loadLog},
		{"PUT", path + "/finish", `{"exit_status": "0", "finished_at": "2026-01-02T03:04:06Z", "chunks_failed_count": 0}`},
	} {
		if err := a.Call(step.method, step.path, token, step.body, nil); err != nil {
			return err
		}
	}
	return nil
}

// answerJobs sends the requests of jobs to the durable server, and returns how long they took.
func answerJobs(b *testing.B, url string, jobs int) time.Duration {
	b.Helper()
	began := time.Now()
	var sent atomic.Int64
	err := together(loadAgents, func(int) error {
		c, err := servertest.Dial(url)
		if err != nil {
			return err
		}
		defer c.Close()
		for sent.Add(1) <= int64(jobs) {
			for range 5 { // ping, accept, start, log, finish
				if err := c.Call("PUT", "/", "none", loadLog, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// durableServer responds to every request after one durable insert of its body.
func durableServer() {
	location := os.Args[2] + "/durable.db"
	if len(os.Args) > 4 {
		location = os.Args[4]
	}
	ctx := context.Background()
	d, err := db.Open(ctx, location, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	err = d.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`CREATE TABLE durable (id TEXT PRIMARY KEY, body TEXT NOT NULL)`)
		return err
	})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		if err := r.Write(&body); err != nil {
			panic(err)
		}
		err := d.WriteOne(r.Context(), func(q *db.Q) error {
			_, err := q.Exec(`INSERT INTO durable (id, body) VALUES ($1, $2)`, core.NewID(), body.String())
			return err
		})
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{}`))
	})))
}

// together runs n functions at the same time and returns the first error.
func together(n int, fn func(i int) error) error {
	failed := make(chan error, n)
	for i := range n {
		go func() { failed <- fn(i) }()
	}
	var first error
	for range n {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}

// cpu returns the processor time that a process has used.
func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Skip(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // user and system time
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// metric returns the value of a metric without labels.
func (p *process) metric(b *testing.B, name string) (value float64) {
	b.Helper()
	for line := range strings.Lines(string(p.get(b, "", "/metrics").Body)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, _ = strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return value
}

// counts returns the database counters of a server.
func (p *process) counts(b *testing.B) map[string]float64 {
	b.Helper()
	counts := map[string]float64{}
	for line := range strings.Lines(string(p.get(b, "", "/metrics").Body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		short, ok := strings.CutPrefix(name, "stackyard_database_")
		if !ok {
			short, ok = strings.CutPrefix(name, "stackyard_file_")
		}
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			counts[strings.TrimSuffix(short, "_total")] = n
		}
	}
	return counts
}
