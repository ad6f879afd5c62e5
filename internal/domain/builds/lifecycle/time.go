package lifecycle

import (
	"strings"
	"time"

	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// stopGrace is how long an agent may take to stop a job that was canceled or timed out, and to report it:
// agents poll every few seconds, give the process ten seconds to end, and upload artifacts. Then the server
// ends the job. It equals the time after which a silent agent is lost, so that no job is being stopped for
// longer.
const stopGrace = 3 * time.Minute

// acceptGrace is how long an agent may take to accept a job that is assigned to it, and startGrace how long it
// may then take to start it. Agents that miss the response retry for two minutes.
const acceptGrace, startGrace = 30 * time.Second, 5 * time.Minute

// expiryBatch bounds the builds whose jobs get another expiry in one transaction.
const expiryBatch = 20

// applyExpiry changes the expiry of an organization's scheduled jobs after the setting changed. The task's
// key is the organization id and, from the second batch on, the last build of the batch before.
func (s *Service) applyExpiry(q *db.Q, t *tasks.Due) error {
	orgID, after, _ := strings.Cut(t.Key, " ")
	set, err := settings.Of(q, orgID)
	if err != nil {
		return err
	}
	ids, err := db.Strings(q, `
		SELECT b.id FROM pipelines p
		JOIN builds b ON b.pipeline_id = p.id
		WHERE p.organization_id = $1 AND b.finished_at IS NULL AND b.scheduled_jobs > 0 AND b.id > $2
		ORDER BY b.id
		LIMIT $3`, orgID, after, expiryBatch)
	if err != nil || len(ids) == 0 {
		return err
	}
	in, arg := q.In("build_id", 2, ids)
	scheduled := q.InOrder("jobs", "id", `type = 'script' AND state = 'scheduled' AND `+in)
	if _, err := q.Exec(`UPDATE jobs SET deadline_at = runnable_at + $1 WHERE `+scheduled, set.JobExpiry().Microseconds(), arg); err != nil {
		return err
	}
	s.deadlines.Due(s.clock()) // finds out when
	if len(ids) < expiryBatch {
		return nil
	}
	return tasks.Add(q, tasks.Task{Kind: t.Kind, Key: orgID + " " + ids[len(ids)-1], RunAt: s.clock()})
}
