package notifications

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/platform/identity"
)

// openTelemetryTracing sends a trace of each build to an OTLP endpoint.
var openTelemetryTracing = &Provider{
	ID: "open_telemetry_tracing", Name: "OpenTelemetry Tracing",
	Settings: []Setting{
		{Name: "endpoint", Kind: address{}, Required: true, Doc: "The base URL of the OTLP/HTTP endpoint, without /v1/traces."},
		{Name: "service_name", Kind: text{max: 255}, Default: fixed("stackyard"), Doc: "The service.name of the traces."},
		{Name: "headers", Kind: pairs{most: 32, max: 4096, headers: true}, Default: fixed(map[string]string{}), Show: Omitted, Doc: "Request headers, for example for authentication. Never shown; an update replaces all of them."},
		{Name: "resource_attributes", Kind: pairs{most: 64, max: 1024}, Default: fixed(map[string]string{}), Doc: "Attributes of the traces' resource."},
		{
			Name: "tracestate", Doc: "The W3C trace state of the traces, as a text such as vendor=value or as an object.",
			Kind:    either{text: text{max: 512}, other: pairs{most: 32, max: 256}},
			feature: func(f identity.Features) bool { return f.Tracestate },
		},
	},
}

// OpenTelemetrySettings are the settings of OpenTelemetry tracing.
type OpenTelemetrySettings struct {
	Endpoint           string            `json:"endpoint"`
	ServiceName        string            `json:"service_name"`
	Headers            map[string]string `json:"headers"`
	ResourceAttributes map[string]string `json:"resource_attributes"`
	TraceState         TraceState        `json:"tracestate"`
}

// TraceState is a W3C trace state: comma-separated key=value pairs.
type TraceState string

// UnmarshalJSON reads a text or an object.
func (s *TraceState) UnmarshalJSON(b []byte) error {
	*s = ""
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(s))
	}
	var values map[string]string
	if err := json.Unmarshal(b, &values); err != nil {
		return err
	}
	var list []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list = append(list, key+"="+values[key])
	}
	*s = TraceState(strings.Join(list, ","))
	return nil
}
