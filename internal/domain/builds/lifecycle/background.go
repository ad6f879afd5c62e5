package lifecycle

import (
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// ruleSetsTask is the task that removes unused rule sets.
const (
	ruleSetsTask  = "rule-set-removal"
	ruleSetsEvery = 24 * time.Hour
)

// Background registers the background work of builds: deadlines, expiry and follow-ups.
func (s *Service) Background(r *tasks.Runner) {
	s.deadlines = r.Timer(deadlineTimer, nextDeadline, s.passDeadlines)
	r.HandleTx(rulesTask, s.addRuleSets)
	r.HandleTx(settings.ExpiryChanged, s.applyExpiry)
	r.Sweep(ruleSetsTask, ruleSetsEvery, func(q *db.Q) (more bool, err error) {
		return dispatch.RemoveUnused(q, s.clock(), usesRuleSet)
	})
	r.Handle(pipelines.Removed, tasks.Limits{Timeout: time.Minute}, s.afterPipelineDeleted)
	r.Handle(followUpTask, tasks.Limits{Timeout: time.Minute}, s.follow)
}

// usesRuleSet reports whether a job of an organization uses a rule set.
func usesRuleSet(q *db.Q, orgID, setID string) (used bool, err error) {
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM jobs WHERE organization_id = $1 AND rule_set = $2)`, orgID, setID).Scan(&used)
	return used, err
}
