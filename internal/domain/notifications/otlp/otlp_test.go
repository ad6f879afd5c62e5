package otlp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/otlp"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/domain/notifications/report/reporttest"
	"stackyard/internal/rules/flow"
)

// received is what a receiver of OTLP decoded.
type received struct {
	path     string
	header   http.Header
	resource map[string]any
	spans    map[string]*tracepb.Span // by name and id of the task
	root     *tracepb.Span
	size     int
}

// send sends the trace of a build to a receiver and returns what arrived there.
func send(t *testing.T, s notifications.OpenTelemetrySettings, b *report.Build) *received {
	t.Helper()
	got := &received{spans: make(map[string]*tracepb.Span)}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.path, got.header = r.URL.RequestURI(), r.Header
		plain, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(plain)
		if err != nil {
			t.Error(err)
			return
		}
		got.size = len(body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
			return
		}
		if len(data.ProtoReflect().GetUnknown()) > 0 || len(data.ResourceSpans) != 1 || len(data.ResourceSpans[0].ScopeSpans) != 1 {
			t.Errorf("got %v", &data)
			return
		}
		got.resource = values(data.ResourceSpans[0].Resource.Attributes)
		for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans {
			if len(span.ParentSpanId) == 0 {
				got.root = span
				continue
			}
			got.spans[values(span.Attributes)["cicd.pipeline.task.run.id"].(string)] = span
		}
	}))
	defer receiver.Close()
	s.Endpoint = receiver.URL + s.Endpoint
	req, err := otlp.Request(t.Context(), s, b)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return got
}

func values(list []*commonpb.KeyValue) map[string]any {
	m := make(map[string]any)
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			m[kv.Key] = v.BoolValue
		}
	}
	return m
}

func wantValues(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s is %v, want %v", what, key, got[key], value)
		}
	}
}

func TestRequest_HasTheSettings(t *testing.T) {
	got := send(t, notifications.OpenTelemetrySettings{
		Endpoint: "/otlp?tenant=1", ServiceName: "ci",
		Headers:            map[string]string{"Authorization": "Bearer x", "content-type": "text/plain"},
		ResourceAttributes: map[string]string{"deployment.environment": "prod", "vcs.ref.head.type": "mine"},
		TraceState:         "vendor=value",
	}, reporttest.Failed())
	if got.path != "/otlp/v1/traces?tenant=1" || got.header.Get("Authorization") != "Bearer x" || got.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("got %s %v", got.path, got.header)
	}
	wantValues(t, "resource", got.resource, map[string]any{
		"service.name":               "ci",
		"deployment.environment":     "prod",
		"cicd.pipeline.name":         "Web",
		"cicd.pipeline.run.id":       reporttest.BuildID,
		"cicd.pipeline.run.url.full": "https://ci.example.test/acme/web/builds/7",
		"vcs.repository.url.full":    "https://git.example.test/acme/web.git",
		"vcs.ref.head.name":          "main",
		"vcs.ref.head.revision":      "7f263865994b76066c4612fd1965215e7dcb4cd2",
		"vcs.ref.head.type":          "mine",
	})
	if got.root.TraceState != "vendor=value" {
		t.Errorf("the trace state is %q", got.root.TraceState)
	}
}

