package otlp

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// maxValue bounds the texts of attributes, in bytes.
const maxValue = 4096

// Trace returns the trace of a build.
func Trace(s notifications.OpenTelemetrySettings, b *report.Build) *tracepb.ResourceSpans {
	t := tracer{build: b, traceID: TraceID(b.ID), state: string(s.TraceState)}
	t.spans = append(t.spans, t.buildSpan())
	for _, jobs := range byStep(b.Jobs) {
		t.addStep(jobs)
	}
	return &tracepb.ResourceSpans{
		Resource: &resourcepb.Resource{Attributes: resource(s, b)},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "stackyard"},
			Spans: t.spans,
		}},
	}
}

// resource returns the attributes of the whole run. Those of the settings win.
func resource(s notifications.OpenTelemetrySettings, b *report.Build) []*commonpb.KeyValue {
	a := attributes{
		"service.name":               s.ServiceName,
		"cicd.pipeline.name":         b.Pipeline.Name,
		"cicd.pipeline.run.id":       b.ID,
		"cicd.pipeline.run.url.full": b.URL,
		"vcs.repository.url.full":    b.Pipeline.Repository,
		"vcs.ref.head.name":          b.Branch,
		"vcs.ref.head.type":          "branch",
		"vcs.ref.head.revision":      b.Commit,
		"stackyard.organization":     b.Org.Slug,
		"stackyard.pipeline.id":      b.Pipeline.ID,
		"stackyard.pipeline.slug":    b.Pipeline.Slug,
	}
	if b.Tag != "" {
		a["vcs.ref.head.name"], a["vcs.ref.head.type"] = b.Tag, "tag"
	}
	if pr := b.PullRequest; pr != nil {
		a["vcs.change.id"] = pr.ID
		a["vcs.ref.base.name"] = pr.Base
	}
	for name, value := range s.ResourceAttributes {
		a[name] = value
	}
	return a.list()
}

// A tracer collects the spans of a build.
type tracer struct {
	build   *report.Build
	traceID []byte
	state   string // W3C trace state
	spans   []*tracepb.Span
}

func (t *tracer) span(id, parent []byte, name string, kind tracepb.Span_SpanKind, start, end time.Time) *tracepb.Span {
	return &tracepb.Span{
		TraceId: t.traceID, SpanId: id, ParentSpanId: parent, TraceState: t.state,
		Name: name, Kind: kind,
		StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(end.UnixNano()),
	}
}

// buildSpan returns the root. A build that another one triggered links to the job that did.
func (t *tracer) buildSpan() *tracepb.Span {
	b := t.build
	start, end := b.Times()
	result := report.BuildResult(b.State)
	span := t.span(spanID("build", b.ID), nil, "BUILD "+b.Pipeline.Name, tracepb.Span_SPAN_KIND_SERVER, start, end)
	a := attributes{
		"cicd.pipeline.action.name": "BUILD",
		"cicd.pipeline.result":      string(result),
		"stackyard.build.number":    b.Number,
		"stackyard.build.state":     string(b.State),
		"stackyard.build.source":    string(b.Source),
		"stackyard.build.message":   b.Message,
		"stackyard.build.more_jobs": b.More,
	}
	if b.Creator != nil {
		a["stackyard.build.creator"] = b.Creator.Name
	}
	if result.Bad() {
		a["error.type"] = "failed_jobs"
		span.Status = failed("the build " + string(b.State))
	}
	span.Attributes = a.list()
	if parent := b.TriggeringBuild; parent.ID != "" {
		span.Links = []*tracepb.Span_Link{{TraceId: TraceID(parent.ID), SpanId: spanID("job", b.TriggeredBy)}}
	}
	return span
}

// byStep groups jobs by their step, in the order of the first job of each.
func byStep(jobs []*builds.Job) (steps [][]*builds.Job) {
	at := make(map[string]int)
	for _, j := range jobs {
		if _, _, _, ok := report.Times(j); !ok || report.JobResult(j) == report.Skipped {
			continue
		}
		i, ok := at[j.StepID]
		if !ok {
			i = len(steps)
			at[j.StepID] = i
			steps = append(steps, nil)
		}
		steps[i] = append(steps[i], j)
	}
	return steps
}

