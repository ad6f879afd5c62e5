// Package otlp converts a finished build into an OpenTelemetry trace and the OTLP/HTTP request that carries it.
//
// The trace follows the semantic conventions for CI/CD: the span of the build is the root, below it is a span for each
// step, and below that one for each attempt at each of the step's jobs. What is the same for the whole run is in the
// resource. Ids are derived from those of the build, its steps and its jobs, so that a trace that is sent again
// replaces itself, and other systems can compute the id of a trace from that of a build.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/url"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/report"
)

// path is where OTLP/HTTP endpoints take traces.
const path = "v1/traces"

// Request returns the request that sends the trace of a build.
func Request(ctx context.Context, s notifications.OpenTelemetrySettings, b *report.Build) (*http.Request, error) {
	// TracesData has the same encoding as the request message of the protocol, whose package would need all of gRPC.
	message, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{Trace(s, b)}})
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	compressed := gzip.NewWriter(&body)
	compressed.Write(message) // a Buffer takes everything
	compressed.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.JoinPath(path).String(), &body)
	if err != nil {
		return nil, err
	}
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	return req, nil
}
