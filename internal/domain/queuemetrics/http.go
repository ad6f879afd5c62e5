package queuemetrics

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const (
	// maxIntervals bounds the intervals of a response; some more than five minutes of a week, or hours of 90 days.
	maxIntervals = 2200
	// usualIntervals bounds them if the request names no interval.
	usualIntervals = 300
	// usualRange is how much is shown if the request has no from.
	usualRange = 24 * time.Hour
)

// intervals are those that can be requested. Each is a multiple of those of stored histograms that are merged for it.
var intervals = []struct {
	name  string
	width time.Duration
}{
	{"5m", fine}, {"15m", 15 * time.Minute}, {"30m", 30 * time.Minute},
	{"1h", coarse}, {"6h", 6 * time.Hour}, {"12h", 12 * time.Hour}, {"1d", 24 * time.Hour},
}

// Routes returns the routes of queue metrics.
func (s *Service) Routes() []route.Route {
	return []route.Route{{
		Method: http.MethodGet, Path: "/v2/organizations/{org}/clusters/{cluster}/queues/{queue}/metrics", Tag: "Queues",
		Summary:     "Get how long jobs of a queue waited, and how many",
		Description: "Percentiles of the time from when a job was scheduled until it started, by when it started, for up to 90 days. The organization must have enabled advanced queue metrics.",
		Scope:       identity.ReadClusters,
		Query: []route.Param{
			{Name: "from", Doc: "Start of the time range, in ISO 8601; 24 hours before to unless given. At most 90 days ago."},
			{Name: "to", Doc: "End of the time range; now unless given."},
			{Name: "interval", Doc: "5m, 15m, 30m, 1h, 6h, 12h or 1d; chosen to fit the range unless given. Intervals below 1h reach back seven days."},
		},
		Errors:  []int{http.StatusUnprocessableEntity},
		Handler: route.On(s.load, s.get),
	}}
}

type queueWaitMetricsView struct {
	URL       string                  `json:"url"`
	QueueID   string                  `json:"queue_id"`
	QueueURL  string                  `json:"queue_url"`
	EnabledAt core.Time               `json:"enabled_at" doc:"When the organization enabled advanced queue metrics; jobs that started before are not counted."`
	From      core.Time               `json:"from" doc:"Start of the first interval."`
	To        core.Time               `json:"to" doc:"End of the last interval, which may not be over yet."`
	Interval  string                  `json:"interval"`
	Total     queueWaitsView          `json:"total" doc:"Of the whole time range."`
	Intervals []queueWaitIntervalView `json:"intervals" doc:"All intervals of the time range, oldest first."`
}

type queueWaitIntervalView struct {
	From core.Time `json:"from"`
	queueWaitsView
}

type queueWaitsView struct {
	Jobs int64    `json:"jobs" doc:"Jobs that started."`
	P50  *float64 `json:"p50" doc:"Seconds that half of the jobs did not exceed; null without jobs. Percentiles are exact to about six percent."`
	P75  *float64 `json:"p75"`
	P90  *float64 `json:"p90"`
	P95  *float64 `json:"p95"`
	P99  *float64 `json:"p99"`

	WaitingMax int64 `json:"waiting_max" doc:"The most jobs that waited for an agent at the same time, up to 100,000. Noted when jobs are scheduled and when they start."`
	RunningMax int64 `json:"running_max" doc:"The most jobs that agents held at the same time, noted when jobs start."`
}

func viewWaits(h *histogram) queueWaitsView {
	p := func(percent int64) *float64 {
		wait, ok := h.percentile(percent)
		if !ok {
			return nil
		}
		seconds := math.Round(wait.Seconds()*1000) / 1000
		return &seconds
	}
	return queueWaitsView{Jobs: h.jobs(), P50: p(50), P75: p(75), P90: p(90), P95: p(95), P99: p(99), WaitingMax: h.waitingMax, RunningMax: h.runningMax}
}

// A measuredQueue is a queue of an organization that enabled the metrics.
type measuredQueue struct {
	clusters.Queue
	enabledAt time.Time
}

