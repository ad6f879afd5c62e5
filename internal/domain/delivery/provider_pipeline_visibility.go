package delivery

import (
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/visibility"
)

// pipelineVisibility sends an event for each build and each job that has ended, whatever the build states of the
// receiver are. Jobs that never ran are left out.
var pipelineVisibility = &Provider{
	Names: func(*notifications.Receiver, notifications.Settings) events.Names {
		return events.NamesOf(events.BuildFinished, events.JobFinished)
	},
	Wants:   func(_ *notifications.Receiver, e events.Event) bool { return buildEnded(e) || jobRan(e) },
	Request: visibilityRequest,
}

// jobRan reports whether an event is the end of a job that ran or should have.
func jobRan(e events.Event) bool {
	j := e.Facts.Job
	return e.Name == events.JobFinished && j != nil && !(j.FinishedAt.IsZero() && j.ExpiredAt.IsZero())
}

func visibilityRequest(m *Message) (*Request, error) {
	var settings notifications.PipelineVisibilitySettings
	if err := m.Settings.Decode(&settings); err != nil {
		return nil, err
	}
	body, err := visibility.Body(settings, m.report(), m.Job)
	if err != nil {
		return nil, err
	}
	return &Request{
		URL:           visibility.URL(m.service.Endpoints.VisibilityURL, settings.Site),
		Header:        visibility.Header(settings),
		Body:          body,
		SecretHeaders: []string{visibility.KeyHeader},
	}, nil
}
