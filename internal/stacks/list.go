package stacks

import (
	"context"
	"strconv"
	"time"

	"stackyard/internal/clusters"
	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/dispatch"
	"stackyard/internal/identity"
)

// A scheduledJob is one that waits for an agent, as the list shows it.
type scheduledJob struct {
	id           string
	priority     int
	rules        []string
	scheduledAt  time.Time
	pipelineID   string
	pipelineSlug string
	buildID      string
	buildNumber  int
	branch       string
	stepKey      string
}

// cursor is the job's place in the list.
func (j scheduledJob) cursor() core.Cursor {
	return core.Cursor{strconv.FormatInt(j.scheduledAt.UnixMicro(), 10), j.id}
}

// A page is a part of a queue's list of scheduled jobs.
type page struct {
	queue clusters.Queue
	jobs  []scheduledJob
	more  bool
}

// list returns scheduled jobs of a queue that nobody has reserved, oldest first, after a cursor. When
// there are none it waits for one, for as long as it is told to.
func (s *Service) list(ctx context.Context, t *identity.AgentToken, queueKey string, after core.Cursor, limit int, wait time.Duration) (p page, err error) {
	since := int64(0)
	sinceID := ""
	if after != nil {
		if since, err = strconv.ParseInt(after[0], 10, 64); err != nil {
			return p, core.Errorf(core.BadRequest, "after is not a cursor of this list")
		}
		sinceID = after[1]
	}
	ctx, cancel := context.WithTimeout(ctx, wait+readTimeout)
	defer cancel()
	deadline := time.After(wait)
	var woken <-chan struct{}
	for {
		err := s.db.Read(ctx, func(q *db.Q) (err error) {
			if p.queue, err = queueOf(q, t, queueKey); err != nil {
				return err
			}
			p.jobs, err = scheduled(q, p.queue, since, sinceID, limit+1)
			return err
		})
		if err != nil || len(p.jobs) > 0 || wait == 0 {
			p.more = len(p.jobs) > limit
			p.jobs = p.jobs[:min(limit, len(p.jobs))]
			return p, err
		}
		if woken == nil {
			// Look once more, since a job may have come before anybody listened.
			var stop func()
			woken, stop = s.bus.Subscribe(dispatch.Topic(p.queue.ID))
			defer stop()
			continue
		}
		select {
		case <-woken:
		case <-deadline:
			return p, nil
		case <-s.agents.Draining():
			return p, nil
		case <-ctx.Done():
			return p, nil
		}
	}
}

// readTimeout bounds how long a list may take beyond what it waits.
const readTimeout = 30 * time.Second

// scheduled reads the list. It begins at its place in the index, and reads no reserved jobs.
func scheduled(q *db.Q, queue clusters.Queue, since int64, sinceID string, limit int) ([]scheduledJob, error) {
	return db.All(q, func(scan db.Scan) (j scheduledJob, err error) {
		var rules []string
		err = scan(&j.id, &j.priority, db.ToTime(&j.scheduledAt), db.ToJSON(&rules), &j.pipelineID, &j.pipelineSlug, &j.buildID, &j.buildNumber, &j.branch, db.ToText(&j.stepKey))
		j.rules = append([]string{"queue=" + queue.Key}, rules...)
		return j, err
	}, `
		SELECT r.job_id, r.priority, r.scheduled_at, rs.rules, p.id, p.slug, b.id, b.number, b.branch, st.key
		FROM (
			SELECT job_id, organization_id, build_id, pipeline_id, rule_set, priority, scheduled_at FROM runnable
			WHERE queue_id = $1 AND reserved_until IS NULL AND (scheduled_at, job_id) > ($2, $3)
			ORDER BY scheduled_at, job_id
			LIMIT $4) AS r
		JOIN jobs j ON j.id = r.job_id
		JOIN steps st ON st.id = j.step_id
		JOIN builds b ON b.id = r.build_id
		JOIN pipelines p ON p.id = r.pipeline_id
		LEFT JOIN rule_sets rs ON rs.organization_id = r.organization_id AND rs.id = r.rule_set
		ORDER BY r.scheduled_at, r.job_id`, queue.ID, since, sinceID, limit)
}
