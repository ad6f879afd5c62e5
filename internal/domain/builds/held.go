package builds

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A Holding says which agent holds a job.
type Holding struct {
	JobID      string
	BuildID    string
	PipelineID string
	AgentID    string // the holder; "": none
	State      flow.JobState
	FinishedAt time.Time
}

// HoldingOf returns the holding of a job of an organization, or a NotFound error.
func HoldingOf(q *db.Q, orgID, jobID string) (Holding, error) {
	h, err := db.One(q, scanHolding, selectHolding+` WHERE j.organization_id = $1 AND j.id = $2`, orgID, jobID)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noJob)
	}
	return h, err
}

// HeldBy returns the job that an agent holds, the zero Holding when it holds none.
func HeldBy(q *db.Q, orgID, agentID string) (Holding, error) {
	h, err := db.One(q, scanHolding, selectHolding+` WHERE j.agent_id = $2 AND `+heldStates+` AND j.organization_id = $1 ORDER BY j.id LIMIT 1`, orgID, agentID)
	if errors.Is(err, db.ErrNoRows) {
		return Holding{}, nil
	}
	return h, err
}

// HeldColumns are those of the jobs that agents a have, with JoinHeld behind the FROM of a query about
// agents.
const (
	HeldColumns = `j.id, j.build_id, b.pipeline_id, j.agent_id, j.state, j.finished_at`
	JoinHeld    = `
	LEFT JOIN jobs j ON j.agent_id = a.id AND ` + heldStates + ` AND j.organization_id = a.organization_id
	LEFT JOIN builds b ON b.id = j.build_id`
)

// AllHeldBy returns all jobs that an agent holds. It can hold several if it acquired them at the same time.
func AllHeldBy(q *db.Q, orgID, agentID string) ([]Holding, error) {
	return db.All(q, scanHolding, selectHolding+` WHERE j.agent_id = $2 AND `+heldStates+` AND j.organization_id = $1 ORDER BY j.id`, orgID, agentID)
}

const selectHolding = `
	SELECT ` + HeldColumns + `
	FROM jobs j
	JOIN builds b ON b.id = j.build_id
	JOIN pipelines p ON p.id = b.pipeline_id AND p.deleted_at IS NULL`

func scanHolding(scan db.Scan) (h Holding, err error) { return h, scan(HeldDest(&h)...) }

// HeldDest returns where to scan HeldColumns into. All of them are NULL for the zero Holding.
func HeldDest(h *Holding) []any {
	return []any{db.ToText(&h.JobID), db.ToText(&h.BuildID), db.ToText(&h.PipelineID), db.ToText(&h.AgentID), db.ToText((*string)(&h.State)), db.ToTime(&h.FinishedAt)}
}

// Whole returns a job of an organization with its build and its pipeline, or a NotFound error.
func Whole(q *db.Q, orgID, jobID string) (j *Job, b *Build, p *pipelines.Pipeline, err error) {
	if j, err = JobByID(q, orgID, jobID); err != nil {
		return nil, nil, nil, err
	}
	if b, err = ByID(q, orgID, j.BuildID); err != nil {
		return nil, nil, nil, err
	}
	p, err = pipelines.ByID(q, pipelines.System(orgID), b.PipelineID)
	return j, b, p, err
}

// Running reports whether a job of an organization has not ended.
func (s *Reader) Running(ctx context.Context, orgID, jobID string) (running bool, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		h, err := HoldingOf(q, orgID, jobID)
		running = !h.State.Ended()
		return err
	})
	return running, err
}

// AssignedTo returns the job that is assigned to an agent and not accepted yet, "" when there is none.
func (s *Reader) AssignedTo(ctx context.Context, orgID, agentID string) (jobID string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`
			SELECT j.id FROM jobs j
			WHERE j.agent_id = $2 AND `+heldStates+` AND j.organization_id = $1 AND j.state = 'assigned'
			ORDER BY j.id`, orgID, agentID).Scan(&jobID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return jobID, err
}

// heldStates is the condition of the index of jobs that agents hold: the states of flow.JobState.Held.
const heldStates = `j.agent_id IS NOT NULL AND j.state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out')`
