// Package trace records what the server does as OpenTelemetry traces, and sends them to a collector over OTLP/HTTP.
//
// It is off unless [Start] is called; then [Begin] and [Child] return nil, on which all methods of a [Span] do nothing.
// Names and attributes of spans are constants of this program, numbers and patterns of routes: never text of users,
// paths, addresses or errors, which can contain secrets.
package trace

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A Kind is the role of a span.
type Kind = tracepb.Span_SpanKind

// The kinds in use.
const (
	Internal = tracepb.Span_SPAN_KIND_INTERNAL
	Server   = tracepb.Span_SPAN_KIND_SERVER
	Client   = tracepb.Span_SPAN_KIND_CLIENT
)

// current is the tracer of this process; nil: none.
var current atomic.Pointer[tracer]

// A Span is a piece of work. Its methods are for one goroutine.
type Span struct {
	tracer *tracer
	data   *tracepb.Span
}

type spanKey struct{}

// Begin starts a span below the one of ctx, or a new trace. The span is nil if it is not recorded.
func Begin(ctx context.Context, kind Kind, name string) (context.Context, *Span) {
	t := current.Load()
	if t == nil {
		return ctx, nil
	}
	if parent, _ := ctx.Value(spanKey{}).(*Span); parent != nil {
		return t.begin(ctx, kind, name, parent.data.TraceId, parent.data.SpanId)
	}
	id := newTraceID()
	if !t.sampled(id) {
		return ctx, nil
	}
	return t.begin(ctx, kind, name, id, nil)
}

// Child starts a span below the one of ctx. It is nil if there is none.
func Child(ctx context.Context, kind Kind, name string) (context.Context, *Span) {
	t := current.Load()
	if t == nil {
		return ctx, nil
	}
	parent, _ := ctx.Value(spanKey{}).(*Span)
	if parent == nil {
		return ctx, nil
	}
	return t.begin(ctx, kind, name, parent.data.TraceId, parent.data.SpanId)
}

// Request starts the span of a request. It continues the trace of the client's traceparent header.
func Request(r *http.Request) (context.Context, *Span) {
	ctx := r.Context()
	t := current.Load()
	if t == nil {
		return ctx, nil
	}
	id, parent, flagged, ok := parseParent(r.Header.Get("Traceparent"))
	switch {
	case !ok:
		return Begin(ctx, Server, r.Method)
	case t.FollowParent && !flagged, !t.FollowParent && !t.sampled(id):
		return ctx, nil
	}
	return t.begin(ctx, Server, r.Method, id, parent)
}

// Inject lets the receiver of a request continue the trace of ctx.
func Inject(ctx context.Context, header http.Header) {
	if s, _ := ctx.Value(spanKey{}).(*Span); s != nil {
		header.Set("Traceparent", "00-"+hex.EncodeToString(s.data.TraceId)+"-"+hex.EncodeToString(s.data.SpanId)+"-01")
	}
}

// parseParent parses a traceparent header.
func parseParent(header string) (trace, span []byte, sampled, ok bool) {
	parts := strings.Split(header, "-")
	if len(header) > 200 || len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(header) != header {
		return nil, nil, false, false
	}
	trace, err1 := hex.DecodeString(parts[1])
	span, err2 := hex.DecodeString(parts[2])
	flags, err3 := hex.DecodeString(parts[3])
	_, err4 := hex.DecodeString(parts[0])
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || isZero(trace) || isZero(span) {
		return nil, nil, false, false
	}
	return trace, span, flags[0]&1 == 1, true
}

func isZero(id []byte) bool {
	for _, b := range id {
		if b != 0 {
			return false
		}
	}
	return true
}

func newTraceID() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()), rand.Uint64()|1)
}

func (t *tracer) begin(ctx context.Context, kind Kind, name string, trace, parent []byte) (context.Context, *Span) {
	s := &Span{tracer: t, data: &tracepb.Span{
		TraceId: trace, SpanId: binary.BigEndian.AppendUint64(nil, rand.Uint64()|1), ParentSpanId: parent,
		Name: name, Kind: kind, StartTimeUnixNano: uint64(time.Now().UnixNano()),
	}}
	return context.WithValue(ctx, spanKey{}, s), s
}

// Name replaces the name.
func (s *Span) Name(name string) {
	if s != nil {
		s.data.Name = name
	}
}

// Text sets an attribute to a constant of this program.
func (s *Span) Text(key, value string) {
	if s != nil {
		s.data.Attributes = append(s.data.Attributes, text(key, value))
	}
}

// Number sets an attribute to a number, in place of an earlier one.
func (s *Span) Number(key string, value int64) {
	if s != nil {
		s.data.Attributes = slices.DeleteFunc(s.data.Attributes, func(a *commonpb.KeyValue) bool { return a.Key == key })
		s.data.Attributes = append(s.data.Attributes, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}})
	}
}

// Fail marks the span as failed. Texts of errors are in the log only.
func (s *Span) Fail() {
	if s != nil {
		s.data.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
}

// End ends the span and queues it.
func (s *Span) End() {
	if s != nil {
		s.data.EndTimeUnixNano = uint64(time.Now().UnixNano())
		s.tracer.queue(s.data)
	}
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}
