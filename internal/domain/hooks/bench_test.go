package hooks_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

var benchDeliveries = flag.Int("deliveries", 5000, "deliveries of the burst of BenchmarkBurst")

const (
	benchSenders  = 32 // connections of the source host
	benchBranches = 50
)

// BenchmarkBurst sends a burst of deliveries over HTTP while the server builds them, and, in the same run, the same
// requests to a bare handler that makes one durable insert of the body. It reports the times of the responses of both,
// and how long it takes until the last build exists.
func BenchmarkBurst(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			for range b.N {
				benchmarkBurst(b, engine)
			}
		})
	}
}

func benchmarkBurst(b *testing.B, engine db.Engine) {
	bare := newBare(b, benchDB(b, engine))
	bareTimes := burst(b, bare.URL, "secret")
	bare.Close()

	d := benchDB(b, engine)
	s := servertest.Start(b, d, func(p *server.Parts) { p.Clock = core.SystemClock })
	s.Apply(servertest.World)
	w := &world{Server: s, t: b, ada: s.As(b, servertest.Ada)}
	w.pipeline("App", "https://github.com/acme/app.git", nil)
	hook := w.ada.Get(app + "/webhook").Want(http.StatusOK)
	s.Server.Start()
	defer s.Stop()
	began := time.Now()
	times := burst(b, hook.String("url"), hook.String("secret"))
	answered := time.Since(began)
	for w.ada.Get(app+"/builds?per_page=1").Want(http.StatusOK).At("0.number").(float64) < float64(*benchDeliveries) {
		time.Sleep(50 * time.Millisecond)
	}
	built := time.Since(began)

	for _, c := range []struct {
		name  string
		times []time.Duration
	}{{"", times}, {"bare-", bareTimes}} {
		slices.Sort(c.times)
		for _, percent := range []int{50, 99} {
			b.ReportMetric(float64(c.times[len(c.times)*percent/100].Microseconds())/1000, fmt.Sprintf("%sms-p%d", c.name, percent))
		}
	}
	b.ReportMetric(float64(*benchDeliveries)/answered.Seconds(), "deliveries/s")
	b.ReportMetric(float64(*benchDeliveries)/built.Seconds(), "builds/s")
	b.ReportMetric(0, "ns/op")
}

// benchDB returns a database whose writes reach the disk.
func benchDB(b *testing.B, engine db.Engine) *db.DB {
	if engine == db.PostgreSQL {
		return dbtest.New(b, engine)
	}
	d := dbtest.Open(b, filepath.Join(b.TempDir(), "stackyard.db"))
	if err := d.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return d
}

// newBare returns a server that answers after it has inserted the body of a request.
func newBare(b *testing.B, d *db.DB) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = d.Write(r.Context(), func(q *db.Q) error {
				_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, $2)`, core.NewID(), string(body))
				return err
			})
		}
		if err != nil {
			b.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
}

// burst sends all deliveries, as fast as the connections can, and returns how long each response took.
func burst(b *testing.B, url, secret string) []time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchSenders}}
	defer client.CloseIdleConnections()
	padding := strings.Repeat("x", 8<<10) // bodies of hosts have many more fields than are read
	requests := make([]*http.Request, *benchDeliveries)
	for i := range requests {
		body := strings.TrimSuffix(push(fmt.Sprint("branch-", i%benchBranches), i), "}") + `,"padding":"` + padding + `"}`
		req, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-GitHub-Event", "push")
		req.Header.Set("X-GitHub-Delivery", core.NewID())
		req.Header.Set("X-Hub-Signature-256", "sha256="+signature(secret, body))
		requests[i] = req
	}
	times := make([]time.Duration, len(requests))
	var senders sync.WaitGroup
	for sender := range benchSenders {
		senders.Go(func() {
			for i := sender; i < len(requests); i += benchSenders {
				began := time.Now()
				resp, err := client.Do(requests[i])
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				times[i] = time.Since(began)
				if resp.StatusCode != http.StatusAccepted {
					b.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}
	senders.Wait()
	return times
}
