package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A traceCollector decodes traces as a real one does.
type traceCollector struct {
	mu    sync.Mutex
	spans []*tracepb.Span
	raw   bytes.Buffer
}

func (c *traceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "a b" {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(unpacked)
	var data tracepb.TracesData
	if err != nil || proto.Unmarshal(body, &data) != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, resource := range data.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// find returns a span by name; nil if there is none.
func (c *traceCollector) find(name string, parent []byte) *tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name && (parent == nil || bytes.Equal(s.ParentSpanId, parent)) {
			return s
		}
	}
	return nil
}

func TestServe_SendsTracesWithoutTextOfUsers(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		var c traceCollector
		collector := httptest.NewServer(&c)
		defer collector.Close()
		apply(t, installation, killFile)
		p := serveOn(t, append(installation, "--otel-endpoint", collector.URL, "--otel-headers", "x-key=a%20b", "--otel-sample", "1"))
		p.ask(t, adaToken, "POST", pipelinesPath, `{"name": "Private words", "repository": "https://git.example.test/private.git", "configuration": "steps: [{command: make}]"}`).want(t, http.StatusCreated)
		eventually(t, waitLimit, "a span of the request", func() bool { return c.find("POST /v2/organizations/{org}/pipelines", nil) != nil })
		p.stop(t) // sends the rest
		request := c.find("POST /v2/organizations/{org}/pipelines", nil)
		write := c.find("database write", request.SpanId)
		if write == nil || !bytes.Equal(write.TraceId, request.TraceId) {
			t.Errorf("no span of the transaction in %v", c.spans)
		}
		for _, text := range []string{"rivate", "acme", adaToken, "ada@"} {
			if strings.Contains(c.raw.String(), text) {
				t.Errorf("the traces contain %q", text)
			}
		}
	})
}
