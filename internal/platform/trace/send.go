package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Settings say where traces are sent, and how many.
type Settings struct {
	URL     string // of the collector's traces, usually ending in /v1/traces; "": none are recorded
	Headers map[string]string
	Ratio   float64 // the share of traces that are recorded
	// FollowParent makes the sampled flag of a client's traceparent decide. Otherwise clients cannot cause recording.
	FollowParent bool
	Service      string
	Version      string
}

const (
	maxQueued = 4096 // spans; more are dropped
	maxBatch  = 512  // spans of one request
	// sendEvery is how long spans wait for others.
	sendEvery   = 2 * time.Second
	sendTimeout = 10 * time.Second
	// complainEvery limits log messages about a collector that fails.
	complainEvery = time.Minute
)

type tracer struct {
	Settings
	log        *slog.Logger
	client     *http.Client
	threshold  uint64
	spans      chan *tracepb.Span
	dropped    atomic.Int64
	complained time.Time
}

// Start records traces until the returned function is called, which sends the rest.
func Start(s Settings, log *slog.Logger) (stop func()) {
	if s.URL == "" {
		return func() {}
	}
	t := &tracer{Settings: s, log: log, client: &http.Client{Timeout: sendTimeout}, spans: make(chan *tracepb.Span, maxQueued)}
	t.threshold = uint64(s.Ratio * (1 << 63)) // compared with 63 bits of the id
	if s.Ratio >= 1 {
		t.threshold = math.MaxUint64
	}
	current.Store(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.run(ctx)
	}()
	return func() {
		current.CompareAndSwap(t, nil)
		cancel()
		<-ended
	}
}

// sampled decides by the id, so that all servers decide the same for a trace.
func (t *tracer) sampled(id []byte) bool { return binary.BigEndian.Uint64(id[8:])>>1 < t.threshold }

func (t *tracer) queue(s *tracepb.Span) {
	select {
	case t.spans <- s:
	default:
		t.dropped.Add(1)
	}
}

// run sends spans in batches until ctx is done. It sleeps while there are none.
func (t *tracer) run(ctx context.Context) {
	for {
		var batch []*tracepb.Span
		select {
		case s := <-t.spans:
			batch = append(batch, s)
		case <-ctx.Done():
			t.sendRest()
			return
		}
		timer := time.NewTimer(sendEvery)
		for waiting := true; waiting && len(batch) < maxBatch; {
			select {
			case s := <-t.spans:
				batch = append(batch, s)
			case <-timer.C:
				waiting = false
			case <-ctx.Done():
				waiting = false
			}
		}
		timer.Stop()
		t.send(batch)
	}
}

func (t *tracer) sendRest() {
	var batch []*tracepb.Span
	for {
		select {
		case s := <-t.spans:
			batch = append(batch, s)
			continue
		default:
		}
		if len(batch) > 0 {
			t.send(batch)
		}
		return
	}
}

// send sends spans once: traces are worth less than memory to keep them.
func (t *tracer) send(batch []*tracepb.Span) {
	err := t.post(batch)
	if err != nil {
		t.dropped.Add(int64(len(batch)))
	}
	if dropped := t.dropped.Load(); dropped > 0 && time.Since(t.complained) > complainEvery {
		t.complained = time.Now()
		t.dropped.Add(-dropped)
		t.log.Warn("send traces failed", "dropped_spans", dropped, "error", err)
	}
}

func (t *tracer) post(batch []*tracepb.Span) error {
	// TracesData has the same encoding as the request message of the protocol, whose package would need all of gRPC.
	message, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", t.Service), text("service.version", t.Version)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "stackyard"}, Spans: batch}},
	}}})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	compressed := gzip.NewWriter(&body)
	compressed.Write(message) // a Buffer takes everything
	compressed.Close()
	req, err := http.NewRequest(http.MethodPost, t.URL, &body)
	if err != nil {
		return err
	}
	for name, value := range t.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("User-Agent", "stackyard/"+t.Version)
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the collector answered %s", resp.Status)
	}
	return nil
}
