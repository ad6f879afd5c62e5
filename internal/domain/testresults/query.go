package testresults

import (
	"maps"

	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// periods are the periods that requests can ask for.
var periods = map[string]time.Duration{
	"1hour": time.Hour, "4hours": 4 * time.Hour, "1day": 24 * time.Hour,
	"7days": 7 * 24 * time.Hour, "14days": 14 * 24 * time.Hour, "28days": TrendDays * 24 * time.Hour,
}

// TrendDays is how many days are shown of a test.
const TrendDays = 28

// periodOf returns the period that a request asks for.
func periodOf(r *route.Request) (time.Duration, error) {
	name := r.FormQuery("period")
	if name == "" {
		return TrendDays * 24 * time.Hour, nil
	}
	period, ok := periods[name]
	if !ok {
		return 0, core.Errorf(core.BadRequest, "period must be one of %s", strings.Join(slices.Sorted(maps.Keys(periods)), ", "))
	}
	return period, nil
}

// since returns the days from a period ago until today.
func (s *Service) since(period time.Duration) days {
	now := s.clock()
	return days{dayOf(now.Add(-period)) + 1, dayOf(now)}
}

// sortOf returns the metric that a request sorts by; "" when it names none and there is no default.
func sortOf(r *route.Request, unset string) (by string, descending bool, err error) {
	by = r.FormQuery("sort_by")
	if by == "" {
		by = unset
	}
	if by != "" && metricOrders[by] == "" {
		return "", false, core.Errorf(core.BadRequest, "sort_by must be one of %s", strings.Join(slices.Sorted(maps.Keys(metricOrders)), ", "))
	}
	switch r.FormQuery("order") {
	case "", "desc":
		return by, true, nil
	case "asc":
		return by, false, nil
	}
	return "", false, core.Errorf(core.BadRequest, "order must be asc or desc")
}

// labelsOf returns which tests a request wants by their labels and states.
func labelsOf(r *route.Request) (f testFilter, err error) {
	for _, name := range []string{"label", "labels"} {
		for label := range strings.SplitSeq(r.FormQuery(name), ",") {
			label, wanted := strings.CutPrefix(strings.TrimSpace(label), "!")
			wanted = !wanted
			if label != "" {
				f.labels = append(f.labels, labelFilter{label, wanted})
			}
		}
	}
	if len(f.labels) > maxLabels {
		return f, core.Errorf(core.BadRequest, "labels must be at most %d labels", maxLabels)
	}
	f.state = TestState(r.FormQuery("state"))
	if f.state != "" && !slices.Contains(f.state.Values(), string(f.state)) {
		return f, core.Errorf(core.BadRequest, "state must be one of %s", strings.Join(f.state.Values(), ", "))
	}
	return f, nil
}

// maxSearch is the length of the longest text that is searched for, in bytes.
const maxSearch = 1024

// searchOf returns the text that a request searches for.
func searchOf(r *route.Request) (string, error) {
	text := strings.Trim(r.FormQuery("search"), `"`)
	if len(text) > maxSearch {
		return "", core.Errorf(core.BadRequest, "search must have at most %d bytes", maxSearch)
	}
	return text, nil
}

// metricsVersion is the version of the API from which labels of a build's tests are texts.
const metricsVersion = "2026-08-01"

// versionOf returns the date of the API version that a request asks for, or "".
func versionOf(r *route.Request) (string, error) {
	for _, name := range []string{"Service-Version", "Buildkite-Version"} {
		version := strings.TrimSpace(r.Header.Get(name))
		if version == "" {
			continue
		}
		if _, err := time.Parse(time.DateOnly, version); err != nil {
			return "", core.Errorf(core.BadRequest, "%s must be in format YYYY-MM-DD", name)
		}
		return version, nil
	}
	return "", nil
}
