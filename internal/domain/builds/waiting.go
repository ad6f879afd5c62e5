package builds

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A StepName identifies a step for people.
type StepName struct {
	ID    string
	Key   string // empty: none
	Label string
}

// UnfinishedBefore returns up to limit steps that a waiting job waits for. Join and wait steps are replaced by the
// steps before them.
func UnfinishedBefore(q *db.Q, j *Job, limit int) ([]StepName, error) {
	if j.State != flow.Waiting && j.State != flow.Pending {
		return nil, nil
	}
	return db.All(q, func(scan db.Scan) (s StepName, err error) {
		return s, scan(&s.ID, db.ToText(&s.Key), db.ToText(&s.Label))
	}, `
		WITH RECURSIVE behind (id, kind) AS (
			SELECT s.id, s.kind
			FROM step_dependencies e JOIN steps s ON s.id = e.depends_on
			WHERE e.step_id = $1 AND s.outcome IS NULL
			UNION
			SELECT s.id, s.kind
			FROM behind b
			JOIN step_dependencies e ON e.step_id = b.id
			JOIN steps s ON s.id = e.depends_on
			WHERE b.kind IN ('join', 'queue', 'wait') AND s.outcome IS NULL
		)
		SELECT s.id, s.key, d.label
		FROM behind b
		JOIN steps s ON s.id = b.id
		LEFT JOIN step_details d ON d.step_id = s.id
		WHERE b.kind NOT IN ('join', 'queue', 'wait')
		ORDER BY s.position
		LIMIT $2`, j.StepID, limit)
}
