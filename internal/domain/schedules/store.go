package schedules

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const noSchedule = "No schedule found"

const selectSchedule = `
	SELECT s.id, s.organization_id, s.pipeline_id, s.label, s.cronline, s.message, s.commit_name, s.branch, s.env, s.enabled,
		s.next_at, s.failures, s.failed_message, s.failed_at, s.created_at, ` + identity.UserColumns + `
	FROM schedules s
	LEFT JOIN users u ON u.id = s.created_by`

func scanSchedule(scan db.Scan) (Schedule, error) {
	var s Schedule
	var by identity.User
	err := scan(append([]any{
		&s.ID, &s.OrganizationID, &s.PipelineID, db.ToText(&s.Label), &s.Cronline, db.ToText(&s.Message), db.ToText(&s.Commit), db.ToText(&s.Branch), db.ToJSON(&s.Env), &s.Enabled,
		db.ToTime(&s.NextAt), &s.Failures, db.ToText(&s.FailedMessage), db.ToTime(&s.FailedAt), db.ToTime(&s.CreatedAt),
	}, identity.UserDest(&by)...)...)
	s.CreatedBy = by.OrNil()
	return s, err
}

// byID returns a schedule of a pipeline, or a NotFound error.
func byID(q *db.Q, orgID, pipelineID, id string) (Schedule, error) {
	return db.Find(q, noSchedule, scanSchedule, selectSchedule+`
		WHERE s.organization_id = $1 AND s.pipeline_id = $2 AND s.id = $3`, orgID, pipelineID, id)
}

// lockByID returns the schedule with an id, or a NotFound error, and locks it until the end of the transaction.
func lockByID(q *db.Q, id string) (Schedule, error) {
	if err := q.Lock("schedules", id); err != nil {
		return Schedule{}, err
	}
	return anyByID(q, id)
}

// anyByID returns the schedule with an id, or a NotFound error. It is for tasks.
func anyByID(q *db.Q, id string) (Schedule, error) {
	return db.Find(q, noSchedule, scanSchedule, selectSchedule+` WHERE s.id = $1`, id)
}

// byLabel returns the oldest schedule of a pipeline with a label, and locks it until the end of the transaction, or
// [db.ErrNoRows].
func byLabel(q *db.Q, pipelineID, label string) (Schedule, error) {
	found, err := db.One(q, scanSchedule, selectSchedule+`
		WHERE s.pipeline_id = $1 AND s.label = $2
		ORDER BY s.created_at, s.id LIMIT 1`, pipelineID, label)
	if err != nil {
		return found, err
	}
	return lockByID(q, found.ID)
}

// list returns one page of a pipeline's schedules, newest first, and the total.
func list(q *db.Q, orgID, pipelineID string, limit, offset int) ([]Schedule, int, error) {
	return db.ListPage(q, db.Within(route.Budget(limit, ""), scanSchedule), selectSchedule+`
		WHERE s.organization_id = $1 AND s.pipeline_id = $2
		ORDER BY s.created_at DESC, s.id DESC`,
		`SELECT COUNT(*) FROM schedules WHERE organization_id = $1 AND pipeline_id = $2`,
		limit, offset, orgID, pipelineID)
}

// checkCount returns an error if a pipeline has as many schedules as possible.
func checkCount(q *db.Q, pipelineID string) error {
	if err := q.LockName("schedules of " + pipelineID); err != nil {
		return err
	}
	n, err := db.Count(q, `SELECT COUNT(*) FROM schedules WHERE pipeline_id = $1`, pipelineID)
	if err == nil && n >= maxPerPipe {
		err = core.Errorf(core.Unprocessable, "The pipeline has %d schedules, the most that are possible; delete one first", n)
	}
	return err
}

// save writes a schedule that is new or locked by the caller.
func save(q *db.Q, s Schedule) error {
	_, err := scheduleRows.Exec(q, s.ID, `
		INSERT INTO schedules (id, organization_id, pipeline_id, label, cronline, message, commit_name, branch, env, enabled,
			next_at, failures, failed_message, failed_at, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`+db.OrUpdate("id", `
			label, cronline, message, commit_name, branch, env, enabled, next_at, failures, failed_message,
			failed_at`),
		s.ID, s.OrganizationID, s.PipelineID, db.Text(s.Label), s.Cronline, db.Text(s.Message), db.Text(s.Commit), db.Text(s.Branch), db.JSON(s.Env), s.Enabled,
		db.Micros(s.NextAt), s.Failures, db.Text(s.FailedMessage), db.Micros(s.FailedAt), s.CreatedBy.IDOrNull(), db.Micros(s.CreatedAt))
	return err
}
