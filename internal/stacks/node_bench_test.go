package stacks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
	"stackyard/internal/server/servertest"
)

// BenchmarkNode has eight stacks call one server at the same time, each about a thousand jobs of its own
// in a queue of 20,000: list, reserve, get tokens and states. Beside it, as many at once run the bare
// statement that it takes at least.
func BenchmarkNode(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) {
			n := newNode(b, engine)
			for _, call := range nodeCalls {
				b.Run(call.name, func(b *testing.B) { n.benchmark(b, call) })
			}
		})
	}
}

const (
	nodeStacks   = 8
	nodeRequests = 20 // of each stack in a round
)

// A node is a server that many stacks call.
type node struct {
	*longQueue
	stacks []*nodeStack
}

// A nodeStack is one of them, with its own connection and jobs.
type nodeStack struct {
	*servertest.Caller
	path string
	ids  []string
	body string // that names its jobs
}

func newNode(b *testing.B, engine db.Engine) *node {
	n := &node{longQueue: newLongQueue(b, dbtest.New(b, engine), 20)}
	path := "/scheduled-jobs?queue_key=default&limit=1000"
	for i := range nodeStacks {
		s := &nodeStack{path: fmt.Sprint("/v3/stacks/stack-", i)}
		n.AsAgent(b, servertest.AcmeAgent).Post("/v3/stacks/register", registration(fmt.Sprint("stack-", i))).Want(201)
		var page jobPage
		n.call("GET", path, "", &page)
		path = "/scheduled-jobs?queue_key=default&limit=1000&after=" + page.PageInfo.EndCursor
		s.ids = page.ids()
		s.body = jobUUIDs(s.ids)
		var err error
		if s.Caller, err = servertest.Dial(n.URL); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		n.stacks = append(n.stacks, s)
	}
	return n
}

// A nodeCall is what stacks ask, and the bare statement beside it.
type nodeCall struct {
	name string
	ask  func(s *nodeStack) error
	bare func(q *db.Q, s *nodeStack) error
	// writes says that the statement does.
	writes bool
}

var nodeCalls = []nodeCall{
	{
		name: "list",
		ask: func(s *nodeStack) error {
			return s.Call("GET", s.path+"/scheduled-jobs?queue_key=default&limit=1000", servertest.AcmeAgent, "", nil)
		},
		bare: func(q *db.Q, s *nodeStack) error {
			return drain(q, 9, `
				SELECT r.job_id, r.priority, r.scheduled_at, r.rule_set, p.id, p.slug, b.id, b.number, b.branch
				FROM (
					SELECT * FROM runnable
					WHERE queue_id = $1 AND reserved_until IS NULL
					ORDER BY scheduled_at, job_id
					LIMIT 1000) AS r
				JOIN builds b ON b.id = r.build_id
				JOIN pipelines p ON p.id = r.pipeline_id
				ORDER BY r.scheduled_at, r.job_id`, servertest.AcmeQueueID)
		},
	},
	{
		name: "reserve",
		ask: func(s *nodeStack) error {
			return s.Call("PUT", s.path+"/scheduled-jobs/batch-reserve", servertest.AcmeAgent, s.body, nil)
		},
		bare: func(q *db.Q, s *nodeStack) error {
			in, arg := q.In("job_id", 3, s.ids)
			return drain(q, 1, `UPDATE runnable SET reserved_by = $1, reserved_until = $2 WHERE `+in+` RETURNING job_id`, s.path, time.Now().UnixMicro(), arg)
		},
		writes: true,
	},
	{
		name: "tokens",
		ask: func(s *nodeStack) error {
			return s.Call("POST", s.path+"/job-acquisition-tokens", servertest.AcmeAgent, s.body, nil)
		},
		bare: func(q *db.Q, s *nodeStack) error { return standings(q, s.ids) },
	},
	{
		name: "states",
		ask: func(s *nodeStack) error {
			return s.Call("POST", s.path+"/jobs/get-states", servertest.AcmeAgent, s.body, nil)
		},
		bare: func(q *db.Q, s *nodeStack) error { return standings(q, s.ids) },
	},
}

func standings(q *db.Q, ids []string) error {
	in, arg := q.In("j.id", 1, ids)
	return drain(q, 5, `
		SELECT j.id, j.state, b.cluster_id, r.reserved_by, r.reserved_until
		FROM jobs j JOIN builds b ON b.id = j.build_id LEFT JOIN runnable r ON r.job_id = j.id
		WHERE `+in, arg)
}

// drain reads all rows of a statement, and forgets them.
func drain(q *db.Q, columns int, statement string, args ...any) error {
	values, into := make([]any, columns), make([]any, columns)
	for i := range values {
		into[i] = &values[i]
	}
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) { return none, scan(into...) }, statement, args...)
	return err
}

func (n *node) benchmark(b *testing.B, call nodeCall) {
	var ours, bare load
	for b.Loop() {
		ours.add(b, n.stacks, call.ask)
		bare.add(b, n.stacks, func(s *nodeStack) error {
			if call.writes {
				return n.DB.Write(b.Context(), func(q *db.Q) error { return call.bare(q, s) })
			}
			return n.DB.Read(b.Context(), func(q *db.Q) error { return call.bare(q, s) })
		})
	}
	b.ReportMetric(ours.perSecond(), "requests/s")
	b.ReportMetric(ours.p99(), "ms-p99")
	b.ReportMetric(bare.perSecond(), "bare/s")
	b.ReportMetric(bare.p99(), "bare-ms-p99")
	b.ReportMetric(ours.perSecond()/bare.perSecond(), "of-bare")
	b.ReportMetric(0, "ns/op")
}

// A load is how long calls took that were made by all stacks at once.
type load struct {
	calls []time.Duration
	all   time.Duration
}

// add has each stack do something nodeRequests times.
func (l *load) add(b *testing.B, stacks []*nodeStack, do func(*nodeStack) error) {
	b.Helper()
	took := make([][]time.Duration, len(stacks))
	var running sync.WaitGroup
	began := time.Now()
	for i, s := range stacks {
		running.Go(func() {
			for range nodeRequests {
				began := time.Now()
				if err := do(s); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	running.Wait()
	l.all += time.Since(began)
	l.calls = append(l.calls, slices.Concat(took...)...)
	if b.Failed() {
		b.FailNow()
	}
}

func (l *load) perSecond() float64 { return float64(len(l.calls)) / l.all.Seconds() }

// p99 is in milliseconds.
func (l *load) p99() float64 {
	slices.Sort(l.calls)
	return float64(l.calls[len(l.calls)*99/100].Microseconds()) / 1000
}
