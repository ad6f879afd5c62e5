package delivery

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/rules/flow"
)

// A Provider sends events to receivers of one kind.
type Provider struct {
	// Names returns the events that a receiver may want.
	Names func(r *notifications.Receiver, s notifications.Settings) events.Names
	// Wants reports whether a receiver wants one of these events. nil: it wants all of them.
	Wants func(r *notifications.Receiver, e events.Event) bool
	// Request returns the HTTP request for a message. It may run more than once for one message.
	Request func(m *Message) (*Request, error)
	// Send sends a message in another way. The client connects only to addresses that receivers may have.
	Send func(ctx context.Context, client *http.Client, m *Message) Answer
	// Pings says that receivers get a ping when they are created and when their settings change.
	Pings bool
	// Tests says that receivers can be sent a ping to see whether messages arrive.
	Tests bool
}

// providers are the providers, by the id that package notifications knows them by.
var providers = map[string]*Provider{
	"webhook":                           webhook,
	"chat_webhook":                      chatWebhook,
	"event_bus":                         eventBus,
	"observability_pipeline_visibility": pipelineVisibility,
	"open_telemetry_tracing":            openTelemetry,
	"event_log_api":                     eventLog,
	"smtp":                              smtp,
	"chat_workspace":                    chatWorkspace,
	"tracker":                           trackerIssues,
}

// pushes reports whether events are sent to receivers, rather than read by them.
func (p *Provider) pushes() bool { return p.Request != nil || p.Send != nil }

func (p *Provider) wants(r openReceiver, e events.Event) bool {
	return p.Names(r.Receiver, r.settings).Has(e.Name) && (p.Wants == nil || p.Wants(r.Receiver, e))
}

// listedNames are the names of a receiver that lists its events in a setting.
func listedNames(_ *notifications.Receiver, s notifications.Settings) events.Names {
	var listed []events.Name
	if json.Unmarshal(s["events"], &listed) != nil {
		return 0
	}
	return events.NamesOf(listed...)
}

// switchNames are the names of a receiver that is notified by its build states.
func switchNames(r *notifications.Receiver, _ notifications.Settings) events.Names {
	var list []events.Name
	on := r.States
	if on.Passed || on.Fixed || on.Failed || on.Blocked || on.Canceled {
		list = append(list, events.BuildFinished)
	}
	if on.Failing {
		list = append(list, events.BuildFailing)
	}
	if on.JobActivated {
		list = append(list, events.JobActivated)
	}
	return events.NamesOf(list...)
}

// switchWants reports whether the switch for an event is on. A build that is fixed has passed, too.
func switchWants(r *notifications.Receiver, e events.Event) bool {
	on := r.States
	if e.Name != events.BuildFinished {
		return slices.Contains([]events.Name{events.BuildFailing, events.JobActivated}, e.Name) // switchNames has their switches
	}
	b := e.Facts.Build
	switch {
	case b == nil:
		return false
	case b.Blocked != "":
		return on.Blocked
	case b.State == flow.BuildPassed:
		return on.Passed || on.Fixed && b.Fixed
	case b.State == flow.BuildFailed:
		return on.Failed
	case b.State == flow.BuildCanceled:
		return on.Canceled
	}
	return false
}
