// Package testresults keeps what is uploaded to test suites: runs, the executions of tests in them, and what follows
// from those: how tests did day by day, and which of them are flaky.
//
// Results are many, so they are kept in the results database ([db.DB.Results]), which on SQLite is a file of its own.
// An upload is one transaction (save.go): it adds the executions to a run, updates a row for each test and day, and the
// totals of the run. Reading a run or a build costs what that run has; reading a test or a suite costs what a few days
// have. Nothing reads all executions of a suite.
//
// A run is what was uploaded with one key. When the key is the id of a build, or an upload names a job, the run is linked
// to the build and its pipeline.
//
// A test is flaky when it both passed and failed on one commit (flaky.go). Results are removed after the days that the
// organization keeps them (retention.go).
package testresults

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/lru"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/testreport"
)

// Parts are what a Service depends on.
type Parts struct {
	DB        *db.DB
	Results   *db.DB
	Directory *identity.Directory
	Suites    *suites.Service
	Pipelines *pipelines.Service
	Builds    *builds.Reader
	// Verify returns the claims of an OpenID Connect token of a job, or an Unauthorized error.
	Verify func(ctx context.Context, token string) (map[string]any, error)
	Public core.PublicURL
	Clock  core.Clock
	Log    *slog.Logger
}

// Service reads and writes test results.
type Service struct {
	db        *db.DB
	results   *db.DB
	directory *identity.Directory
	suites    *suites.Service
	pipelines *pipelines.Service
	builds    *builds.Reader
	verify    func(ctx context.Context, token string) (map[string]any, error)
	public    core.PublicURL
	clock     core.Clock
	log       *slog.Logger
	gate      *gate
	// seen caches what was written about tests, so that each is written once a day.
	seen    *lru.Cache[string, seenTest]
	numbers executionNumbers
}

// maxSeen bounds the cache of tests.
const maxSeen = 100_000

// New returns a service.
func New(p Parts) *Service {
	return &Service{
		db:        p.DB,
		results:   p.Results,
		directory: p.Directory,
		suites:    p.Suites,
		pipelines: p.Pipelines,
		builds:    p.Builds,
		verify:    p.Verify,
		public:    p.Public,
		clock:     p.Clock,
		log:       p.Log,
		gate:      newGate(uploadsAtOnce, uploadsOfOne),
		seen:      lru.New[string, seenTest](maxSeen),
	}
}

// Routes returns the routes of test results.
func (s *Service) Routes() []route.Route {
	return slices.Concat(s.uploadRoutes(), s.runRoutes(), s.testRoutes(), s.manageRoutes(), s.buildRoutes())
}

// Counts are how many executions had each result, and how long they took.
type Counts struct {
	Passed, Failed, Skipped, Pending, Unknown int
	Duration                                  time.Duration
}

// add counts an execution.
func (c *Counts) add(e *testreport.Execution) {
	switch e.Result {
	case testreport.Passed:
		c.Passed++
	case testreport.Failed:
		c.Failed++
	case testreport.Skipped:
		c.Skipped++
	case testreport.Pending:
		c.Pending++
	default:
		c.Unknown++
	}
	c.Duration += e.Duration
}

// Total is the number of executions.
func (c Counts) Total() int { return c.Passed + c.Failed + c.Skipped + c.Pending + c.Unknown }

// dest returns where to scan the columns passed, failed, skipped, pending, unknown and a sum of durations.
func (c *Counts) dest() []any {
	return []any{&c.Passed, &c.Failed, &c.Skipped, &c.Pending, &c.Unknown, micros(&c.Duration)}
}

// A Run is what was uploaded to a suite with one key.
type Run struct {
	seq        int64
	ID         string
	SuiteID    string
	Key        string
	Number     string
	Branch     string
	CommitSHA  string
	Message    string
	URL        string
	BuildID    string // "": not of a build
	PipelineID string
	Counts     Counts
	CreatedAt  time.Time
}

// A RunResult is how a run went.
type RunResult string

// The results of runs.
const (
	RunPending RunResult = "pending" // nothing was uploaded yet
	RunPassed  RunResult = "passed"
	RunFailed  RunResult = "failed"
	RunStale   RunResult = "stale" // nothing was uploaded for long
)

// Values lists every result.
func (RunResult) Values() []string {
	return []string{string(RunPending), string(RunPassed), string(RunFailed), string(RunStale)}
}

// staleAfter is how long a run may have no executions.
const staleAfter = 24 * time.Hour

// Result returns how the run went. One failed execution makes it failed.
func (r *Run) Result(now time.Time) RunResult {
	switch {
	case r.Counts.Failed > 0:
		return RunFailed
	case r.Counts.Total() > 0:
		return RunPassed
	case now.Sub(r.CreatedAt) > staleAfter:
		return RunStale
	}
	return RunPending
}

// A Test is something that is executed again and again, known by its scope and name.
type Test struct {
	ID        string
	Scope     string
	Name      string
	Location  string
	FileName  string
	Flaky     int       // on how many commits it both passed and failed
	FlakyAt   time.Time // the last time
	State     TestState
	Labels    []string
	CreatedAt time.Time
}

// TestID returns the id of a test of a suite. It follows from the names, so that finding or adding a test needs no
// look-up.
func TestID(suiteID, scope, name string) string {
	return derivedID(suiteID, scope, name)
}

// executionID returns the id of an execution.
func executionID(testID string, run, n int64) string {
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(run>>(8*i)), byte(n>>(8*i))
	}
	return derivedID(testID, string(b[:]))
}

// derivedID returns a UUID, version 8, that follows from texts.
func derivedID(texts ...string) string {
	var buffer [512]byte
	b := buffer[:0]
	for _, text := range texts {
		b = append(append(b, text...), 0)
	}
	sum := sha256.Sum256(b)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// Executions are numbered by the time of their upload, in units of 2^-timeBits microseconds, so that their order is
// that of uploads.
const timeBits = 11

// executionNumbers gives the uploads of a process different numbers. Those of other replicas differ in their time, or in
// a random part.
type executionNumbers struct {
	mu   sync.Mutex
	last int64
}

// take returns the first of count numbers for an upload.
func (e *executionNumbers) take(at time.Time, count int) (first int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first = max(at.UnixMicro()<<timeBits+rand.Int64N(1<<timeBits), e.last+1)
	e.last = first + int64(count) - 1
	return first
}

// executionTime returns when an execution was uploaded.
func executionTime(n int64) time.Time { return time.UnixMicro(n >> timeBits).UTC() }

// dayOf returns the day of a time, in days since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// dateOf returns a day as a date, such as 2026-01-02.
func dateOf(day int64) string { return time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly) }
