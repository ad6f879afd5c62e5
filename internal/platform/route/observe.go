package route

import (
	"bufio"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/trace"
)

// measures counts and times requests by route pattern, never by path.
type measures struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	// known are the metrics of kinds of requests, so that their labels are not looked up for each request.
	known *sync.Map
}

// A requestKind is the labels of a request.
type requestKind struct {
	pattern, method string
	status          int
}

// kindMeasures are the metrics of a kind of requests.
type kindMeasures struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// of returns the metrics of a kind of requests.
func (m measures) of(kind requestKind) *kindMeasures {
	if known, ok := m.known.Load(kind); ok {
		return known.(*kindMeasures)
	}
	of := &kindMeasures{
		requests: m.requests.WithLabelValues(kind.pattern, kind.method, strconv.Itoa(kind.status)),
		seconds:  m.seconds.WithLabelValues(kind.pattern, kind.method),
	}
	m.known.Store(kind, of)
	return of
}

func newMeasures(reg prometheus.Registerer) measures {
	m := measures{
		known: new(sync.Map),
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
	parked     bool // another goroutine serves the rest, and uses this value
	status     int
	bytes      int64
	begun      time.Time
	span       *trace.Span
}

func (m measures) begin(w http.ResponseWriter, hr *http.Request) *observed {
	m.inFlight.Inc()
	o := &observed{ResponseWriter: w, ctx: hr.Context(), id: newRequestID(), method: hr.Method, path: hr.URL.Path, browser: isBrowser(hr), begun: time.Now()}
	w.Header()["X-Request-Id"] = []string{o.id}
	return o
}

// newRequestID returns a random UUID. It identifies a request in logs and need not be hard to guess, so it takes the
// cheaper source of random bits.
func newRequestID() string {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return id.String()
}

// setWriteDeadline sets when writing the response fails.
func (o *observed) setWriteDeadline(at time.Time) {
	if conn, ok := o.ResponseWriter.(interface{ SetWriteDeadline(time.Time) error }); ok {
		conn.SetWriteDeadline(at)
		return
	}
	http.NewResponseController(o.ResponseWriter).SetWriteDeadline(at)
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

// endSpan ends the span of a request. Like the log, it has the pattern of the route only.
func (o *observed) endSpan() {
	if o.span == nil {
		return
	}
	if !knownMethods[o.method] {
		o.method = "other"
	}
	o.span.Name(strings.TrimSpace(o.method + " " + o.pattern))
	o.span.Text("http.request.method", o.method)
	o.span.Text("http.route", o.pattern)
	o.span.Number("http.response.status_code", int64(o.status))
	o.span.Text("stackyard.request_id", o.id)
	if o.status >= 500 {
		o.span.Fail()
	}
	o.span.End()
}

// finish counts and logs a completed request. The log has the route's pattern, not the path or the query, which
// can contain credentials.
func (s *Server) finish(o *observed) {
	took := time.Since(o.begun)
	defer o.endSpan()
	s.measures.inFlight.Dec()
	pattern, method := o.pattern, o.method
	if pattern == "" {
		pattern = "unmatched"
	}
	if !knownMethods[method] {
		method = "other"
	}
	of := s.measures.of(requestKind{pattern, method, o.status})
	of.requests.Inc()
	of.seconds.Observe(took.Seconds())
	level := slog.LevelInfo
	if o.status >= 500 {
		level = slog.LevelWarn
	}
	attrs := append(make([]slog.Attr, 0, 10),
		slog.String("request_id", o.id), slog.String("method", method), slog.String("route", pattern), slog.Int("status", o.status),
		slog.Int64("bytes", o.bytes), slog.Float64("ms", float64(took.Microseconds())/1000))
	for _, a := range [...]struct{ key, value string }{{"org", o.org}, {"user", o.user}, {"agent", o.agent}, {"agent_token", o.agentToken}} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	s.log.LogAttrs(context.Background(), level, "request", attrs...)
}
