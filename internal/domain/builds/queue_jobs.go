package builds

import (
	"context"
	"fmt"
	"slices"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
)

// QueueJobs are jobs of a queue: the first ones that wait for an agent, and the first ones that agents have.
type QueueJobs struct {
	Waiting, Running         []OnJob // of pipelines that the viewer can see
	MoreWaiting, MoreRunning bool    // there are more, or some that the viewer cannot see
}

// InQueue returns up to limit waiting and running jobs of a queue. Its cost does not grow with the number of jobs.
func (s *Reader) InQueue(ctx context.Context, v pipelines.Viewer, queueID string, limit int) (jobs QueueJobs, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		jobs.Waiting, jobs.MoreWaiting, err = s.firstInQueue(q, v, limit, fmt.Sprintf(`
			SELECT job_id FROM runnable
			WHERE queue_id = $1
			ORDER BY rule_set, priority DESC, scheduled_at, job_id
			LIMIT %d`, limit+1), queueID)
		if err != nil {
			return err
		}
		jobs.Running, jobs.MoreRunning, err = s.firstInQueue(q, v, limit, fmt.Sprintf(`
			SELECT j.id FROM jobs j
			WHERE j.queue_id = $1 AND `+heldStates+`
			ORDER BY j.build_id
			LIMIT %d`, limit+1), queueID)
		return err
	})
	return jobs, err
}

func (s *Reader) firstInQueue(q *db.Q, v pipelines.Viewer, limit int, query, queueID string) (found []OnJob, more bool, err error) {
	ids, err := db.Strings(q, query, queueID)
	if err != nil || len(ids) == 0 {
		return nil, false, err
	}
	more = len(ids) > limit
	ids = ids[:min(len(ids), limit)]
	in, arg := q.In("j.id", 1, ids)
	jobs, err := db.All(q, scanJob, selectJob+` WHERE `+in, arg)
	if err != nil {
		return nil, false, err
	}
	if err := describeJobs(q, jobs...); err != nil {
		return nil, false, err
	}
	if err := s.FillAgentNames(q, v.Org.ID, jobs...); err != nil {
		return nil, false, err
	}
	var buildIDs, pipelineIDs []string
	for _, j := range jobs {
		buildIDs = append(buildIDs, j.BuildID)
	}
	slices.Sort(buildIDs)
	list, err := ByIDs(q, v.Org.ID, slices.Compact(buildIDs))
	if err != nil {
		return nil, false, err
	}
	builds := make(map[string]*Build, len(list))
	for _, b := range list {
		builds[b.ID] = b
		pipelineIDs = append(pipelineIDs, b.PipelineID)
	}
	slices.Sort(pipelineIDs)
	visible, err := pipelines.ByIDs(q, v, slices.Compact(pipelineIDs))
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	for _, j := range jobs {
		if b := builds[j.BuildID]; b != nil && visible[b.PipelineID] != nil {
			found = append(found, OnJob{Job: j, Build: b, Pipeline: visible[b.PipelineID]})
		}
	}
	return found, more || len(found) < len(ids), nil
}
