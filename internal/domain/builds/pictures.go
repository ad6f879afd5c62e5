package builds

import (
	"context"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// maxPictured bounds the steps, dependencies and jobs in pictures of a build.
const maxPictured = 20_000

// A PicturedStep is a step in the graph of a build.
type PicturedStep struct {
	ID     string
	Kind   definition.Kind
	Label  string // as written; "": none
	Name   string // its key or command
	Counts map[flow.JobState]int
	Total  int // number of its jobs
}

// Connects reports whether the step only connects others: it was not written, or has no jobs of its own.
func (s PicturedStep) Connects() bool {
	return s.Kind == flow.KindJoin || s.Kind == flow.KindQueue || s.Kind == definition.KindGroup
}

// Graph returns the steps of a build and the ids of steps that depend on others: the first on the second.
func (s *Reader) Graph(ctx context.Context, b *Build) (steps []PicturedStep, depends [][2]string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		units, err := unitsOf(q, b.ID)
		if err != nil {
			return err
		}
		byStep := make(map[string]Unit, len(units))
		for _, u := range units {
			byStep[u.StepID] = u
		}
		steps, err = db.All(q, func(scan db.Scan) (p PicturedStep, err error) {
			var key string
			var work plan.Work
			err = scan(&p.ID, &p.Kind, db.ToText(&key), db.ToText(&p.Label), db.ToJSON(&work))
			if p.Name, _, _ = strings.Cut(strings.TrimSpace(work.Command), "\n"); p.Name == "" {
				p.Name = key
			}
			p.Counts, p.Total = byStep[p.ID].Counts, byStep[p.ID].Total
			return p, err
		}, `
			SELECT s.id, s.kind, s.key, d.label, CASE WHEN d.label = '' THEN d.work END
			FROM steps s LEFT JOIN step_details d ON d.step_id = s.id
			WHERE s.build_id = $1 AND NOT s.replaced
			ORDER BY s.position
			LIMIT $2`, b.ID, maxPictured)
		if err != nil {
			return err
		}
		depends, err = db.All(q, func(scan db.Scan) (e [2]string, err error) { return e, scan(&e[0], &e[1]) }, `
			SELECT e.step_id, e.depends_on
			FROM steps s JOIN step_dependencies e ON e.step_id = s.id
			WHERE s.build_id = $1 AND e.depends_on IS NOT NULL
			LIMIT $2`, b.ID, maxPictured)
		return err
	})
	return steps, depends, err
}

// A PicturedJob is a job in the waterfall of a build.
type PicturedJob struct {
	ID         string
	Label      string        // "": none
	Part       string        // such as " 2/10"; "" if it is the only job of its step
	Key        string        // of its step
	State      flow.JobState // as the API names it, or SoftFailed
	RunnableAt time.Time
	StartedAt  time.Time
	FinishedAt time.Time
}

// Times returns when the command jobs of a build waited and ran, in their order, without earlier attempts.
func (s *Reader) Times(ctx context.Context, b *Build) (jobs []PicturedJob, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		jobs, err = db.All(q, func(scan db.Scan) (j PicturedJob, err error) {
			var softFailed bool
			var own string
			var index, total int
			err = scan(&j.ID, &j.State, &softFailed, db.ToTime(&j.RunnableAt), db.ToTime(&j.StartedAt), db.ToTime(&j.FinishedAt), db.ToText(&j.Label), db.ToText(&own), db.ToText(&j.Key), &index, &total)
			if own != "" {
				j.Label = own
			}
			if total > 0 {
				j.Label, j.Part = parallelLabel(j.Label, index, total), fmt.Sprintf(" %d/%d", index+1, total)
			}
			if softFailed {
				j.State = SoftFailed
			}
			return j, err
		}, `
			SELECT j.id, `+apiState+`, j.soft_failed, j.runnable_at, j.started_at, j.finished_at, d.label, m.label, s.key,
				COALESCE(j.parallel_index, 0), COALESCE(j.parallel_total, 0)
			FROM jobs j
			JOIN steps s ON s.id = j.step_id
			LEFT JOIN step_details d ON d.step_id = j.step_id
			LEFT JOIN job_details m ON m.job_id = j.id
			WHERE j.build_id = $1 AND NOT j.retried AND j.type = $2
			ORDER BY j.position
			LIMIT $3`, b.ID, flow.Script, maxPictured)
		return err
	})
	return jobs, err
}
