package builds

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

const (
	// BoardSize is the number of units on one page of a board.
	BoardSize = 60
	// maxTogether is the number of jobs of a step that a board loads with it. Of larger steps it loads those that failed,
	// up to maxFailed.
	maxTogether = 10
	maxFailed   = 5
	// maxLoaded bounds the jobs of all units of a page that have several, and maxAttempts earlier attempts.
	maxLoaded   = 120
	maxAttempts = 200
)

// A BoardQuery selects a part of a board.
type BoardQuery struct {
	Page  int    // number of the page, from 1
	JobID string // the page has this job; "" or not a job of the build: Page decides
	// A board with one of these is a list of jobs, one to a unit.
	States []flow.JobState // as in Counts
	StepID string
	Text   string // in labels and commands
}

// flat reports whether the query asks for a list of jobs.
func (b BoardQuery) flat() bool { return len(b.States) > 0 || b.StepID != "" || b.Text != "" }

// A Board is a page of a build's jobs.
type Board struct {
	Units  []Unit            // in the order of the steps
	Before map[string][]*Job // earlier attempts, oldest first, by the id of the newest
	Number int               // page number, from 1
	Pages  int
	// Counts are the numbers of jobs in each state, as the API names it, or SoftFailed; without wait jobs and
	// earlier attempts.
	Counts map[flow.JobState]int
	Found  int // number of units on all pages
}

// A Unit is a step with its jobs: one, or several that run in parallel or for a matrix.
type Unit struct {
	StepID string
	// Jobs are the newest attempts of its jobs; of a step with many jobs only the first one, those that failed and the
	// one that was asked for.
	Jobs   []*Job
	Total  int
	Counts map[flow.JobState]int
	// StartedAt and FinishedAt are of the first and the last of its jobs.
	StartedAt, FinishedAt time.Time

	first string // position of the first job
	kind  flow.JobType
}

// SoftFailed is the state on a board of jobs whose failure does not fail the build.
const SoftFailed flow.JobState = "soft_failed"

// Board returns a page of a build's jobs.
func (s *Reader) Board(ctx context.Context, b *Build, query BoardQuery) (*Board, error) {
	board := &Board{}
	err := s.db.Read(ctx, func(q *db.Q) error {
		*board = Board{Number: query.Page}
		units, err := unitsOf(q, b.ID)
		if err != nil {
			return err
		}
		board.count(units)
		if query.flat() {
			err = board.readFlat(q, b.ID, query)
		} else {
			err = board.readUnits(q, b.ID, query.JobID, units)
		}
		if err != nil {
			return err
		}
		if err := board.readAttempts(q, b.ID); err != nil {
			return err
		}
		all := board.all()
		if err := describeJobs(q, all...); err != nil {
			return err
		}
		return s.FillAgentNames(q, b.OrganizationID, all...)
	})
	return board, err
}

// jobs returns the loaded newest attempts.
func (b *Board) jobs() (list []*Job) {
	for _, u := range b.Units {
		list = append(list, u.Jobs...)
	}
	return list
}

// all returns all loaded jobs.
func (b *Board) all() []*Job {
	list := b.jobs()
	for _, attempts := range b.Before {
		list = append(list, attempts...)
	}
	return list
}

// apiState is the state of a job j as the API names it.
const apiState = `CASE
				WHEN j.state = 'finished' AND (j.type = 'waiter' OR j.exit_status = 0) THEN 'passed'
				WHEN j.state = 'finished' THEN 'failed'
				WHEN j.state IN ('limiting', 'platform_limiting', 'platform_limited') THEN 'limited'
				ELSE j.state
			END`

