package builds

import (
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// A filter says which builds are listed.
type filter struct {
	branches     []string // names in which * stands for anything
	commits      []string
	creator      string // an id, a name or an e-mail address
	states       []string
	metaData     map[string]string
	createdFrom  time.Time
	createdTo    time.Time // exclusive
	finishedFrom time.Time
	hidePaused   bool // leaves out builds that wait for paused queues only
}

// filterParams are the query parameters of lists of builds.
var filterParams = []route.Param{
	{Name: "branch[]", Type: "array", Doc: "Names of branches; * stands for anything."},
	{Name: "commit[]", Type: "array", Doc: "Full names of commits."},
	{Name: "created_from", Doc: "Created at this time (ISO 8601) or later."},
	{Name: "created_to", Doc: "Created before this time (ISO 8601)."},
	{Name: "finished_from", Doc: "Finished at this time (ISO 8601) or later."},
	{Name: "creator", Doc: "The id of the user who made the build; a name or an e-mail address will do."},
	{Name: "state[]", Type: "array", Doc: "States of builds; finished stands for passed, failed, blocked and canceled."},
	{Name: "include_paused", Type: "boolean", Doc: "Whether to list builds and jobs that wait for paused queues; true unless given."},
}

// finishedStates are what the word finished stands for.
var finishedStates = []flow.BuildState{flow.BuildPassed, flow.BuildFailed, flow.BuildBlocked, flow.BuildCanceled}

// buildStateNames are the states of builds that can be asked for.
var buildStateNames = []string{
	string(flow.BuildCreating), string(flow.BuildScheduled), string(flow.BuildRunning), string(flow.BuildFailing),
	string(flow.BuildBlocked), string(flow.BuildCanceling), string(flow.BuildPassed), string(flow.BuildFailed),
	string(flow.BuildCanceled), string(flow.BuildSkipped), string(flow.BuildNotRun),
}

func readFilter(r *route.Request) (f filter, err error) {
	f = filter{
		creator:  strings.TrimSpace(r.FormQuery("creator")),
		metaData: map[string]string{},
	}
	if f.branches, err = r.QueryList("branch"); err != nil {
		return f, err
	}
	if f.commits, err = r.QueryList("commit"); err != nil {
		return f, err
	}
	states, err := r.QueryList("state")
	if err != nil {
		return f, err
	}
	if f.states, err = buildStates(states); err != nil {
		return f, err
	}
	if f.createdFrom, err = r.QueryTime("created_from"); err != nil {
		return f, err
	}
	if f.createdTo, err = r.QueryTime("created_to"); err != nil {
		return f, err
	}
	if f.finishedFrom, err = r.QueryTime("finished_from"); err != nil {
		return f, err
	}
	paused, err := r.Flag("include_paused", true)
	f.hidePaused = !paused
	for name, values := range r.URL.Query() {
		if key, ok := strings.CutPrefix(name, "meta_data["); ok && strings.HasSuffix(key, "]") {
			f.metaData[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	if n := len(f.metaData); err == nil && n > maxMetaDataFilters {
		err = core.Errorf(core.BadRequest, "meta_data has %d keys; at most %d are possible", n, maxMetaDataFilters)
	}
	return f, err
}

// hidden reports whether the filter asks for what visitors do not see. To them no build has it.
func (f filter) hidden() bool { return f.creator != "" || len(f.metaData) > 0 || f.hidePaused }

// maxMetaDataFilters is how many keys of meta-data a list can be filtered by.
const maxMetaDataFilters = 100

// buildStates returns the states that words of a filter stand for.
func buildStates(words []string) ([]string, error) {
	var states []string
	for _, word := range words {
		word = strings.ToLower(strings.TrimSpace(word))
		switch {
		case word == "finished":
			for _, state := range finishedStates {
				states = append(states, string(state))
			}
		case slices.Contains(buildStateNames, word):
			states = append(states, word)
		default:
			return nil, core.Errorf(core.BadRequest, "%q is not a state of a build; they are %s, and finished", word, strings.Join(buildStateNames, ", "))
		}
	}
	return states, nil
}

// restrict limits a statement to the builds b that pass the filter.
func (f filter) restrict(q *db.Q, s *db.Statement) {
	if len(f.branches) > 0 {
		var either []string
		for _, branch := range f.branches {
			if strings.Contains(branch, "*") {
				either = append(either, `b.branch LIKE `+s.Arg(strings.ReplaceAll(db.Like(branch), "*", "%"))+` ESCAPE '\'`)
			} else {
				either = append(either, `b.branch = `+s.Arg(branch))
			}
		}
		s.And("(" + strings.Join(either, " OR ") + ")")
	}
	if len(f.commits) > 0 {
		s.WhereIn(q, "b.commit_name", f.commits)
	}
	if len(f.states) > 0 {
		s.WhereIn(q, "b.state", f.states)
	}
	if id, ok := core.ParseID(f.creator); ok {
		s.Where("b.creator_id = %s", id)
	} else if f.creator != "" {
		s.Where("b.creator_id IN (SELECT id FROM users WHERE email = %s OR name = %s)", strings.ToLower(f.creator), f.creator)
	}
	if !f.createdFrom.IsZero() {
		s.Where("b.created_at >= %s", db.Micros(f.createdFrom))
	}
	if !f.createdTo.IsZero() {
		s.Where("b.created_at < %s", db.Micros(f.createdTo))
	}
	if !f.finishedFrom.IsZero() {
		s.Where("b.finished_at >= %s", db.Micros(f.finishedFrom))
	}
	if f.hidePaused {
		s.And(`NOT (
			EXISTS (SELECT 1 FROM jobs j WHERE j.build_id = b.id AND ` + waitsForPausedQueue + `)
			AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.build_id = b.id AND ` + movable + ` AND NOT ` + waitsForPausedQueue + `))`)
	}
}

// An order is in which order builds are listed, and what is joined to them for it.
type order struct{ join, by string }

// orderWithMetaData limits a statement to builds in a scope that have the meta-data of the filter, and returns the
// order in which they are found; without meta-data, the other order.
func (f filter) orderWithMetaData(q *db.Q, s *db.Statement, scope metadata.Scope, other order) order {
	if len(f.metaData) == 0 {
		return other
	}
	join, orderBy := metadata.Restrict(q, s, scope, f.metaData)
	return order{join: join, by: orderBy}
}

// movable is true of a job j that waits for nothing in its own build: an agent, a person or a place is all
// that it takes to bring it on.
const movable = `j.state IN ('blocked', 'limiting', 'limited', 'platform_limiting', 'platform_limited',
				'scheduled', 'assigned', 'accepted', 'running', 'canceling', 'timing_out')`

// waitsForPausedQueue is true of a job j that would be dispatched if its queue were not paused.
const waitsForPausedQueue = `(j.state = 'scheduled' AND EXISTS (
				SELECT 1 FROM queues pq WHERE pq.id = j.queue_id AND pq.dispatch_paused_at IS NOT NULL))`
