package builds

import (
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A StackJob is a job as stacks see it.
type StackJob struct {
	BuildID    string
	ClusterID  string
	Type       flow.JobType
	State      flow.JobState
	AgentID    string // agent that has or had the job; "": none
	CreatedAt  time.Time
	FinishedAt time.Time // zero: it has not ended
}

// StackJobs returns jobs of an organization, by id. Unknown jobs are left out, and so are jobs of hosted
// clusters and queues, which agent tokens do not reach.
func StackJobs(q *db.Q, orgID string, jobIDs []string) (map[string]StackJob, error) {
	in, arg := q.In("j.id", 2, jobIDs)
	jobs := make(map[string]StackJob, len(jobIDs))
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var j StackJob
		err := scan(&id, &j.BuildID, db.ToText(&j.ClusterID), &j.Type, &j.State, db.ToText(&j.AgentID), db.ToTime(&j.CreatedAt), db.ToTime(&j.FinishedAt))
		jobs[id] = j
		return err
	}, `
		SELECT j.id, j.build_id, b.cluster_id, j.type, j.state, j.agent_id, j.created_at, j.finished_at
		FROM jobs j
		JOIN builds b ON b.id = j.build_id
		LEFT JOIN clusters c ON c.id = b.cluster_id
		LEFT JOIN queues qu ON qu.id = j.queue_id
		WHERE j.organization_id = $1 AND c.hosted IS NOT TRUE AND qu.hosted_agents IS NULL AND `+in, orgID, arg)
	return jobs, err
}

// LockJobs locks jobs of an organization until the end of the write, in the order of their ids.
func LockJobs(q *db.Q, orgID string, jobIDs []string) error {
	in, arg := q.In("id", 2, jobIDs)
	_, err := db.Strings(q, `SELECT id FROM jobs WHERE organization_id = $1 AND `+in+` ORDER BY id`+q.ForUpdate(), orgID, arg)
	return err
}

// QueueKey returns the key of the queue of a job, or a NotFound error.
func QueueKey(q *db.Q, orgID, jobID string) (key string, err error) {
	err = q.QueryRow(`
		SELECT qu.key FROM jobs j JOIN queues qu ON qu.id = j.queue_id
		WHERE j.organization_id = $1 AND j.id = $2`, orgID, jobID).Scan(&key)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noJob)
	}
	return key, err
}

// A Summary names a build in lists of jobs.
type Summary struct {
	ID           string
	Number       int
	Branch       string
	PipelineSlug string
}

// Summaries returns summaries of builds, by id. Unknown builds and those of deleted pipelines are left out.
func Summaries(q *db.Q, orgID string, buildIDs []string) (map[string]Summary, error) {
	in, arg := q.In("b.id", 2, buildIDs)
	summaries := make(map[string]Summary, len(buildIDs))
	err := db.Each(q, func(scan db.Scan) error {
		var s Summary
		err := scan(&s.ID, &s.Number, &s.Branch, &s.PipelineSlug)
		summaries[s.ID] = s
		return err
	}, `
		SELECT b.id, b.number, b.branch, p.slug
		FROM builds b JOIN pipelines p ON p.id = b.pipeline_id AND p.deleted_at IS NULL
		WHERE b.organization_id = $1 AND `+in, orgID, arg)
	return summaries, err
}
