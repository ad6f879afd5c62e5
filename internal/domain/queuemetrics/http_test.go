package queuemetrics_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
)

const (
	acme     = "/v2/organizations/acme"
	settings = acme + "/pipeline-settings/advanced-queue-metrics"
	metrics  = acme + "/clusters/" + servertest.AcmeClusterID + "/queues/" + servertest.AcmeQueueID + "/metrics"
)

// A world is a running server whose clock is at noon.
type world struct {
	*servertest.Server
	t   *testing.T
	ada *servertest.Client
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		noon := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
		s.Clock.Advance(noon.Sub(s.Clock.Now()))
		fn(t, &world{Server: s, t: t, ada: s.As(t, servertest.Ada)})
	})
}

func (w *world) enable() {
	w.t.Helper()
	w.ada.Put(settings, nil).Want(http.StatusOK)
}

// run has jobs of one build wait and then start and end.
func (w *world) run(jobs int, wait time.Duration) {
	w.t.Helper()
	w.ada.Patch(servertest.HelloPath, map[string]any{
		"configuration": fmt.Sprintf("steps: [{command: a, parallelism: %d}]", jobs),
	}).Want(http.StatusOK)
	build := w.ada.Post(servertest.HelloPath+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	w.Clock.Advance(wait)
	agent := w.Register(w.t, nil)
	for i := range jobs {
		agent.Acquire(build.String(fmt.Sprintf("jobs.%d.id", i))).Start().Finish("0")
	}
}

// pass lets time pass and runs what is due then.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.Clock.Advance(d)
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// show returns the intervals with jobs as lines of time, jobs and percentiles.
func show(r *servertest.Response) string {
	var body struct {
		Intervals []struct {
			From                    string
			Jobs                    int
			P50, P75, P90, P95, P99 *float64
		}
	}
	r.JSON(&body)
	var lines []string
	for _, i := range body.Intervals {
		if i.Jobs > 0 {
			lines = append(lines, fmt.Sprintf("%s %d %v %v %v %v %v", i.From[5:16], i.Jobs, *i.P50, *i.P75, *i.P90, *i.P95, *i.P99))
		}
	}
	return strings.Join(lines, "\n")
}

func (w *world) want(query, lines string) *servertest.Response {
	w.t.Helper()
	got := w.ada.Get(metrics + query).Want(http.StatusOK)
	if show(got) != lines {
		w.t.Errorf("GET %s:\n%s\nwant:\n%s", query, show(got), lines)
	}
	return got
}

func TestMetrics_ShowHowLongJobsWaited(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.run(1, time.Minute) // not counted: metrics are not enabled yet
		w.enable()
		w.run(3, 2*time.Second)
		w.run(1, 10*time.Second)
		w.pass(0)
		got := w.want("", "03-01T12:00 4 1.984 1.984 9.728 9.728 9.728")
		for path, want := range map[string]string{
			"url": w.URL + metrics, "queue_id": servertest.AcmeQueueID, "queue_url": w.URL + strings.TrimSuffix(metrics, "/metrics"),
			"interval": "5m", "from": "2027-02-28T12:00:00.000Z", "to": "2027-03-01T12:05:00.000Z", "enabled_at": "2027-03-01T12:01:00.000Z",
			"total.jobs": "4", "total.p50": "1.984", "total.p99": "9.728",
		} {
			if got.String(path) != want {
				t.Errorf("%s is %s, want %s", path, got.String(path), want)
			}
		}
		if n := got.Len("intervals"); n != 289 || got.At("intervals.0.p50") != nil || got.String("intervals.0.jobs") != "0" {
			t.Errorf("%d intervals, the first is %v", n, got.At("intervals.0"))
		}
		w.pass(10 * time.Minute)
		w.run(1, time.Minute)
		w.pass(0)
		w.want("", "03-01T12:00 4 1.984 1.984 9.728 9.728 9.728\n03-01T12:10 1 59.392 59.392 59.392 59.392 59.392")
		w.want("?interval=1h", "03-01T12:00 5 1.984 9.728 59.392 59.392 59.392")
		w.want("?from=2027-03-01T12:05:00Z&to=2027-03-01T12:09:59Z", "")
		w.want("?from=2027-03-01T12:04:59Z&to=2027-03-01T12:10:00Z", "03-01T12:00 4 1.984 1.984 9.728 9.728 9.728")
		w.want("?from=2027-03-01&interval=1d", "03-01T00:00 5 1.984 9.728 59.392 59.392 59.392")
	})
}