// unitsOf returns the steps of a build with jobs, and how many jobs they have in each state.
func unitsOf(q *db.Q, buildID string) ([]Unit, error) {
	byStep := make(map[string]*Unit)
	err := db.Each(q, func(scan db.Scan) error {
		var stepID, first string
		var kind flow.JobType
		var state flow.JobState
		var softFailed bool
		var n int
		var started, finished time.Time
		if err := scan(&stepID, &kind, &state, &softFailed, &n, &first, db.ToTime(&started), db.ToTime(&finished)); err != nil {
			return err
		}
		u := byStep[stepID]
		if u == nil {
			u = &Unit{StepID: stepID, Counts: map[flow.JobState]int{}, first: first, kind: kind}
			byStep[stepID] = u
		}
		if softFailed {
			state = SoftFailed
		}
		u.Total += n
		u.Counts[state] += n
		u.first = min(u.first, first)
		if u.StartedAt.IsZero() || !started.IsZero() && started.Before(u.StartedAt) {
			u.StartedAt = started
		}
		if finished.After(u.FinishedAt) {
			u.FinishedAt = finished
		}
		return nil
	}, `
		SELECT j.step_id, j.type, `+apiState+`, j.soft_failed, COUNT(*), MIN(j.position), MIN(j.started_at), MAX(j.finished_at)
		FROM jobs j
		WHERE j.build_id = $1 AND NOT j.retried
		GROUP BY 1, 2, 3, 4`, buildID)
	units := make([]Unit, 0, len(byStep))
	for _, u := range byStep {
		units = append(units, *u)
	}
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.StepID, b.StepID)) })
	return units, err
}

// count sums up the counts of all units.
func (b *Board) count(units []Unit) {
	b.Counts = make(map[flow.JobState]int)
	for _, u := range units {
		if u.kind == flow.Waiter {
			continue
		}
		for state, n := range u.Counts {
			b.Counts[state] += n
		}
	}
}

// paginate sets the number of pages, and corrects the number of this one.
func (b *Board) paginate(found int) {
	b.Found = found
	b.Pages = max(1, (found+BoardSize-1)/BoardSize)
	b.Number = min(max(1, b.Number), b.Pages)
}

// readUnits reads the page of units that has a job, if one is given.
func (b *Board) readUnits(q *db.Q, buildID, jobID string, units []Unit) error {
	var stepID, position string
	if id, ok := core.ParseID(jobID); ok {
		err := q.QueryRow(`SELECT j.step_id, j.position FROM jobs j WHERE j.build_id = $1 AND j.id = $2`, buildID, id).Scan(&stepID, &position)
		if err != nil && !errors.Is(err, db.ErrNoRows) {
			return err
		}
	}
	if i := slices.IndexFunc(units, func(u Unit) bool { return u.StepID == stepID }); i >= 0 {
		b.Number = i/BoardSize + 1
	}
	b.paginate(len(units))
	b.Units = slices.Clone(units[(b.Number-1)*BoardSize : min(len(units), b.Number*BoardSize)])
	return b.loadUnits(q, buildID, position)
}

// loadUnits loads the jobs of the units: all of small ones, and of others the first, those that failed, and the one at
// a position.
func (b *Board) loadUnits(q *db.Q, buildID, position string) error {
	var small, large []string
	positions := []string{position}
	loaded := 0
	for _, u := range b.Units {
		if u.Total == 1 || u.Total <= maxTogether && loaded+u.Total <= maxLoaded {
			small = append(small, u.StepID)
			if u.Total > 1 {
				loaded += u.Total
			}
			continue
		}
		large, positions = append(large, u.StepID), append(positions, u.first)
	}
	jobs := make(map[string][]*Job) // by step
	load := func(where string, args ...any) error {
		found, err := db.All(q, scanJob, selectJob+` WHERE j.build_id = $1 AND NOT j.retried AND `+where, append([]any{buildID}, args...)...)
		for _, j := range found {
			if !slices.ContainsFunc(jobs[j.StepID], func(known *Job) bool { return known.ID == j.ID }) {
				jobs[j.StepID] = append(jobs[j.StepID], j)
			}
		}
		return err
	}
	if len(small) > 0 {
		in, arg := q.In("j.step_id", 2, small)
		if err := load(in, arg); err != nil {
			return err
		}
	}
	if len(large) > 0 {
		in, arg := q.In("j.position", 2, positions)
		if err := load(in, arg); err != nil {
			return err
		}
		in, arg = q.In("j.step_id", 2, large)
		if err := load(in+` AND `+failedJob+` ORDER BY j.position LIMIT $3`, arg, maxLoaded); err != nil {
			return err
		}
	}
	for i := range b.Units {
		u := &b.Units[i]
		u.Jobs = jobs[u.StepID]
		slices.SortFunc(u.Jobs, func(x, y *Job) int { return cmp.Or(cmp.Compare(x.Position, y.Position), cmp.Compare(x.ID, y.ID)) })
		if len(u.Jobs) > maxTogether {
			u.Jobs = u.limited(position)
		}
	}
	return nil
}

