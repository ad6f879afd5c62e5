package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/platform/db"
)

// A row is a runnable job.
type row struct {
	jobID          string
	organizationID string
	buildID        string
	pipelineID     string
	set            string // id of the rule set
	priority       int
	scheduledAt    time.Time
	retryFrom      string // agent of the previous attempt; empty: none
}

// before orders jobs by priority, scheduled time and id.
func (r row) before(other row) bool {
	switch {
	case r.priority != other.priority:
		return r.priority > other.priority
	case !r.scheduledAt.Equal(other.scheduledAt):
		return r.scheduledAt.Before(other.scheduledAt)
	}
	return r.jobID < other.jobID
}

// presentRuleSets returns the rule sets of runnable jobs by queue; paused queues have none. It reads one index
// entry per rule set, no matter how many jobs there are.
func presentRuleSets(q *db.Q, queueIDs ...string) (map[string][]string, error) {
	in, arg := q.In("q.id", 1, queueIDs)
	sets := make(map[string][]string, len(queueIDs))
	err := db.Each(q, func(scan db.Scan) (err error) {
		var queueID, set string
		err = scan(&queueID, &set)
		sets[queueID] = append(sets[queueID], set)
		return err
	}, presentRuleSetsSQL(in), arg)
	return sets, err
}

func presentRuleSetsSQL(in string) string {
	return `
		WITH RECURSIVE present (queue_id, rule_set) AS (
			SELECT q.id, (
				SELECT r.rule_set FROM runnable r
				WHERE r.queue_id = q.id AND r.reserved_until IS NULL
				ORDER BY r.rule_set LIMIT 1)
			FROM queues q
			WHERE ` + in + ` AND q.dispatch_paused_at IS NULL
			UNION ALL
			SELECT p.queue_id, (
				SELECT r.rule_set FROM runnable r
				WHERE r.queue_id = p.queue_id AND r.rule_set > p.rule_set AND r.reserved_until IS NULL
				ORDER BY r.rule_set LIMIT 1)
			FROM present p
			WHERE p.rule_set IS NOT NULL
		)
		SELECT queue_id, rule_set FROM present WHERE rule_set IS NOT NULL`
}

// A lane is a part of a queue from which a number of jobs is wanted: jobs with one rule set and, with fair
// share, of one pipeline.
type lane struct {
	set        string
	pipelineID string // empty: all pipelines
	wanted     int    // a power of two, see atLeast
}

// atLeast returns the least power of two that is not below n. The number of rows to read is part of the text of a
// statement, because SQLite parses a statement anew each time it runs if that is a parameter. So there are few numbers.
func atLeast(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

// laneSizes are the numbers of lanes that one statement reads. Few sizes, because each is a prepared statement.
var laneSizes = []int{16, 4, 1}

// bestRows returns the best jobs of each lane of a queue. Either all lanes have a pipeline or none.
func bestRows(q *db.Q, queueID string, lanes []lane) ([]row, error) {
	var all []row
	for _, size := range laneSizes {
		for len(lanes) >= size {
			text, args := bestQuery(queueID, lanes[:size])
			rows, err := db.All(q, scanRow, text, args...)
			if err != nil {
				return nil, err
			}
			all, lanes = append(all, rows...), lanes[size:]
		}
	}
	return all, nil
}

func scanRow(scan db.Scan) (r row, err error) {
	return r, scan(&r.jobID, &r.organizationID, &r.buildID, &r.pipelineID, &r.set, &r.priority, db.ToTime(&r.scheduledAt), db.ToText(&r.retryFrom))
}

// prefersDifferent reports whether retried jobs of a queue prefer a different agent than before, instead of the
// one that worked last.
func prefersDifferent(q *db.Q, queueID string) (others bool, err error) {
	err = q.QueryRow(`SELECT retry_agent_affinity = 'prefer-different' FROM queues WHERE id = $1`, queueID).Scan(&others)
	if errors.Is(err, db.ErrNoRows) {
		err = nil // the queue was just deleted
	}
	return others, err
}

func bestQuery(queueID string, lanes []lane) (text string, args []any) {
	var s db.Statement
	queue := s.Arg(queueID)
	parts, limit := make([]string, len(lanes)), 0
	for _, l := range lanes {
		limit = max(limit, l.wanted)
	}
	for i, l := range lanes {
		where := `reserved_until IS NULL AND queue_id = ` + queue + ` AND rule_set = ` + s.Arg(l.set)
		if l.pipelineID != "" {
			where += ` AND pipeline_id = ` + s.Arg(l.pipelineID)
		}
		parts[i] = fmt.Sprintf(`
		SELECT * FROM (
			SELECT job_id, organization_id, build_id, pipeline_id, rule_set, priority, scheduled_at, retry_from FROM runnable
			WHERE %s
			ORDER BY priority DESC, scheduled_at, job_id
			LIMIT %d) AS lane%d`, where, limit, i)
	}
	return strings.Join(parts, ` UNION ALL`), s.Args()
}
