package oauth

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// addWaiting adds requests of devices that wait, many at a time, and returns their device codes.
func addWaiting(tb testing.TB, s *Service, a Application, n int) []string {
	tb.Helper()
	codes := make([]string, n)
	err := s.db.Write(tb.Context(), func(q *db.Q) error {
		for i := range codes {
			codes[i] = fmt.Sprintf("code-%d", i)
			now := s.clock()
			d := device{
				id: seal.HashToken(codes[i]), application: a, scopes: identity.Scopes{"read_user"}, state: pending, interval: pollInterval,
				createdAt: now, expiresAt: now.Add(deviceLife),
			}
			if _, err := insertDevice(q, d, s.userCodes.hash(codes[i])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return codes
}

func TestPoll_FindsItsRequestAmongManyByAnIndex(t *testing.T) {
	eachFixture(t, func(t *testing.T, s *fixture) {
		addWaiting(t, s.Service, s.tool, 10_000)
		s.exec(`ANALYZE`)
		removal := `SELECT id FROM oauth_device_requests WHERE expires_at < $1 ORDER BY expires_at LIMIT $2`
		for statement, args := range map[string][]any{
			deviceByID:       {"x"},
			deviceByUserCode: {"x"},
			updatePoll:       {"x", 5, 1, "body", false},
			removal:          {1, 500},
			`DELETE FROM oauth_device_requests WHERE grant_id = $1`: {"x"},
		} {
			plan := explain(t, s.db, statement, args)
			if !strings.Contains(plan, "oauth_device_requests") && !strings.Contains(plan, " d ") {
				t.Errorf("the plan does not speak of requests:\n%s", plan)
			}
			for line := range strings.Lines(plan) {
				if strings.Contains(line, "Seq Scan on oauth_device_requests") || strings.HasPrefix(line, "SCAN d") || strings.HasPrefix(line, "SCAN oauth_device_requests") && !strings.Contains(line, "INDEX") {
					t.Errorf("%s\nlooks at every request:\n%s", statement, plan)
				}
			}
		}
	})
}

// explain returns how the engine would run a statement, which is not run.
func explain(t *testing.T, d *db.DB, statement string, args []any) string {
	t.Helper()
	explain, columns := "EXPLAIN ", 1
	if d.Engine() == db.SQLite {
		explain, columns = "EXPLAIN QUERY PLAN ", 4
	}
	var plan []string
	err := d.Write(t.Context(), func(q *db.Q) (err error) {
		plan, err = db.All(q, func(scan db.Scan) (line string, err error) {
			dest := make([]any, columns)
			for i := range dest {
				dest[i] = new(any)
			}
			dest[columns-1] = &line
			return line, scan(dest...)
		}, explain+statement, args...)
		return err
	})
	if err != nil {
		t.Fatalf("explain %s: %v", statement, err)
	}
	return strings.Join(plan, "\n")
}

// BenchmarkPoll polls for 10,000 devices that wait, many at a time, and for as few as are polled for at a
// time in the same run. What a poll takes must not grow with them.
func BenchmarkPoll(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			few := newPolling(b, engine, pollsAtOnce)
			many := newPolling(b, engine, 10_000)
			for b.Loop() {
				many.round(b)
			}
			took := b.Elapsed()
			began := time.Now()
			for range b.N {
				few.round(b)
			}
			b.ReportMetric(float64(took)/float64(time.Since(began)), "time/few-waiting")
			b.ReportMetric(float64(took.Microseconds())/float64(b.N*pollsAtOnce), "µs/poll")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const pollsAtOnce = 64

// polling are devices that poll in turn.
type polling struct {
	*Service
	application Application
	codes       []string
	next        int
}

func newPolling(b *testing.B, engine db.Engine, devices int) *polling {
	d := dbtest.New(b, engine)
	clock := func() time.Time { return noon }
	p := &polling{
		Service:     New(d, identity.NewDirectory(d, clock), seal.NewKey(), "https://ci.test", clock),
		application: newApplication("tool", noon),
	}
	if err := d.Write(b.Context(), func(q *db.Q) error { return insertApplication(q, p.application) }); err != nil {
		b.Fatal(err)
	}
	p.codes = addWaiting(b, p.Service, p.application, devices)
	return p
}

// round has the next devices poll at the same time. Whether that is too fast makes no difference to the
// work.
func (p *polling) round(b *testing.B) {
	var polls sync.WaitGroup
	for range pollsAtOnce {
		code := p.codes[p.next%len(p.codes)]
		p.next++
		polls.Go(func() {
			if _, err := p.redeemDevice(b.Context(), p.application, code, inBody); core.KindOf(err) != core.BadRequest {
				b.Error(err)
			}
		})
	}
	polls.Wait()
}
