package builds

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// jobFilter says which jobs of a build are listed.
type jobFilter struct {
	states   []string // in the words of the API; none: all
	promised bool     // a promised failure counts as one
	retried  bool     // attempts that were retried too
	stepKey  *string  // of the job's step; nil: any
	groupKey *string  // of the group that the step is in; nil: any
	unpaused bool     // leaves out jobs that wait for paused queues
}

// jobStates says for each state that can be asked for which jobs j are in it.
var jobStates = map[string]string{
	"passed":  `j.state = 'finished' AND (j.type = 'waiter' OR j.exit_status = 0)`,
	"failed":  `j.state = 'finished' AND j.type <> 'waiter' AND (j.exit_status IS NULL OR j.exit_status <> 0)`,
	"limited": `j.state IN ('limiting', 'limited', 'platform_limiting', 'platform_limited')`,
}

// plainJobStates are the states that stand for themselves.
var plainJobStates = []string{
	"pending", "waiting", "waiting_failed", "blocked", "blocked_failed", "unblocked", "unblocked_failed",
	"scheduled", "assigned", "accepted", "running", "timed_out", "timing_out", "canceled", "canceling", "skipped", "broken", "expired",
}

func init() {
	for _, state := range plainJobStates {
		jobStates[state] = `j.state = '` + state + `'`
	}
}

// promisedFailure is true of a job j that runs and has promised to fail.
const promisedFailure = `(j.state = 'running' AND j.promised_failure)`

// checkJobStates refuses states that cannot be asked for.
func checkJobStates(states []string) error {
	for _, state := range states {
		if _, ok := jobStates[state]; !ok {
			known := keys(jobStates)
			slices.Sort(known)
			return core.Errorf(core.BadRequest, "%q is not a state of a job; they are %s", core.Cut(state, 100), strings.Join(known, ", "))
		}
	}
	return nil
}

// hidden reports whether the filter asks for what visitors do not see. To them no job has it.
func (f jobFilter) hidden() bool { return f.stepKey != nil || f.groupKey != nil }

// restrict limits a statement to the jobs j that pass the filter.
func (f jobFilter) restrict(s *db.Statement) {
	var either []string
	for _, state := range f.states {
		condition := "(" + jobStates[state] + ")"
		switch {
		case f.promised && state == "failed":
			condition += " OR " + promisedFailure
		case f.promised && state == "running":
			condition = "(" + condition + " AND NOT " + promisedFailure + ")"
		}
		either = append(either, condition)
	}
	if len(either) > 0 {
		s.And("(" + strings.Join(either, " OR ") + ")")
	}
	if !f.retried {
		s.And("NOT j.retried")
	}
	if f.unpaused {
		s.And("NOT " + waitsForPausedQueue)
	}
	if f.stepKey != nil {
		s.Where("j.step_id IN (SELECT id FROM steps WHERE steps.build_id = j.build_id AND steps.key = %s)", *f.stepKey)
	}
	if f.groupKey != nil {
		s.Where(`j.step_id IN (
			SELECT m.id FROM steps m JOIN steps g ON g.id = m.scope
			WHERE m.build_id = j.build_id AND g.kind = 'group' AND g.key = %s)`, *f.groupKey)
	}
}

// listJobs returns part of a build's jobs in their order, for Before in the opposite one.
func listJobs(q *db.Q, buildID string, f jobFilter, page route.CursorPage) ([]*Job, error) {
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
		if err := budget.Spend(j.Work.shownWeight()); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// maxJobsListed bounds the jobs in one answer that has whole builds in it.
const maxJobsListed = 20_000

// jobsOf returns the jobs of builds that pass a filter, in their order, by build.
func jobsOf(q *db.Q, buildIDs []string, f jobFilter) (map[string][]*Job, error) {
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

// countJobs returns how many jobs of a build are in each state, in the words of the API.
func countJobs(q *db.Q, buildID string, retried bool) (*jobStateCountsView, error) {
	and := " AND NOT j.retried"
	if retried {
		and = ""
	}
	v := &jobStateCountsView{States: map[string]int{}}
	err := eachCount(q, buildID, and, func(c jobCount) {
		v.Total += c.n
		v.States[c.state] += c.n
	})
	return v, err
}

// A jobCount is how many jobs of a build are alike.
type jobCount struct {
	kind       flow.JobType
	state      string // in the words of the API
	softFailed bool
	n          int
}

// eachCount tells how many jobs j of a build that pass a condition are alike.
func eachCount(q *db.Q, buildID, and string, tell func(jobCount)) error {
	_, err := db.All(q, func(scan db.Scan) (c jobCount, err error) {
		if err = scan(&c.kind, &c.state, &c.softFailed, &c.n); err == nil {
			tell(c)
		}
		return c, err
	}, `
		SELECT j.type, CASE
				WHEN j.state = 'finished' AND (j.type = 'waiter' OR j.exit_status = 0) THEN 'passed'
				WHEN j.state = 'finished' THEN 'failed'
				WHEN j.state IN ('limiting', 'platform_limiting', 'platform_limited') THEN 'limited'
				ELSE j.state
			END, j.soft_failed, COUNT(*)
		FROM jobs j
		WHERE j.build_id = $1`+and+`
		GROUP BY 1, 2, 3`, buildID)
	return err
}
