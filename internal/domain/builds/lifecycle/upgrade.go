package lifecycle

import (
	"maps"
	"slices"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// rulesTask is the task, added by a migration, that gives jobs from before package dispatch their rule sets.
// Its key is the last build of the batch before.
const rulesTask = "job-rules"

// rulesBatch bounds the builds of one transaction.
const rulesBatch = 20

// addRuleSets adds the rule sets of jobs of some builds, and makes the scheduled jobs runnable.
func (s *Service) addRuleSets(q *db.Q, t *tasks.Due) error {
	ids, err := db.Strings(q, `SELECT id FROM builds WHERE id > $1 ORDER BY id LIMIT $2`, t.Key, rulesBatch)
	if err != nil || len(ids) == 0 {
		return err
	}
	for _, id := range ids {
		if err := q.Lock("builds", id); err != nil {
			return err
		}
		if err := addRuleSetsTo(q, id, s.clock()); err != nil {
			return err
		}
	}
	return tasks.Add(q, tasks.Task{Kind: t.Kind, Key: ids[len(ids)-1], RunAt: s.clock()})
}

func addRuleSetsTo(q *db.Q, buildID string, now time.Time) error {
	bySet := make(map[string][]string)
	sets := make(map[string]dispatch.RuleSet)
	var orgID string
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var step plan.Work
		var own plan.Variation
		if err := scan(&id, &orgID, db.ToJSON(&step), db.ToJSON(&own)); err != nil {
			return none, err
		}
		if set := dispatch.RuleSetOf(own.Apply(step).Agents); set.ID != "" {
			sets[set.ID] = set
			bySet[set.ID] = append(bySet[set.ID], id)
		}
		return none, nil
	}, `
		SELECT j.id, j.organization_id, s.work, d.work
		FROM jobs j
		JOIN step_details s ON s.step_id = j.step_id
		LEFT JOIN job_details d ON d.job_id = j.id
		WHERE j.build_id = $1 AND j.type = $2 AND j.rule_set IS NULL`, buildID, flow.Script)
	if err != nil {
		return err
	}
	if err := dispatch.Intern(q, orgID, now, slices.Collect(maps.Values(sets))...); err != nil {
		return err
	}
	if err := q.LockAll("jobs", "id", slices.Concat(slices.Collect(maps.Values(bySet))...)); err != nil {
		return err
	}
	for set, jobIDs := range bySet {
		in, arg := q.In("id", 2, jobIDs)
		if _, err := q.Exec(`UPDATE jobs SET rule_set = $1 WHERE `+in, set, arg); err != nil {
			return err
		}
	}
	scheduled, err := db.Strings(q, `
		SELECT j.id FROM jobs j
		WHERE j.build_id = $1 AND j.type = $2 AND j.state = $3 AND NOT EXISTS (SELECT 1 FROM runnable r WHERE r.job_id = j.id)`,
		buildID, flow.Script, flow.Scheduled)
	if err != nil {
		return err
	}
	return makeRunnable(q, scheduled)
}
