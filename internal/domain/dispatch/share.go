package dispatch

import (
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/db"
)

// With fair share, the next job of a queue comes from the pipeline with the fewest running jobs for its weight.
// The cost of finding it depends on the number of pipelines with waiting jobs and of busy agents, not on the
// number of jobs.

// maxShared bounds the jobs of all pipelines that one scan reads of a rule set; minShared is read of each
// pipeline in any case.
const maxShared, minShared = 2_000, 4

// shares are the shares of pipelines by id; nil without fair share.
type shares map[string]*share

type share struct{ running, weight int }

// add counts one more job of a pipeline.
func (s shares) add(pipelineID string) {
	if had := s[pipelineID]; had != nil {
		had.running++
	}
}

// less reports whether a pipeline has a lower share for its weight than another.
func (s *share) less(other *share) bool { return s.running*other.weight < other.running*s.weight }

// byPipeline splits lanes by the pipelines that have jobs in them.
func byPipeline(q *db.Q, queueID string, lanes []lane) ([]lane, error) {
	var own []lane
	for _, l := range lanes {
		pipelines, err := db.Strings(q, pipelinesSQL, queueID, l.set)
		if err != nil {
			return nil, err
		}
		for _, id := range pipelines {
			wanted := atLeast(min(l.wanted, max(maxShared/len(pipelines), minShared)))
			own = append(own, lane{set: l.set, pipelineID: id, wanted: wanted})
		}
	}
	return own, nil
}

// pipelinesSQL finds the pipelines that have jobs with a rule set in a queue. It reads one index entry per
// pipeline.
const pipelinesSQL = `
	WITH RECURSIVE pipeline (id) AS (
		SELECT * FROM (
			SELECT pipeline_id FROM runnable
			WHERE queue_id = $1 AND rule_set = $2 AND reserved_until IS NULL
			ORDER BY pipeline_id LIMIT 1) AS first
		UNION ALL
		SELECT (
			SELECT r.pipeline_id FROM runnable r
			WHERE r.queue_id = $1 AND r.rule_set = $2 AND r.pipeline_id > p.id AND r.reserved_until IS NULL
			ORDER BY r.pipeline_id LIMIT 1)
		FROM pipeline p
		WHERE p.id IS NOT NULL
	)
	SELECT id FROM pipeline WHERE id IS NOT NULL`

// sharesOf returns the shares of the lanes' pipelines in a queue.
func (d *Dispatcher) sharesOf(q *db.Q, queueID string, fair quotas.FairShare, lanes []lane) (shares, error) {
	s := shares{}
	var ids []string
	for _, l := range lanes {
		if s[l.pipelineID] == nil {
			s[l.pipelineID] = &share{weight: 1}
			ids = append(ids, l.pipelineID)
		}
	}
	slugs, err := d.jobs.Slugs(q, ids)
	if err != nil {
		return nil, err
	}
	for id, slug := range slugs {
		s[id].weight = fair.Weight(slug)
	}
	running, err := d.jobs.Running(q, queueID)
	for id, n := range running {
		if s[id] != nil {
			s[id].running = n
		}
	}
	return s, err
}
