package notifications

import "stackyard/internal/platform/identity"

// eventLogAPI makes events readable from an endpoint of this server.
var eventLogAPI = &Provider{
	ID: "event_log_api", Name: "Event Log API",
	Settings: []Setting{
		{Name: "events", Kind: eventNames, Default: fixed([]string{}), Doc: "The events that can be read."},
	},
	feature: func(f identity.Features) bool { return f.EventLogAPI },
}

// EventLogSettings are the settings of the event log API.
type EventLogSettings struct {
	Events []string `json:"events"`
}
