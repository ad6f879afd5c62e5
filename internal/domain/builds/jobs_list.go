package builds

import (
	"maps"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// A JobFilter selects jobs of a build.
type JobFilter struct {
	States   []string // as the API names them; none: all
	Promised bool     // treats running jobs that promised to fail as failed
	Retried  bool     // includes attempts that were retried
	StepKey  *string  // nil: any
	GroupKey *string  // of the group of the step; nil: any
	Unpaused bool     // excludes jobs that wait for paused queues
}

// jobStates maps each state that a filter accepts to the condition for jobs j.
var jobStates = map[string]string{
	"passed":  `j.state = 'finished' AND (j.type = 'waiter' OR j.exit_status = 0)`,
	"failed":  `j.state = 'finished' AND j.type <> 'waiter' AND (j.exit_status IS NULL OR j.exit_status <> 0)`,
	"limited": `j.state IN ('limiting', 'limited', 'platform_limiting', 'platform_limited')`,
}

// plainJobStates are states that are stored under the name that the API has for them.
var plainJobStates = []string{
	"pending", "waiting", "waiting_failed", "blocked", "blocked_failed", "unblocked", "unblocked_failed",
	"scheduled", "assigned", "accepted", "running", "timed_out", "timing_out", "canceled", "canceling", "skipped", "broken", "expired",
}

func init() {
	for _, state := range plainJobStates {
		jobStates[state] = `j.state = '` + state + `'`
	}
}

// promisedFailure holds for a running job j that promised to fail.
const promisedFailure = `(j.state = 'running' AND j.promised_failure)`

// CheckJobStates returns a BadRequest error for states that a filter does not accept.
func CheckJobStates(states []string) error {
	for _, state := range states {
		if _, ok := jobStates[state]; !ok {
			known := slices.Sorted(maps.Keys(jobStates))
			return core.Errorf(core.BadRequest, "%q is not a state of a job; they are %s", core.Cut(state, 100), strings.Join(known, ", "))
		}
	}
	return nil
}

// Hidden reports whether the filter uses what visitors cannot see. For them it matches nothing.
func (f JobFilter) Hidden() bool { return f.StepKey != nil || f.GroupKey != nil }

// restrict limits a statement to the jobs j that match the filter.
func (f JobFilter) restrict(s *db.Statement) {
	var either []string
	for _, state := range f.States {
		condition := "(" + jobStates[state] + ")"
		switch {
		case f.Promised && state == "failed":
			condition += " OR " + promisedFailure
		case f.Promised && state == "running":
			condition = "(" + condition + " AND NOT " + promisedFailure + ")"
		}
		either = append(either, condition)
	}
	if len(either) > 0 {
		s.And("(" + strings.Join(either, " OR ") + ")")
	}
	if !f.Retried {
		s.And("NOT j.retried")
	}
	if f.Unpaused {
		s.And("NOT " + waitsForPausedQueue)
	}
	if f.StepKey != nil {
		s.Where("j.step_id IN (SELECT id FROM steps WHERE steps.build_id = j.build_id AND steps.key = %s)", *f.StepKey)
	}
	if f.GroupKey != nil {
		s.Where(`j.step_id IN (
			SELECT m.id FROM steps m JOIN steps g ON g.id = m.scope
			WHERE m.build_id = j.build_id AND g.kind = 'group' AND g.key = %s)`, *f.GroupKey)
	}
}

// ListJobs returns a page of a build's jobs in their order; a page with Before is in reverse order.
func ListJobs(q *db.Q, buildID string, f JobFilter, page route.CursorPage) ([]*Job, error) {
	var s db.Statement
	s.Where("j.build_id = %s", buildID)
	f.restrict(&s)
	order := "j.position, j.id"
	switch {
	case page.After != nil:
		s.Where("(j.position, j.id) > (%s, %s)", page.After[0], page.After[1])
	case page.Before != nil:
		s.Where("(j.position, j.id) < (%s, %s)", page.Before[0], page.Before[1])
		order = "j.position DESC, j.id DESC"
	}
	jobs, err := db.All(q, scanJob, selectJob+`
	`+s.Clause()+`
	ORDER BY `+order+`
	LIMIT `+s.Arg(page.Limit()), s.Args()...)
	if err != nil {
		return nil, err
	}
	if err := describeJobs(q, jobs...); err != nil {
		return nil, err
	}
	budget := route.Budget(len(jobs), "")
	for _, j := range jobs {
		if err := budget.Spend(j.Work.Size()); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// maxJobsListed bounds the jobs of all builds in one response.
const maxJobsListed = 20_000

// JobsOf returns the jobs of builds that match a filter, in their order, by build id.
func JobsOf(q *db.Q, buildIDs []string, f JobFilter) (map[string][]*Job, error) {
	var s db.Statement
	s.WhereIn(q, "j.build_id", buildIDs)
	f.restrict(&s)
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM jobs j `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, err
	}
	if total > maxJobsListed {
		return nil, core.Errorf(core.BadRequest, "These builds have %d jobs, too many for one answer; ask with exclude_jobs=true, or for fewer builds with per_page", total)
	}
	jobs, err := db.All(q, scanJob, selectJob+`
	`+s.Clause()+`
	ORDER BY j.build_id, j.position, j.id`, s.Args()...)
	if err != nil {
		return nil, err
	}
	byBuild := make(map[string][]*Job, len(buildIDs))
	for _, j := range jobs {
		byBuild[j.BuildID] = append(byBuild[j.BuildID], j)
	}
	return byBuild, describeJobs(q, jobs...)
}

// CountJobs returns how many jobs a build has in each state, as the API names them, with or without retried
// attempts.
func CountJobs(q *db.Q, buildID string, retried bool) (map[string]int, error) {
	and := " AND NOT j.retried"
	if retried {
		and = ""
	}
	counts := map[string]int{}
	err := eachCount(q, buildID, and, func(c jobCount) { counts[c.state] += c.n })
	return counts, err
}

// A jobCount is a number of jobs of a build with the same type and state.
type jobCount struct {
	kind       flow.JobType
	state      string // as the API names it
	softFailed bool
	n          int
}

// eachCount calls fn with the counts of the jobs j of a build that match a condition.
func eachCount(q *db.Q, buildID, and string, fn func(jobCount)) error {
	return db.Each(q, func(scan db.Scan) error {
		var c jobCount
		err := scan(&c.kind, &c.state, &c.softFailed, &c.n)
		fn(c)
		return err
	}, `
		SELECT j.type, `+apiState+`, j.soft_failed, COUNT(*)
		FROM jobs j
		WHERE j.build_id = $1`+and+`
		GROUP BY 1, 2, 3`, buildID)
}
