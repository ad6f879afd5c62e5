package builds

import (
	"fmt"
	"time"

	"stackyard/internal/platform/db"
)

// Versions returns a text for each existing build that changes when its page does, with one statement. It
// serves subscribers that may have missed a notification, so it does not detect every change: it ignores the
// jobs of finished builds.
func Versions(q *db.Q, ids []string) (map[string]string, error) {
	in, arg := q.In("b.id", 1, ids)
	versions := make(map[string]string, len(ids))
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id, state, tally, commit, jobs, annotations, artifact string
		var waiting, scheduled, running int
		var finished time.Time
		err = scan(&id, &state, &tally, &commit, &waiting, &scheduled, &running, db.ToTime(&finished), db.ToText(&jobs), &annotations, db.ToText(&artifact))
		versions[id] = fmt.Sprint(state, tally, commit, waiting, scheduled, running, finished.UnixMicro(), jobs, annotations, artifact)
		return none, err
	}, `
		SELECT b.id, b.state, b.tally, b.commit_name, b.waiting_jobs, b.scheduled_jobs, b.running_jobs, b.finished_at,
			CASE WHEN b.finished_at IS NULL THEN (
				SELECT string_agg(s.state || ' ' || s.n, ',' ORDER BY s.state)
				FROM (SELECT j.state, COUNT(*) AS n FROM jobs j WHERE j.build_id = b.id GROUP BY j.state) AS s) END,
			(SELECT COUNT(*) || ' ' || COALESCE(MAX(a.updated_at), 0) FROM annotations a WHERE a.build_id = b.id),
			(SELECT MAX(f.id) FROM artifacts f WHERE f.build_id = b.id)
		FROM builds b
		WHERE `+in, arg)
	return versions, err
}