func (s *Service) load(r *route.Request) (m measuredQueue, err error) {
	cluster, _, err := s.clusters.Guard(r)
	if err != nil {
		return m, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		if m.Queue, err = clusters.QueueIn(q, cluster, r.PathValue("queue")); err != nil {
			return err
		}
		set, err := settings.Of(q, r.Org.ID)
		m.enabledAt = set.QueueMetrics.EnabledAt
		return err
	})
	if err == nil && m.enabledAt.IsZero() {
		err = core.Errorf(core.Unprocessable, "Advanced queue metrics are not enabled; an administrator can enable them with PUT %s",
			s.public.Org(r.Org.Slug, "pipeline-settings", "advanced-queue-metrics"))
	}
	return m, err
}

func (s *Service) get(r *route.Request, m measuredQueue) (queueWaitMetricsView, error) {
	asked, err := parseRange(r, s.clock())
	if err != nil {
		return queueWaitMetricsView{}, err
	}
	var total histogram
	parts := make([]histogram, asked.count())
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		total = histogram{}
		clear(parts)
		return between(q, m.ID, asked.from, asked.to, func(at time.Time, h *histogram) {
			total.merge(h)
			parts[at.Sub(asked.from)/asked.width].merge(h)
		})
	})
	if err != nil {
		return queueWaitMetricsView{}, err
	}
	queueURL := s.public.Org(r.Org.Slug, "clusters", m.ClusterID, "queues", m.ID)
	v := queueWaitMetricsView{
		URL:       queueURL + "/metrics",
		QueueID:   m.ID,
		QueueURL:  queueURL,
		EnabledAt: core.At(m.enabledAt),
		From:      core.At(asked.from),
		To:        core.At(asked.to),
		Interval:  asked.interval,
		Total:     viewWaits(&total),
		Intervals: make([]queueWaitIntervalView, len(parts)),
	}
	for i := range parts {
		at := asked.from.Add(time.Duration(i) * asked.width)
		v.Intervals[i] = queueWaitIntervalView{From: core.At(at), queueWaitsView: viewWaits(&parts[i])}
	}
	return v, nil
}

// A timeRange is what a request asks for: whole intervals.
type timeRange struct {
	from, to time.Time
	interval string
	width    time.Duration
}

func (t timeRange) count() int { return int(t.to.Sub(t.from) / t.width) }

// align extends the range to whole intervals.
func (t timeRange) align() timeRange {
	t.from = t.from.UTC().Truncate(t.width)
	if end := t.to.UTC().Truncate(t.width); end.Before(t.to) {
		t.to = end.Add(t.width)
	} else {
		t.to = end
	}
	return t
}

func parseRange(r *route.Request, now time.Time) (t timeRange, err error) {
	if t.to, err = r.QueryTime("to"); err != nil {
		return t, err
	}
	if t.to.IsZero() || t.to.After(now) {
		t.to = now.Add(time.Microsecond) // so that the interval in which now is belongs to the range
	}
	if t.from, err = r.QueryTime("from"); err != nil {
		return t, err
	}
	if t.from.IsZero() {
		t.from = t.to.Add(-usualRange)
	}
	switch {
	case t.from.Before(now.Add(-keep)):
		return t, core.Errorf(core.BadRequest, "from must be at most 90 days ago; older metrics are not kept")
	case !t.from.Before(t.to):
		return t, core.Errorf(core.BadRequest, "from must be before to, and in the past")
	}
	return t.choose(r.FormQuery("interval"), t.from.Before(now.Add(-keepFine)))
}

// choose returns the range in whole intervals: those with a name or, without one, the shortest that are not too many.
// Before a week ago there are hours only.
func (t timeRange) choose(name string, old bool) (timeRange, error) {
	if name != "" && !slices.Contains(intervalNames(), name) {
		return t, core.Errorf(core.BadRequest, "interval must be one of %s", strings.Join(intervalNames(), ", "))
	}
	for _, i := range intervals {
		t.interval, t.width = i.name, i.width
		aligned := t.align()
		coarseEnough := !old || i.width >= coarse
		switch {
		case name == "" && coarseEnough && aligned.count() <= usualIntervals:
			return aligned, nil
		case name != i.name:
		case !coarseEnough:
			return t, core.Errorf(core.BadRequest, "interval must be at least 1h when from is more than 7 days ago")
		case aligned.count() > maxIntervals:
			return t, core.Errorf(core.BadRequest, "the time range has %d intervals of %s; at most %d are possible", aligned.count(), name, maxIntervals)
		default:
			return aligned, nil
		}
	}
	return t.align(), nil
}

func intervalNames() (names []string) {
	for _, i := range intervals {
		names = append(names, i.name)
	}
	return names
}
