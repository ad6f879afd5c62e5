package builds

import (
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A Milestone is something that happened to a job, for the first time; a reservation, for the first time by the
// stack that reserved the job last.
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
	// FinishedByStack is when a stack finished the job without an agent.
	FinishedByStack MilestoneKind = "finished_by_stack"
)

// ByAgent reports whether an agent does it, and not a stack.
func (k MilestoneKind) ByAgent() bool { return k == AgentRegistered || k == Accepted }

// NoteMilestones keeps milestones that are not there yet. Those of jobs that are gone are left out.
func NoteMilestones(q *db.Q, list ...Milestone) error {
	// All writers in the same order.
	slices.SortFunc(list, func(a, b Milestone) int {
		return strings.Compare(a.JobID+string(a.What), b.JobID+string(b.What))
	})
	for some := range padded(list) {
		var s db.Statement
		rows := make([]string, len(some))
		for i, m := range some {
			rows[i] = "(" + s.Arg(m.JobID) + ", " + s.Arg(string(m.What)) + ", CAST(" + s.Arg(db.Micros(m.At)) + " AS BIGINT), " + s.Arg(db.Text(m.By)) + ")"
		}
		_, err := q.Exec(`
			WITH noted (job_id, what, at, by) AS (VALUES `+strings.Join(rows, ", ")+`)
			INSERT INTO job_milestones (job_id, what, at, by)
			SELECT n.job_id, n.what, n.at, n.by FROM noted n
			WHERE EXISTS (SELECT 1 FROM jobs j WHERE j.id = n.job_id)
			ON CONFLICT (job_id, what) DO NOTHING`, s.Args()...)
		if err != nil {
			return err
		}
	}
	return nil
}

// NoteMilestone keeps that the same happened to many jobs at the same moment, unless it has happened to them
// before. Jobs that are gone are left out.
func NoteMilestone(q *db.Q, what MilestoneKind, at time.Time, by string, jobIDs []string) error {
	again := "NOTHING"
	if what == Reserved {
		again = "UPDATE SET at = excluded.at, by = excluded.by WHERE job_milestones.by <> excluded.by"
	}
	in, arg := q.In("j.id", 4, jobIDs)
	_, err := q.Exec(`
		INSERT INTO job_milestones (job_id, what, at, by)
		SELECT j.id, CAST($1 AS TEXT), CAST($2 AS BIGINT), CAST($3 AS TEXT) FROM jobs j WHERE `+in+` ORDER BY j.id
		ON CONFLICT (job_id, what) DO `+again, string(what), db.Micros(at), by, arg)
	return err
}

// MilestonesOf returns those of a job, in order.
func MilestonesOf(q *db.Q, jobID string) ([]Milestone, error) {
	return db.All(q, func(scan db.Scan) (Milestone, error) {
		m := Milestone{JobID: jobID}
		return m, scan(&m.What, db.ToTime(&m.At), db.ToText(&m.By))
	}, `SELECT what, at, by FROM job_milestones WHERE job_id = $1 ORDER BY at`, jobID)
}

// noteAccepted keeps when agents took jobs.
func (u *unit) noteAccepted(moved []flow.JobChange) error {
	var list []Milestone
	for _, m := range moved {
		if m.Job.State == flow.Accepted {
			list = append(list, Milestone{m.Job.ID, Accepted, u.now, m.Job.AgentID})
		}
	}
	return NoteMilestones(u.q, list...)
}