// limited returns the first jobs that failed, and the one at a position.
func (u *Unit) limited(position string) []*Job {
	failed := 0
	return slices.DeleteFunc(slices.Clone(u.Jobs), func(j *Job) bool {
		if j.Failed() {
			failed++
		}
		return j.Position != position && j.Position != u.first && failed > maxFailed
	})
}

// failedJob holds for a job j that fails its build.
const failedJob = `(j.state = 'finished' AND j.type <> 'waiter' AND (j.exit_status IS NULL OR j.exit_status <> 0) AND NOT j.soft_failed
				OR j.state IN ('timed_out', 'expired'))`

// FirstFailed returns the id of the first job of a build that fails it and has a log, or "".
func (s *Reader) FirstFailed(ctx context.Context, b *Build) (id string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		ids, err := db.Strings(q, `
			SELECT j.id FROM jobs j
			WHERE j.build_id = $1 AND NOT j.retried AND j.type = $2 AND `+failedJob+`
			ORDER BY j.position LIMIT 1`, b.ID, flow.Script)
		id = strings.Join(ids, "")
		return err
	})
	return id, err
}

// readFlat reads a page of the jobs that a query selects.
func (b *Board) readFlat(q *db.Q, buildID string, query BoardQuery) error {
	var s db.Statement
	s.Where("j.build_id = %s", buildID)
	s.And("NOT j.retried AND j.type <> 'waiter'")
	if query.StepID != "" {
		s.Where("j.step_id = %s", query.StepID)
	}
	if len(query.States) > 0 {
		s.And("(" + strings.Join(stateConditions(query.States), " OR ") + ")")
	}
	if query.Text != "" {
		like := "%" + db.Like(strings.ToLower(query.Text)) + "%"
		s.Where(`(j.step_id IN (
				SELECT s.id FROM steps s JOIN step_details d ON d.step_id = s.id
				WHERE s.build_id = j.build_id AND (lower(d.label) LIKE %s ESCAPE '\' OR lower(d.work) LIKE %s ESCAPE '\'))
			OR j.matrix IS NOT NULL AND j.id IN (
				SELECT m.job_id FROM job_details m JOIN jobs n ON n.id = m.job_id
				WHERE n.build_id = j.build_id AND lower(m.label) LIKE %s ESCAPE '\'))`, like, like, like)
	}
	var found int
	if err := q.QueryRow(`SELECT COUNT(*) FROM jobs j `+s.Clause(), s.Args()...).Scan(&found); err != nil {
		return err
	}
	b.paginate(found)
	limit, offset := s.Arg(BoardSize), s.Arg((b.Number-1)*BoardSize)
	jobs, err := db.All(q, scanJob, selectJob+`
	`+s.Clause()+`
	ORDER BY j.position, j.id
	LIMIT `+limit+` OFFSET `+offset, s.Args()...)
	for _, j := range jobs {
		b.Units = append(b.Units, Unit{StepID: j.StepID, Jobs: []*Job{j}, Total: 1, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, kind: j.Type})
	}
	return err
}

// stateConditions returns conditions for jobs j in states of Counts. Unknown states are left out.
func stateConditions(states []flow.JobState) []string {
	conditions := []string{"1 = 0"}
	for _, state := range states {
		switch condition, ok := jobStates[string(state)]; {
		case state == SoftFailed:
			conditions = append(conditions, "j.soft_failed")
		case ok:
			conditions = append(conditions, "(NOT j.soft_failed AND "+condition+")")
		}
	}
	return conditions
}

// readAttempts reads the earlier attempts of the loaded jobs.
func (b *Board) readAttempts(q *db.Q, buildID string) error {
	newest := make(map[string]string) // by position
	var positions []string
	for _, j := range b.jobs() {
		if j.RetriesCount > 0 || j.RetryOf != "" {
			newest[j.Position] = j.ID
			positions = append(positions, j.Position)
		}
	}
	b.Before = make(map[string][]*Job)
	if len(positions) == 0 {
		return nil
	}
	in, arg := q.In("j.position", 2, positions)
	earlier, err := db.All(q, scanJob, selectJob+`
	WHERE j.build_id = $1 AND j.retried AND `+in+`
	ORDER BY j.position, j.id
	LIMIT $3`, buildID, arg, maxAttempts)
	for _, j := range earlier {
		if id, ok := newest[j.Position]; ok {
			b.Before[id] = append(b.Before[id], j)
		}
	}
	return err
}
