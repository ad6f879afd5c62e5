package limits

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// BenchmarkTake prints the cost of a request that is counted together with other processes, as a ratio to one
// that is counted in this process only, and to the bare upsert of a number.
func BenchmarkTake(b *testing.B) {
	d := dbtest.New(b, db.PostgreSQL)
	l := New(d, core.SystemClock, nil, slog.New(slog.DiscardHandler))
	single := alone(core.SystemClock)
	key := 0
	for _, c := range []struct {
		name string
		take func()
	}{
		{"small limit, each request counted", func() {
			key++ // so that none is refused
			l.Take(b.Context(), strconv.Itoa(key%10_000), small)
		}},
		{"large limit, within a share", func() { l.Take(b.Context(), "large", 1_000_000) }},
		{"large limit, a lease each time", func() {
			key++
			l.Take(b.Context(), "sparse "+strconv.Itoa(key), 1000)
		}},
		{"known to be refused", func() { l.Take(b.Context(), "refused", 1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.take()
			}
			each := b.Elapsed() / time.Duration(b.N)
			memory := timed(b.N, func(int) { single.Take(b.Context(), "key", 1_000_000) })
			upsert := timed(min(b.N, 500), func(int) {
				err := d.WriteOne(b.Context(), func(q *db.Q) error {
					_, err := q.Exec(`
						INSERT INTO rate_shares (key, leases, at) VALUES ('bare', '', 0)
						ON CONFLICT (key) DO UPDATE SET at = rate_shares.at + 1`)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			})
			b.ReportMetric(float64(each)/float64(memory), "time/in-memory")
			b.ReportMetric(float64(each)/float64(upsert), "time/bare-upsert")
		})
	}
}

// timed returns how long a call takes on average.
func timed(n int, call func(i int)) time.Duration {
	started := time.Now()
	for i := range n {
		call(i)
	}
	return max(1, time.Since(started)/time.Duration(n))
}
