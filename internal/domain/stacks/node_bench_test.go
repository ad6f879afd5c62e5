package stacks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// BenchmarkNode has eight stacks call one server at the same time, each about its own thousand jobs in a queue
// of 10,000: list, reserve, extend, get tokens and states. The baseline runs the bare statement that each call
// needs at least, with the same concurrency.
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
	nodeRequests = 10 // of each stack in a round
)

// A node is a server that many stacks call.
type node struct {
	*longQueue
	stacks []*nodeStack
}

// A nodeStack is a stack with its own connection and jobs.
type nodeStack struct {
	*servertest.Caller
	path string
	ids  []string
	body string // names its jobs
}

func newNode(b *testing.B, engine db.Engine) *node {
	n := &node{longQueue: newLongQueue(b, dbtest.New(b, engine), 10)}
	after := ""
	for i := range nodeStacks {
		key := fmt.Sprint("stack-", i)
		n.AsAgent(b, servertest.AcmeAgent).Post("/v3/stacks/register", registration(key)).Want(201)
		var page jobPage
		n.call("GET", thousand+after, "", &page)
		after = "&after=" + page.PageInfo.EndCursor
		caller, err := servertest.Dial(n.URL)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { caller.Close() })
		n.stacks = append(n.stacks, &nodeStack{Caller: caller, path: "/v3/stacks/" + key, ids: page.ids(), body: jobUUIDs(page.ids())})
	}
	return n
}

const thousand = "/scheduled-jobs?queue_key=default&limit=1000"

// A nodeCall is a call of stacks and its bare statement.
type nodeCall struct {
	name     string
	ask      func(s *nodeStack) error
	bare     func(q *db.Q, s *nodeStack) error
	writes   bool // whether the statement writes
	reserved bool // whether the jobs are reserved before
}

var nodeCalls = []nodeCall{
	{name: "list", ask: askList, bare: bareList},
	{name: "reserve", ask: askReserve, bare: bareReserve, writes: true},
	{name: "extend", ask: askReserve, bare: bareReserve, writes: true, reserved: true},
	{name: "tokens", ask: askTokens, bare: bareReserved, reserved: true},
	{name: "states", ask: askStates, bare: bareStates, reserved: true},
}

func askList(s *nodeStack) error {
	return s.Call("GET", s.path+thousand, servertest.AcmeAgent, "", nil)
}

func askReserve(s *nodeStack) error {
	return s.Call("PUT", s.path+"/scheduled-jobs/batch-reserve", servertest.AcmeAgent, s.body, nil)
}

func askTokens(s *nodeStack) error {
	return s.Call("POST", s.path+"/job-acquisition-tokens", servertest.AcmeAgent, s.body, nil)
}

func askStates(s *nodeStack) error {
	return s.Call("POST", s.path+"/jobs/get-states", servertest.AcmeAgent, s.body, nil)
}

func bareList(q *db.Q, s *nodeStack) error {
	return drain(q, 7, `
		SELECT job_id, priority, rule_set, scheduled_at, pipeline_id, build_id, step_key FROM runnable
		WHERE queue_id = $1 AND reserved_until IS NULL
		ORDER BY scheduled_at, job_id
		LIMIT 1000`, servertest.AcmeQueueID)
}

func bareReserve(q *db.Q, s *nodeStack) error {
	in, arg := q.In("job_id", 3, s.ids)
	return drain(q, 1, `
		UPDATE runnable SET reserved_by = $1, reserved_until = $2
		WHERE `+in+`
		RETURNING job_id`, s.path, time.Now().UnixMicro(), arg)
}

func bareReserved(q *db.Q, s *nodeStack) error {
	in, arg := q.In("job_id", 1, s.ids)
	return drain(q, 3, `SELECT job_id, reserved_by, reserved_until FROM runnable WHERE `+in, arg)
}

func bareStates(q *db.Q, s *nodeStack) error {
	in, arg := q.In("j.id", 1, s.ids)
	return drain(q, 3, `
		SELECT j.id, j.state, r.reserved_until FROM jobs j LEFT JOIN runnable r ON r.job_id = j.id
		WHERE `+in, arg)
}

// drain reads and discards all rows of a statement.
func drain(q *db.Q, columns int, statement string, args ...any) error {
	values, into := make([]any, columns), make([]any, columns)
	for i := range values {
		into[i] = &values[i]
	}
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) { return none, scan(into...) }, statement, args...)
	return err
}

func (n *node) benchmark(b *testing.B, call nodeCall) {
	for _, s := range n.stacks {
		if err := n.prepare(s, call); err != nil {
			b.Fatal(err)
		}
	}
	run := n.DB.Read
	if call.writes {
		run = n.DB.Write
	}
	var ours, bare load
	for b.Loop() {
		ours.add(b, n, call, call.ask)
		bare.add(b, n, call, func(s *nodeStack) error {
			return run(b.Context(), func(q *db.Q) error { return call.bare(q, s) })
		})
	}
	b.ReportMetric(ours.perSecond(), "requests/s")
	b.ReportMetric(ours.p99(), "ms-p99")
	b.ReportMetric(bare.perSecond(), "bare/s")
	b.ReportMetric(bare.p99(), "bare-ms-p99")
	b.ReportMetric(ours.perSecond()/bare.perSecond(), "of-bare")
	b.ReportMetric(0, "ns/op")
}

// prepare brings the jobs of a stack into their state before a call.
func (n *node) prepare(s *nodeStack, call nodeCall) error {
	if call.reserved {
		return askReserve(s)
	}
	return n.DB.Write(n.t.Context(), func(q *db.Q) error {
		in, arg := q.In("job_id", 1, s.ids)
		if _, err := q.Exec(`UPDATE runnable SET reserved_by = NULL, reserved_until = NULL WHERE reserved_until IS NOT NULL AND `+in, arg); err != nil {
			return err
		}
		_, err := q.Exec(`DELETE FROM job_milestones WHERE what = 'reserved' AND `+in, arg)
		return err
	})
}

// A load is the durations of calls that all stacks made at once.
type load []time.Duration

// add calls fn nodeRequests times for each stack.
func (l *load) add(b *testing.B, n *node, call nodeCall, do func(*nodeStack) error) {
	b.Helper()
	took := make([]load, len(n.stacks))
	var running sync.WaitGroup
	for i, s := range n.stacks {
		running.Go(func() {
			for range nodeRequests {
				if call.writes {
					if err := n.prepare(s, call); err != nil {
						b.Error(err)
						return
					}
				}
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
	*l = append(*l, slices.Concat(took...)...)
	if b.Failed() {
		b.FailNow()
	}
}

// perSecond returns the calls per second of all stacks together.
func (l load) perSecond() float64 {
	var all time.Duration
	for _, one := range l {
		all += one
	}
	return float64(len(l)*nodeStacks) / all.Seconds()
}

// p99 returns the 99th percentile in milliseconds.
func (l load) p99() float64 {
	slices.Sort(l)
	return float64(l[len(l)*99/100].Microseconds()) / 1000
}
