package agents_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// BenchmarkLifecycleBesideDeliveries runs the jobs of BenchmarkLifecycle with and without 100,000 deliveries that wait
// for a receiver which does not answer, alternately.
func BenchmarkLifecycleBesideDeliveries(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) { benchmarkBesideDeliveries(b, engine) })
	}
}

const (
	queuedDeliveries = 100_000
	deliveryRounds   = 3
)

func benchmarkBesideDeliveries(b *testing.B, engine db.Engine) {
	d := onDisk(b, engine)
	s := serve(b, d, func(time.Duration) time.Duration { return 100 * time.Millisecond })
	ada := s.As(b, servertest.Ada)
	ada.Patch(servertest.HelloPath, fields{"configuration": fmt.Sprintf("steps: [{command: work, parallelism: %d}]", lifecycleJobs)}).Want(200)
	fleet := newMembers(b, s.URL, lifecycleAgents)
	service := ada.Post("/v2/organizations/acme/services", fields{"provider": "webhook", "settings": fields{"url": silentReceiver(b), "events": []string{"build.skipped"}}}).Want(201).String("id")
	var with, without time.Duration
	for b.Loop() {
		for range deliveryRounds {
			clearDeliveries(b, d)
			without += timeSecondBuild(b, s, fleet)
			queueDeliveries(b, s, service)
			with += timeSecondBuild(b, s, fleet)
		}
	}
	jobs := float64(b.N * deliveryRounds * lifecycleJobs)
	b.ReportMetric(jobs/with.Seconds(), "jobs/s")
	b.ReportMetric(jobs/without.Seconds(), "jobs/s-without")
	b.ReportMetric(without.Seconds()/with.Seconds(), "rate/without")
	b.ReportMetric(0, "ns/op")
}

// timeSecondBuild runs two builds and returns how long the second takes. The first pays for what was written before it.
func timeSecondBuild(b *testing.B, s *servertest.Server, fleet []*member) time.Duration {
	b.Helper()
	runBuild(b, s, fleet)
	began := time.Now()
	runBuild(b, s, fleet)
	return time.Since(began)
}

// silentReceiver returns the URL of a receiver that accepts connections and never answers.
func silentReceiver(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.Cleanup(func() { conn.Close() })
		}
	}()
	return "http://" + listener.Addr().String()
}

// queueDeliveries queues an event many times, as if of as many builds, and has them sent.
func queueDeliveries(b *testing.B, s *servertest.Server, service string) {
	b.Helper()
	orgID := s.OrganizationID(b, "acme")
	all := make([]int, queuedDeliveries)
	err := s.DB.Write(b.Context(), func(q *db.Q) error {
		now := core.SystemClock()
		var seq int64
		err := q.QueryRow(`
			INSERT INTO events (id, organization_id, name, facts, created_at) VALUES ($1, $2, $3, '{}', $4) RETURNING seq`,
			core.NewID(), orgID, events.BuildSkipped, db.Micros(now)).Scan(&seq)
		if err != nil {
			return err
		}
		err = db.InsertMany(q, `INSERT INTO deliveries (id, organization_id, service_id, event, event_seq, order_key, state, attempts, created_at)`, all, func(int) []any {
			return []any{core.NewID(), orgID, service, events.BuildSkipped, seq, core.NewID(), "pending", 0, db.Micros(now)}
		}, "")
		if err != nil {
			return err
		}
		// The receiver gets no rest.
		if _, err := q.Exec(`DELETE FROM delivery_failures`); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: "notification-delivery", Key: service, Payload: fields{"organization_id": orgID}, RunAt: now})
	})
	if err != nil {
		b.Fatal(err)
	}
}

// clearDeliveries removes all deliveries.
func clearDeliveries(b *testing.B, d *db.DB) {
	b.Helper()
	err := d.Write(b.Context(), func(q *db.Q) error {
		_, err := q.Exec(`DELETE FROM deliveries`)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