func TestMetrics_BecomeHoursAfterAWeekAndGoAfter90Days(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const day = 24 * time.Hour
		w.enable()
		for range 4 {
			w.run(1, 20*time.Minute)
		}
		w.pass(0)
		w.want("?interval=5m", strings.Join([]string{
			"03-01T12:20 1 1245.184 1245.184 1245.184 1245.184 1245.184",
			"03-01T12:40 1 1245.184 1245.184 1245.184 1245.184 1245.184",
			"03-01T13:00 1 1245.184 1245.184 1245.184 1245.184 1245.184",
			"03-01T13:20 1 1245.184 1245.184 1245.184 1245.184 1245.184",
		}, "\n"))
		w.wantRows(5, 0)            // the first job was scheduled at 12:00
		w.pass(7*day - 2*time.Hour) // 11:20
		w.wantRows(5, 0)
		w.pass(100 * time.Minute) // 13:00
		w.wantRows(2, 1)
		w.pass(time.Hour)
		w.wantRows(0, 2)
		hours := "03-01T12:00 2 1245.184 1245.184 1245.184 1245.184 1245.184\n03-01T13:00 2 1245.184 1245.184 1245.184 1245.184 1245.184"
		w.want("?from=2027-03-01&to=2027-03-02&interval=1h", hours)
		w.want("?from=2027-03-01&to=2027-03-02", hours)
		w.pass(83*day - 90*time.Minute) // 12:30
		w.wantRows(0, 1)
		w.pass(time.Hour)
		w.wantRows(0, 0)
	})
}

// wantRows fails the test unless that many rows are stored.
func (w *world) wantRows(fine, coarse int) {
	w.t.Helper()
	for width, want := range map[int]int{300: fine, 3600: coarse} {
		var got int
		err := w.DB.Read(w.t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT COUNT(*) FROM queue_waits WHERE width = $1`, width).Scan(&got)
		})
		if err != nil || got != want {
			w.t.Errorf("%d rows of %d seconds, want %d; error %v", got, width, want, err)
		}
	}
}

func TestMetrics_MergeManyQueuesInBatches(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.enable()
		const queues, slots = 130, 5
		at := w.Clock.Now().Add(-10 * 24 * time.Hour)
		err := w.DB.Write(t.Context(), func(q *db.Q) error {
			for i := range queues * slots {
				_, err := q.Exec(`INSERT INTO queue_waits (queue_id, width, starts_at, waits) VALUES ($1, 300, $2, '[20,2]')`,
					fmt.Sprint("queue ", i%queues), db.Micros(at.Add(time.Duration(i/queues)*5*time.Minute)))
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.wantRows(0, queues)
		var merged int
		err = w.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT COUNT(*) FROM queue_waits WHERE waits = '[20,10]'`).Scan(&merged)
		})
		if err != nil || merged != queues {
			t.Errorf("%d hours have all waits, want %d; error %v", merged, queues, err)
		}
	})
}

func TestMetrics_CostTheSameForAnyNumberOfJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.enable()
		var statements atomic.Int64
		w.DB.OnStatement(func(text string, _ []any) {
			if strings.Contains(text, "queue_waits") || strings.Contains(text, "SELECT id, queue_id FROM jobs") {
				statements.Add(1)
			}
		})
		cost := func(jobs int) int64 {
			w.run(jobs, time.Second)
			statements.Store(0)
			w.pass(0)
			return statements.Load()
		}
		cost(2)
		if few, many := cost(2), cost(40); few == 0 || many != few {
			t.Errorf("%d statements for 2 jobs, %d for 40", few, many)
		}
	})
}

