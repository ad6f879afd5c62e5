package trace

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collect starts recording and returns what arrives at a collector until the returned function is called.
func collect(t *testing.T, s Settings) (stop func() []*tracepb.Span) {
	t.Helper()
	var spans []*tracepb.Span
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(unpacked)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || r.Header.Get("Api-Key") != "k" {
			t.Errorf("request %v with %v", err, r.Header)
		}
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}))
	s.URL, s.Headers = collector.URL, map[string]string{"Api-Key": "k"}
	end := Start(s, slog.New(slog.DiscardHandler))
	t.Cleanup(end)
	return func() []*tracepb.Span {
		end()
		collector.Close()
		return spans
	}
}

func request(parent string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Traceparent", parent)
	return r
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestRequest_ContinuesTheTraceOfTheClient(t *testing.T) {
	stop := collect(t, Settings{Ratio: 1})
	ctx, outer := Request(request(parent))
	inner, child := Child(ctx, Client, "inner")
	child.Number("n", 1)
	child.Number("n", 2)
	header := http.Header{}
	Inject(inner, header)
	child.Fail()
	child.End()
	outer.End()
	spans := stop()
	if len(spans) != 2 || spans[0].Name != "inner" || hex.EncodeToString(spans[1].TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" ||
		hex.EncodeToString(spans[1].ParentSpanId) != "00f067aa0ba902b7" || string(spans[0].ParentSpanId) != string(spans[1].SpanId) ||
		string(spans[0].TraceId) != string(spans[1].TraceId) || spans[0].Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR ||
		len(spans[0].Attributes) != 1 || spans[0].Attributes[0].Value.GetIntValue() != 2 || spans[0].EndTimeUnixNano < spans[0].StartTimeUnixNano {
		t.Errorf("spans %v", spans)
	}
	if want := "00-4bf92f3577b34da6a3ce929d0e0e4736-" + hex.EncodeToString(spans[0].SpanId) + "-01"; header.Get("Traceparent") != want {
		t.Errorf("traceparent %s, want %s", header.Get("Traceparent"), want)
	}
}

func TestRequest_SamplesByItsOwnRatioUnlessItFollowsTheClient(t *testing.T) {
	for _, c := range []struct {
		settings Settings
		parent   string
		recorded bool
	}{
		{Settings{Ratio: 0}, parent, false},
		{Settings{Ratio: 0, FollowParent: true}, parent, true},
		{Settings{Ratio: 1, FollowParent: true}, parent[:len(parent)-1] + "0", false},
		{Settings{Ratio: 1}, parent[:len(parent)-1] + "0", true},
		{Settings{Ratio: 1}, "nonsense", true},
		{Settings{Ratio: 0}, "", false},
	} {
		stop := collect(t, c.settings)
		_, span := Request(request(c.parent))
		if (span != nil) != c.recorded {
			t.Errorf("%+v with %q: recorded %t", c.settings, c.parent, span != nil)
		}
		stop()
	}
}

func TestSpans_DoNothingWhenOff(t *testing.T) {
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := Begin(ctx, Internal, "a")
		_, child := Child(ctx, Client, "b")
		child.Number("n", 1)
		child.End()
		span.Text("a", "b")
		span.Fail()
		span.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStart_DropsSpansOfACollectorThatFails(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	stop := Start(Settings{URL: collector.URL, Ratio: 1}, slog.New(slog.DiscardHandler))
	for range 2 * maxQueued {
		_, span := Begin(t.Context(), Internal, "a")
		span.End()
	}
	stop()
}

func FuzzParseParent(f *testing.F) {
	for _, seed := range []string{parent, "", "00-0-0-0", "ff" + parent[2:], "00-00000000000000000000000000000000-00f067aa0ba902b7-01", parent + "-x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		trace, span, _, ok := parseParent(header)
		if ok && (len(trace) != 16 || len(span) != 8 || isZero(trace) || isZero(span)) {
			t.Errorf("%q: %x %x", header, trace, span)
		}
	})
}
