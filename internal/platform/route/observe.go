package route

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/core"
)

// measures counts and times requests by route pattern, never by path.
type measures struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMeasures(reg prometheus.Registerer) measures {
	m := measures{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stackyard_http_requests_total",
			Help: "HTTP requests answered, by route pattern, method and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stackyard_http_request_seconds",
			Help:    "Time to answer an HTTP request, by route pattern and method.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stackyard_http_requests_in_flight",
			Help: "HTTP requests being answered now.",
		}),
	}
	reg.MustRegister(m.requests, m.seconds, m.inFlight)
	return m
}

// observed is a response writer that collects data for the log and the metrics.
type observed struct {
	http.ResponseWriter
	ctx     context.Context // of the request: it ends when the client disconnects
	id      string
	method  string
	path    string
	pattern string
	org     string
	user    string
	agent   string
	// agentToken is the id of an agent token.
	agentToken string
	browser    bool // a person probably reads the response
	oauth      bool // errors use the format of OAuth
	status     int
	bytes      int64
	begun      time.Time
}

func (m measures) begin(w http.ResponseWriter, hr *http.Request) *observed {
	m.inFlight.Inc()
	o := &observed{ResponseWriter: w, ctx: hr.Context(), id: core.NewID(), method: hr.Method, path: hr.URL.Path, browser: isBrowser(hr), begun: time.Now()}
	w.Header().Set("X-Request-Id", o.id)
	return o
}

// caller records who made the request.
func (o *observed) caller(r *Request) {
	if r.Org != nil {
		o.org = r.Org.Slug
	}
	if r.Caller != nil {
		o.user = r.Caller.User.ID
	}
	if r.Agent != nil {
		o.agentToken = r.Agent.ID
	}
	if r.Session != nil {
		o.agent = r.Session.AgentID
	}
}

func (o *observed) WriteHeader(status int) {
	if o.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	n, err := o.ResponseWriter.Write(b)
	o.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// Hijack returns the connection, for protocols that start as HTTP.
func (o *observed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(o.ResponseWriter).Hijack()
}

// knownMethods bounds the metric labels that clients can cause.
var knownMethods = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true}

// finish counts and logs a completed request. The log has the route's pattern, not the path or the query, which
// can contain credentials.
func (s *Server) finish(o *observed) {
	took := time.Since(o.begun)
	s.measures.inFlight.Dec()
	pattern, method := o.pattern, o.method
	if pattern == "" {
		pattern = "unmatched"
	}
	if !knownMethods[method] {
		method = "other"
	}
	s.measures.requests.WithLabelValues(pattern, method, strconv.Itoa(o.status)).Inc()
	s.measures.seconds.WithLabelValues(pattern, method).Observe(took.Seconds())
	level := slog.LevelInfo
	if o.status >= 500 {
		level = slog.LevelWarn
	}
	attrs := []any{"request_id", o.id, "method", method, "route", pattern, "status", o.status, "bytes", o.bytes, "ms", float64(took.Microseconds()) / 1000}
	for _, a := range []struct{ key, value string }{{"org", o.org}, {"user", o.user}, {"agent", o.agent}, {"agent_token", o.agentToken}} {
		if a.value != "" {
			attrs = append(attrs, a.key, a.value)
		}
	}
	s.log.Log(context.Background(), level, "request", attrs...)
}