func TestTrace_HasASpanForTheBuildEachStepAndEachAttempt(t *testing.T) {
	got := send(t, notifications.OpenTelemetrySettings{}, reporttest.Failed())
	root := got.root
	if id := hex.EncodeToString(root.TraceId); id != strings.ReplaceAll(reporttest.BuildID, "-", "") {
		t.Errorf("the trace has the id %s", id)
	}
	if root.Name != "BUILD Web" || root.Kind != tracepb.Span_SPAN_KIND_SERVER || root.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("got %v", root)
	}
	wantValues(t, "build", values(root.Attributes), map[string]any{"cicd.pipeline.result": "failure", "error.type": "failed_jobs", "stackyard.build.number": int64(7)})
	wantTimes(t, root, 5, 60)

	if len(got.spans) != 5 {
		t.Errorf("got %d spans below the build, want 2 steps and 3 jobs", len(got.spans))
	}
	lint, test := got.spans[reporttest.LintStep], got.spans[reporttest.TestStep]
	for _, step := range []*tracepb.Span{lint, test} {
		if !bytes.Equal(step.ParentSpanId, root.SpanId) || !bytes.Equal(step.TraceId, root.TraceId) {
			t.Errorf("step %s is not below the build", step.Name)
		}
	}
	wantTimes(t, test, 5, 60)
	wantValues(t, "lint", values(lint.Attributes), map[string]any{"cicd.pipeline.task.run.result": "success", "cicd.pipeline.task.name": "Lint"})
	wantValues(t, "test", values(test.Attributes), map[string]any{"cicd.pipeline.task.run.result": "failure", "stackyard.step.jobs": int64(2)})
	if lint.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET || test.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("lint is %v, test is %v", lint.Status, test.Status)
	}

	lost, failed := got.spans[reporttest.LostJob], got.spans[reporttest.TestJob]
	if !bytes.Equal(failed.ParentSpanId, test.SpanId) || !bytes.Equal(failed.Links[0].SpanId, lost.SpanId) {
		t.Error("the retry is not below its step, or does not link to what it retried")
	}
	wantTimes(t, failed, 40, 60)
	wantValues(t, "lost", values(lost.Attributes), map[string]any{"cicd.pipeline.task.run.result": "error", "error.type": "agent_lost", "stackyard.job.retried": true})
	wantValues(t, "failed", values(failed.Attributes), map[string]any{
		"cicd.pipeline.task.run.result":   "failure",
		"cicd.pipeline.task.run.url.full": "https://ci.example.test/acme/web/builds/7#" + reporttest.TestJob,
		"error.type":                      "exit_status_2",
		"process.exit.code":               int64(2),
		"cicd.worker.id":                  "agent-1",
		"stackyard.job.queued_ms":         int64(10_000),
	})
}

func wantTimes(t *testing.T, span *tracepb.Span, start, end int) {
	t.Helper()
	at := func(nanos uint64) time.Duration { return time.Unix(0, int64(nanos)).Sub(reporttest.Start) }
	if at(span.StartTimeUnixNano) != time.Duration(start)*time.Second || at(span.EndTimeUnixNano) != time.Duration(end)*time.Second {
		t.Errorf("%s is from %v to %v", span.Name, at(span.StartTimeUnixNano), at(span.EndTimeUnixNano))
	}
}

func TestTrace_IsTheSameWhenSentAgain(t *testing.T) {
	var first []byte
	for range 3 {
		trace, err := proto.MarshalOptions{Deterministic: true}.Marshal(otlp.Trace(notifications.OpenTelemetrySettings{}, reporttest.Failed()))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = trace
		}
		if !bytes.Equal(first, trace) {
			t.Fatal("the trace differs")
		}
	}
}

func TestTrace_ShowsResults(t *testing.T) {
	for _, c := range []struct {
		change func(j *builds.Job)
		result string
		bad    bool
	}{
		{func(j *builds.Job) { j.SoftFailed = true }, "failure", false},
		{func(j *builds.Job) { j.State = flow.TimedOut }, "timeout", true},
		{func(j *builds.Job) { j.State = flow.Canceled }, "cancellation", false},
		{func(j *builds.Job) { j.State, j.FinishedAt, j.ExpiredAt = flow.Expired, time.Time{}, j.FinishedAt }, "error", true},
		{func(j *builds.Job) { j.SignalReason = "stack_error" }, "error", true},
	} {
		b := reporttest.Failed()
		c.change(b.Jobs[2])
		got := send(t, notifications.OpenTelemetrySettings{}, b)
		job := got.spans[reporttest.TestJob]
		if result := values(job.Attributes)["cicd.pipeline.task.run.result"]; result != c.result || (job.Status != nil) != c.bad {
			t.Errorf("got %v with %v, want %s", result, job.Status, c.result)
		}
		if step := got.spans[reporttest.TestStep]; (step.Status != nil) != c.bad {
			t.Errorf("%s: the step has the status %v", c.result, step.Status)
		}
	}
}

func TestTrace_BoundsTexts(t *testing.T) {
	b := reporttest.Failed()
	b.Message = strings.Repeat("é", 1<<20)
	if got := send(t, notifications.OpenTelemetrySettings{}, b); got.size > 16<<10 {
		t.Errorf("the trace has %d bytes", got.size)
	}
}
