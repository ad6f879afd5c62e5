package timeline

import (
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A Milestone is the first time that something happened to a job. Reserved is the exception: it is the first time
// by the stack that reserved the job last.
type Milestone struct {
	JobID string
	What  MilestoneKind
	At    time.Time
	By    string // the stack's key, or the agent's id
}

// MilestoneKind says what happened.
type MilestoneKind string

// The kinds.
const (
	Listed          MilestoneKind = "listed"
	Reserved        MilestoneKind = "reserved"
	TokenIssued     MilestoneKind = "token_issued"
	AgentRegistered MilestoneKind = "agent_registered"
	Accepted        MilestoneKind = "accepted"
	// FinishedByStack means that a stack finished the job without an agent.
	FinishedByStack MilestoneKind = "finished_by_stack"
)

// ByAgent reports whether an agent causes the milestone, and not a stack.
func (k MilestoneKind) ByAgent() bool { return k == AgentRegistered || k == Accepted }

// Record stores milestones, except those that exist already and those of jobs that do not exist.
func Record(q *db.Q, milestones ...Milestone) error {
	if len(milestones) == 0 {
		return nil
	}
	// All writers insert in the same order.
	slices.SortFunc(milestones, func(a, b Milestone) int {
		return strings.Compare(a.JobID+string(a.What), b.JobID+string(b.What))
	})
	rows := make([][]any, len(milestones))
	for i, m := range milestones {
		rows[i] = []any{m.JobID, string(m.What), db.Micros(m.At), db.Text(m.By)}
	}
	values, args, err := q.Values(1, []string{"text", "text", "bigint", "text"}, rows)
	if err != nil {
		return err
	}
	return q.Later(`
		WITH recorded (job_id, what, at, by) AS (`+values+`)
		INSERT INTO job_milestones (job_id, what, at, by)
		SELECT r.job_id, r.what, r.at, r.by FROM recorded r
		WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.id = r.job_id)
		ON CONFLICT (job_id, what) DO NOTHING`, args...)
}

// RecordAll stores the same milestone of many jobs, except of those that have it already and of those that do not
// exist.
func RecordAll(q *db.Q, what MilestoneKind, at time.Time, by string, jobIDs []string) error {
	onConflict := "NOTHING"
	if what == Reserved {
		onConflict = "UPDATE SET at = excluded.at, by = excluded.by WHERE job_milestones.by <> excluded.by"
	}
	in, arg := q.In("j.id", 4, jobIDs)
	_, err := q.Exec(`
		INSERT INTO job_milestones (job_id, what, at, by)
		SELECT j.id, CAST($1 AS TEXT), CAST($2 AS BIGINT), CAST($3 AS TEXT) FROM jobs j WHERE `+in+` ORDER BY j.id
		ON CONFLICT (job_id, what) DO `+onConflict, string(what), db.Micros(at), by, arg)
	return err
}

// MilestonesOf returns the milestones of a job, oldest first.
func MilestonesOf(q *db.Q, jobID string) ([]Milestone, error) {
	return db.All(q, func(scan db.Scan) (Milestone, error) {
		m := Milestone{JobID: jobID}
		return m, scan(&m.What, db.ToTime(&m.At), db.ToText(&m.By))
	}, `SELECT what, at, by FROM job_milestones WHERE job_id = $1 ORDER BY at`, jobID)
}

// recordAccepted is the effect of job state changes that records when agents accept jobs.
func (s *Service) recordAccepted(q *db.Q, _ *builds.Build, changed []flow.JobChange) error {
	var accepted []Milestone
	for _, c := range changed {
		if c.Job.State == flow.Accepted {
			accepted = append(accepted, Milestone{c.Job.ID, Accepted, s.clock(), c.Job.AgentID})
		}
	}
	return Record(q, accepted...)
}