func TestMetrics_HaveNoEventsWrittenUnlessEnabled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.run(1, time.Second)
		if list := w.Events(t); len(list) != 0 {
			t.Errorf("%d events before, want none", len(list))
		}
		w.enable()
		w.run(1, time.Second)
		if list := w.Events(t); len(list) != 2 || list[0].Name != events.JobScheduled || list[1].Name != events.JobStarted {
			t.Errorf("events %+v, want that the job was scheduled and started", list)
		}
	})
}

func TestMetrics_ShowHowManyJobsWaitedAndRan(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.enable()
		w.ada.Patch(servertest.HelloPath, map[string]any{"configuration": "steps: [{command: a, parallelism: 5}]"}).Want(http.StatusOK)
		build := w.ada.Post(servertest.HelloPath+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		w.pass(0) // no agent is there
		peaks := func(interval string) string {
			got := w.ada.Get(metrics + "?from=2027-03-01T12:00:00Z&interval=" + interval).Want(http.StatusOK)
			list := fmt.Sprint("total ", got.At("total.waiting_max"), " ", got.At("total.running_max"))
			for i := range got.Len("intervals") {
				list += fmt.Sprintf(", %v %v", got.At(fmt.Sprintf("intervals.%d.waiting_max", i)), got.At(fmt.Sprintf("intervals.%d.running_max", i)))
			}
			return list
		}
		if got := peaks("5m"); got != "total 5 0, 5 0" {
			t.Errorf("without agents: %s", got)
		}
		w.Clock.Advance(10 * time.Minute)
		for i := range 3 {
			agent := w.Register(t, nil)
			agent.Acquire(build.String(fmt.Sprintf("jobs.%d.id", i))).Start()
		}
		w.pass(0)
		for interval, want := range map[string]string{"5m": "total 5 3, 5 0, 0 0, 5 3", "1h": "total 5 3, 5 3"} {
			if got := peaks(interval); got != want {
				t.Errorf("%s with three agents: %s, want %s", interval, got, want)
			}
		}
	})
}

func TestMetrics_RefuseWhatTheyDoNotHave(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Get(metrics).WantMessage(http.StatusUnprocessableEntity,
			"Advanced queue metrics are not enabled; an administrator can enable them with PUT "+w.URL+settings)
		w.enable()
		for query, want := range map[string]string{
			"from=x":                        "from must be a time in ISO 8601, such as 2026-01-02T03:04:05Z",
			"to=yesterday":                  "to must be a time in ISO 8601, such as 2026-01-02T03:04:05Z",
			"from=2026-11-01":               "from must be at most 90 days ago; older metrics are not kept",
			"from=2027-03-02":               "from must be before to, and in the past",
			"from=2027-02-28&to=2027-02-27": "from must be before to, and in the past",
			"interval=7m":                   "interval must be one of 5m, 15m, 30m, 1h, 6h, 12h, 1d",
			"from=2027-02-01&interval=30m":  "interval must be at least 1h when from is more than 7 days ago",
			"from=1970-01-01&interval=5m":   "from must be at most 90 days ago; older metrics are not kept",
		} {
			w.ada.Get(metrics+"?"+query).WantMessage(http.StatusBadRequest, want)
		}
		w.ada.Get(metrics + "?from=" + url.QueryEscape("2026-12-02T00:00:00+01:00") + "&interval=1h").Want(http.StatusOK)
		for _, path := range []string{
			acme + "/clusters/" + servertest.RivalClusterID + "/queues/" + servertest.AcmeQueueID + "/metrics",
			acme + "/clusters/" + servertest.AcmeClusterID + "/queues/" + servertest.AcmeClusterID + "/metrics",
			acme + "/clusters/" + servertest.AcmeClusterID + "/queues/x/metrics",
		} {
			w.ada.Get(path).Want(http.StatusNotFound)
		}
		w.As(t, servertest.Bo).Get(metrics).Want(http.StatusOK)
		w.As(t, servertest.Cy).Get(metrics).Want(http.StatusNotFound)
	})
}
