package dispatch

import (
	"stackyard/internal/db"
	"stackyard/internal/identity"
)

// Where an organization wants it, the pipelines of a queue take turns: the next job is of the pipeline
// that has the fewest jobs in the hands of agents for its weight. What it costs to find it grows with the
// pipelines that have jobs waiting and the agents that are busy, and not with the jobs.

// maxShared bounds the jobs of all pipelines together that one look reads of a set of rules, and minShared
// those of each that it reads nevertheless.
const maxShared, minShared = 2_000, 4

// shares are how much pipelines have, by their ids. Nil is where they do not take turns.
type shares map[string]*share

type share struct{ running, weight int }

// add notes one more job of a pipeline.
func (s shares) add(pipelineID string) {
	if had := s[pipelineID]; had != nil {
		had.running++
	}
}

// less reports whether a pipeline has less for its weight than another.
func (s *share) less(other *share) bool { return s.running*other.weight < other.running*s.weight }

// byPipeline returns the lanes of all pipelines that have jobs in lanes of a queue.
func byPipeline(q *db.Q, queueID string, lanes []lane) ([]lane, error) {
	var own []lane
	for _, l := range lanes {
		pipelines, err := db.All(q, func(scan db.Scan) (id string, err error) { return id, scan(&id) }, pipelinesText, queueID, l.set)
		if err != nil {
			return nil, err
		}
		for _, id := range pipelines {
			wanted := min(l.wanted, max(maxShared/len(pipelines), minShared))
			own = append(own, lane{set: l.set, pipelineID: id, wanted: wanted})
		}
	}
	return own, nil
}

// pipelinesText finds the pipelines that have jobs with a set of rules in a queue. One index entry is
// read for each.
const pipelinesText = `
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

// sharesOf returns how much the pipelines of lanes have of the agents of a queue.
func sharesOf(q *db.Q, queueID string, fair identity.FairShare, lanes []lane) (shares, error) {
	s := shares{}
	var ids []string
	for _, l := range lanes {
		if s[l.pipelineID] == nil {
			s[l.pipelineID] = &share{weight: 1}
			ids = append(ids, l.pipelineID)
		}
	}
	in, arg := q.In("id", 1, ids)
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id, slug string
		if err = scan(&id, &slug); err == nil {
			s[id].weight = fair.Weight(slug)
		}
		return none, err
	}, `SELECT id, slug FROM pipelines WHERE `+in, arg)
	if err != nil {
		return nil, err
	}
	_, err = db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var running int
		if err = scan(&id, &running); err == nil && s[id] != nil {
			s[id].running = running
		}
		return none, err
	}, `
		SELECT b.pipeline_id, COUNT(*) FROM jobs j JOIN builds b ON b.id = j.build_id
		WHERE j.queue_id = $1 AND j.agent_id IS NOT NULL AND j.state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out')
		GROUP BY b.pipeline_id`, queueID)
	return s, err
}
