package delivery

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/otlp"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/platform/db"
)

// openTelemetry sends a trace of each build that has ended. Build states do not matter: a trace of failed builds only
// would show nothing of how long builds take.
var openTelemetry = &Provider{
	Names: func(*notifications.Receiver, notifications.Settings) events.Names {
		return events.NamesOf(events.BuildFinished)
	},
	Wants: func(_ *notifications.Receiver, e events.Event) bool { return buildEnded(e) },
	Send:  sendTrace,
}

// buildEnded reports whether an event is the end of a build, and not that it is blocked.
func buildEnded(e events.Event) bool {
	return e.Name == events.BuildFinished && e.Facts.Build != nil && e.Facts.Build.State.Ended()
}

func sendTrace(ctx context.Context, _ *http.Client, m *Message) Answer {
	var settings notifications.OpenTelemetrySettings
	if err := m.Settings.Decode(&settings); err != nil {
		return Answer{Err: err, Permanent: true}
	}
	b := m.report()
	err := m.service.DB.Read(ctx, func(q *db.Q) error {
		return b.LoadJobs(q, m.service.Builds, builds.JobFilter{Retried: true}, report.MaxJobs)
	})
	if err != nil {
		return Answer{Err: err}
	}
	sent, err := otlp.Request(ctx, settings, b)
	if err != nil {
		return Answer{Err: err, Permanent: true}
	}
	r := &Request{URL: sent.URL.String(), Header: sent.Header}
	for name := range settings.Headers {
		r.SecretHeaders = append(r.SecretHeaders, name)
	}
	if r.Body, err = io.ReadAll(sent.Body); err != nil {
		return Answer{Err: err}
	}
	answer := m.service.do(ctx, r)
	answer.Request.Body = fmt.Sprintf("(OTLP trace %x of build %s, %d bytes)", otlp.TraceID(b.ID), b.ID, len(r.Body))
	return answer
}

// report describes the build of the message to senders, without jobs.
func (m *Message) report() *report.Build {
	return report.Of(m.service.Builds, m.Organization, m.Pipeline, m.Build)
}
