package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/eventbus"
	"stackyard/internal/platform/core"
)

// eventBus puts events on Amazon EventBridge, as the build states of the receiver say.
var eventBus = &Provider{Names: switchNames, Wants: switchWants, Send: putEvent, Tests: true}

func putEvent(ctx context.Context, _ *http.Client, m *Message) Answer {
	var settings notifications.EventBusSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return Answer{Err: err, Permanent: true}
	}
	detail, err := m.busDetail(settings.IncludeBuildMetaData)
	if err != nil {
		return Answer{Err: err, Permanent: true}
	}
	bus := eventbus.Bus{Region: settings.Region, AccountID: settings.AccountID}
	entry := eventbus.Entry{DetailType: m.detailType(), Detail: string(detail), Time: m.Event.CreatedAt}
	if m.Event.Name == ping {
		entry.Time = m.SentAt
	}
	answer := Answer{Status: http.StatusOK, Request: recordEntry(bus, entry)}
	if failed, ok := errors.AsType[*eventbus.Error](m.service.bus.Put(ctx, bus, entry)); ok {
		answer.Status, answer.Err, answer.Permanent = failed.Status, failed, !failed.Retry
		if failed.Retry && failed.Status > 0 && failed.Status < 500 { // a limit, which AWS reports with other statuses
			answer.Status = http.StatusTooManyRequests
		}
	}
	return answer
}

func recordEntry(bus eventbus.Bus, e eventbus.Entry) *RequestRecord {
	body, truncated := legible([]byte(e.Detail), maxShownRequest)
	return &RequestRecord{
		Method: "PutEvents", URL: bus.Region, Body: body, Truncated: truncated,
		Headers: map[string]string{"Source": eventbus.Source, "DetailType": e.DetailType},
	}
}

// detailType returns the detail-type of the event. A build that is blocked has one of its own.
func (m *Message) detailType() string {
	switch m.Event.Name {
	case events.BuildFailing:
		return "Build Failing"
	case events.JobActivated:
		return "Job Activated"
	case ping:
		return "Ping"
	}
	if b := m.Event.Facts.Build; b != nil && b.Blocked != "" {
		return "Build Blocked"
	}
	return "Build Finished"
}

// busDetail returns the detail of an event: what webhooks get, with little of the pipeline, which may be large. A build
// that is too large loses what was given to it.
func (m *Message) busDetail(withMetaData bool) ([]byte, error) {
	if !withMetaData {
		m.MetaData = nil
	}
	payload := m.Payload()
	delete(payload, "sender")
	payload["version"] = 1
	payload["delivery_id"] = m.ID
	payload["organization"] = map[string]any{"id": m.Organization.ID, "slug": m.Organization.Slug, "name": m.Organization.Name}
	if m.Pipeline == nil { // a ping
		delete(payload, "service")
		return json.Marshal(payload)
	}
	payload["pipeline"] = map[string]any{"id": m.Pipeline.ID, "slug": m.Pipeline.Slug, "name": m.Pipeline.Name, "repository": m.Pipeline.Repository}
	build, err := withoutFields(payload["build"], 0, "pipeline")
	if err != nil {
		return nil, err
	}
	if !withMetaData {
		delete(build, "meta_data")
	}
	payload["build"] = build
	detail, err := json.Marshal(payload)
	if err != nil || len(detail) <= eventbus.MaxDetail {
		return detail, err
	}
	const longest = 1000
	payload["truncated"] = true
	if payload["build"], err = withoutFields(build, longest, "env", "meta_data"); err != nil {
		return nil, err
	}
	if payload["job"] != nil {
		if payload["job"], err = withoutFields(payload["job"], longest, "env", "unblocked_by"); err != nil {
			return nil, err
		}
	}
	if detail, err = json.Marshal(payload); err == nil && len(detail) > eventbus.MaxDetail {
		err = errors.New("the event is too large for an event bus")
	}
	return detail, err
}

// withoutFields returns a view without some of its fields and with its texts cut; 0: they are not.
func withoutFields(view any, longest int, names ...string) (map[string]any, error) {
	text, err := json.Marshal(view)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(fields, name)
	}
	for name, value := range fields {
		if s, ok := value.(string); ok && longest > 0 {
			fields[name] = core.Cut(s, longest)
		}
	}
	return fields, nil
}