// addStep adds the span of a step and those of its jobs.
func (t *tracer) addStep(jobs []*builds.Job) {
	first := jobs[0]
	id := spanID("step", first.StepID)
	start, end, _, _ := report.Times(first)
	step := t.span(id, spanID("build", t.build.ID), first.Label, tracepb.Span_SPAN_KIND_INTERNAL, start, end)
	t.spans = append(t.spans, step)
	result := report.Success
	for _, j := range jobs {
		span := t.jobSpan(id, j)
		t.spans = append(t.spans, span)
		step.StartTimeUnixNano = min(step.StartTimeUnixNano, span.StartTimeUnixNano)
		step.EndTimeUnixNano = max(step.EndTimeUnixNano, span.EndTimeUnixNano)
		if r := report.JobResult(j); !j.Retried && !j.SoftFailed && severity[r] > severity[result] {
			result = r
			step.Status = span.Status
		}
	}
	a := attributes{
		"cicd.pipeline.task.name":         first.Label,
		"cicd.pipeline.task.run.id":       first.StepID,
		"cicd.pipeline.task.run.url.full": t.build.URL,
		"cicd.pipeline.task.run.result":   string(result),
		"stackyard.step.key":              first.Step.Key,
		"stackyard.step.group":            first.Step.GroupLabel,
		"stackyard.step.jobs":             len(jobs),
	}
	if result.Bad() {
		a["error.type"] = "failed_jobs"
	}
	step.Attributes = a.list()
}

// severity orders results: a step ends like the worst of its jobs.
var severity = map[report.Result]int{report.Canceled: 1, report.TimedOut: 2, report.Failure: 3, report.Error: 4}

func (t *tracer) jobSpan(parent []byte, j *builds.Job) *tracepb.Span {
	start, end, queued, _ := report.Times(j)
	result := report.JobResult(j)
	span := t.span(spanID("job", j.ID), parent, j.Label, tracepb.Span_SPAN_KIND_INTERNAL, start, end)
	a := attributes{
		"cicd.pipeline.task.name":         j.Label,
		"cicd.pipeline.task.run.id":       j.ID,
		"cicd.pipeline.task.run.url.full": t.build.JobURL(j),
		"cicd.pipeline.task.run.result":   string(result),
		"cicd.worker.id":                  j.AgentID,
		"cicd.worker.name":                j.AgentName(),
		"stackyard.job.state":             string(j.APIState()),
		"stackyard.job.type":              string(j.Type),
		"stackyard.job.queued_ms":         int(queued.Milliseconds()),
		"stackyard.job.retries":           j.RetriesCount,
		"stackyard.job.retried":           j.Retried,
		"stackyard.job.soft_failed":       j.SoftFailed,
	}
	if j.ExitStatus != nil {
		a["process.exit.code"] = *j.ExitStatus
	}
	if result.Bad() {
		kind := errorType(j)
		a["error.type"] = kind
		if !j.SoftFailed {
			span.Status = failed(kind)
		}
	}
	span.Attributes = a.list()
	if j.RetryOf != "" {
		span.Links = []*tracepb.Span_Link{{TraceId: t.traceID, SpanId: spanID("job", j.RetryOf)}}
	}
	return span
}

// errorType returns the class of a job's failure.
func errorType(j *builds.Job) string {
	switch {
	case j.SignalReason != "":
		return j.SignalReason
	case j.Signal != "":
		return j.Signal
	case j.State == flow.Finished && j.ExitStatus != nil:
		return "exit_status_" + strconv.Itoa(*j.ExitStatus)
	default:
		return string(j.APIState())
	}
}

func failed(message string) *tracepb.Status {
	return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: message}
}

// TraceID returns the id of the trace of a build: the 16 bytes of the build's UUID.
func TraceID(buildID string) []byte {
	id, err := uuid.Parse(buildID)
	if err != nil {
		sum := sha256.Sum256([]byte(buildID))
		return sum[:16]
	}
	return id[:]
}

// spanID returns the id of the span of a build, step or job.
func spanID(kind, id string) []byte {
	sum := sha256.Sum256([]byte(kind + ":" + id))
	return sum[:8]
}

// attributes are texts, integers and flags by name. Empty texts and flags that are not set are left out.
type attributes map[string]any

func (a attributes) list() (list []*commonpb.KeyValue) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		value := &commonpb.AnyValue{}
		switch v := a[name].(type) {
		case string:
			if v == "" {
				continue
			}
			value.Value = &commonpb.AnyValue_StringValue{StringValue: core.CutBytes(v, maxValue)}
		case int:
			value.Value = &commonpb.AnyValue_IntValue{IntValue: int64(v)}
		case bool:
			if !v {
				continue
			}
			value.Value = &commonpb.AnyValue_BoolValue{BoolValue: true}
		}
		list = append(list, &commonpb.KeyValue{Key: name, Value: value})
	}
	return list
}
