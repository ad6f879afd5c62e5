package buildapi

import (
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// filterParams are the query parameters of lists of builds.
var filterParams = []route.Param{
	{Name: "branch[]", Type: "array", Doc: "Names of branches; * matches anything."},
	{Name: "commit[]", Type: "array", Doc: "Full names of commits."},
	{Name: "created_from", Doc: "Created at this time (ISO 8601) or later."},
	{Name: "created_to", Doc: "Created before this time (ISO 8601)."},
	{Name: "finished_from", Doc: "Finished at this time (ISO 8601) or later."},
	{Name: "creator", Doc: "The id of the user who made the build; a name or an e-mail address will do."},
	{Name: "state[]", Type: "array", Doc: "States of builds; finished means passed, failed, blocked or canceled."},
	{Name: "include_paused", Type: "boolean", Doc: "Whether to list builds and jobs that wait for paused queues; true unless given."},
}

// finishedStates are the states that a filter by finished selects.
var finishedStates = []flow.BuildState{flow.BuildPassed, flow.BuildFailed, flow.BuildBlocked, flow.BuildCanceled}

// buildStateNames are the states that a filter accepts.
var buildStateNames = []string{
	string(flow.BuildCreating), string(flow.BuildScheduled), string(flow.BuildRunning), string(flow.BuildFailing),
	string(flow.BuildBlocked), string(flow.BuildCanceling), string(flow.BuildPassed), string(flow.BuildFailed),
	string(flow.BuildCanceled), string(flow.BuildSkipped), string(flow.BuildNotRun),
}

// ReadFilter returns the filter in the query of a request, as the lists of builds read it.
func ReadFilter(r *route.Request) (builds.Filter, error) { return readFilter(r) }

func readFilter(r *route.Request) (f builds.Filter, err error) {
	f = builds.Filter{
		Creator:  strings.TrimSpace(r.FormQuery("creator")),
		MetaData: map[string]string{},
	}
	if f.Branches, err = r.QueryList("branch"); err != nil {
		return f, err
	}
	if f.Commits, err = r.QueryList("commit"); err != nil {
		return f, err
	}
	states, err := r.QueryList("state")
	if err != nil {
		return f, err
	}
	if f.States, err = buildStates(states); err != nil {
		return f, err
	}
	if f.CreatedFrom, err = r.QueryTime("created_from"); err != nil {
		return f, err
	}
	if f.CreatedTo, err = r.QueryTime("created_to"); err != nil {
		return f, err
	}
	if f.FinishedFrom, err = r.QueryTime("finished_from"); err != nil {
		return f, err
	}
	paused, err := r.Flag("include_paused", true)
	f.HidePaused = !paused
	for name, values := range r.URL.Query() {
		if key, ok := strings.CutPrefix(name, "meta_data["); ok && strings.HasSuffix(key, "]") {
			f.MetaData[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	if n := len(f.MetaData); err == nil && n > maxMetaDataFilters {
		err = core.Errorf(core.BadRequest, "meta_data has %d keys; at most %d are possible", n, maxMetaDataFilters)
	}
	return f, err
}

// maxMetaDataFilters bounds the meta-data keys of a filter.
const maxMetaDataFilters = 100

// buildStates returns the states that the names in a filter select.
func buildStates(names []string) ([]string, error) {
	var states []string
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "finished":
			for _, state := range finishedStates {
				states = append(states, string(state))
			}
		case slices.Contains(buildStateNames, name):
			states = append(states, name)
		default:
			return nil, core.Errorf(core.BadRequest, "%q is not a state of a build; they are %s, and finished", name, strings.Join(buildStateNames, ", "))
		}
	}
	return states, nil
}
