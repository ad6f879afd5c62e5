package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"stackyard/internal/platform/trace"
)

// defaultSample is the share of requests and tasks that are traced.
const defaultSample = "0.1"

// parseTraces returns where traces are sent: to --otel-endpoint, or where the standard variables of OpenTelemetry say.
func parseTraces(given func(flag string) string) (s trace.Settings, err error) {
	s.Service = cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "stackyard")
	base := cmp.Or(given("otel-endpoint"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	s.URL = os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base != "" && (given("otel-endpoint") != "" || s.URL == "") {
		s.URL = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		s.URL = ""
	}
	var errs []error
	if u, err := url.Parse(s.URL); s.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		errs = append(errs, fmt.Errorf("--otel-endpoint: %q is not a URL such as http://127.0.0.1:4318", s.URL))
	}
	if s.Headers, err = parseHeaders(cmp.Or(given("otel-headers"), os.Getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))); err != nil {
		errs = append(errs, err)
	}
	sampler := strings.TrimPrefix(os.Getenv("OTEL_TRACES_SAMPLER"), "parentbased_")
	s.FollowParent = sampler != os.Getenv("OTEL_TRACES_SAMPLER")
	share := given("otel-sample")
	switch {
	case share != "":
	case sampler == "always_on":
		share = "1"
	case sampler == "always_off":
		share = "0"
	default:
		share = cmp.Or(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), defaultSample)
	}
	if s.Ratio, err = strconv.ParseFloat(share, 64); err != nil || !(s.Ratio >= 0 && s.Ratio <= 1) {
		errs = append(errs, fmt.Errorf("--otel-sample: %q is not a number from 0 to 1", share))
	}
	if s.URL == "" {
		// Values in the environment for other programs must not keep the server from starting.
		if given("otel-endpoint") == "" && given("otel-sample") == "" && given("otel-headers") == "" {
			errs = nil
		}
		s = trace.Settings{}
	}
	return s, errors.Join(errs...)
}

// parseHeaders parses NAME=VALUE pairs, comma-separated, with values as in URLs.
func parseHeaders(list string) (map[string]string, error) {
	headers := make(map[string]string)
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, errors.New("--otel-headers: give NAME=VALUE pairs, comma-separated; other characters in values as in URLs")
		}
		headers[strings.TrimSpace(name)] = decoded
	}
	return headers, nil
}
