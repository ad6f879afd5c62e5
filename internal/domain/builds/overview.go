package builds

import (
	"context"
	"slices"
	"time"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A Glance is the little that a list of pipelines shows of a build.
type Glance struct {
	Number                int
	State                 flow.BuildState
	Branch                string
	StartedAt, FinishedAt time.Time // zero: not yet
}

// An Overview is how a pipeline does.
type Overview struct {
	Recent        []Glance // up to RecentGlances, oldest first
	DefaultBranch *Glance  // the newest build of the default branch; nil: none
}

// RecentGlances is how many builds an Overview has.
const RecentGlances = 12

// Overviews returns how pipelines do, by id. Two statements read a bounded number of rows for each pipeline.
func (s *Reader) Overviews(ctx context.Context, orgID string, pipelineIDs []string) (map[string]*Overview, error) {
	all := make(map[string]*Overview, len(pipelineIDs))
	for _, id := range pipelineIDs {
		all[id] = &Overview{}
	}
	if len(pipelineIDs) == 0 {
		return all, nil
	}
	scanGlance := func(scan db.Scan, add func(o *Overview, g Glance)) error {
		var id string
		var g Glance
		err := scan(&id, &g.Number, &g.State, &g.Branch, db.ToTime(&g.StartedAt), db.ToTime(&g.FinishedAt))
		if o := all[id]; o != nil && err == nil {
			add(o, g)
		}
		return err
	}
	const columns = `SELECT b.pipeline_id, b.number, b.state, b.branch, b.started_at, b.finished_at`
	err := s.db.Read(ctx, func(q *db.Q) error {
		in, arg := q.In("n.pipeline_id", 3, pipelineIDs)
		err := db.Each(q, func(scan db.Scan) error {
			return scanGlance(scan, func(o *Overview, g Glance) { o.Recent = append(o.Recent, g) })
		}, columns+`
			FROM build_numbers n
			JOIN builds b ON b.pipeline_id = n.pipeline_id AND b.number > n.newest - $2
			WHERE b.organization_id = $1 AND `+in, orgID, RecentGlances, arg)
		if err != nil {
			return err
		}
		in, arg = q.In("p.id", 2, pipelineIDs)
		return db.Each(q, func(scan db.Scan) error {
			return scanGlance(scan, func(o *Overview, g Glance) { o.DefaultBranch = &g })
		}, columns+`
			FROM pipelines p
			JOIN builds b ON b.pipeline_id = p.id AND b.branch = p.default_branch AND b.number =
				(SELECT MAX(m.number) FROM builds m WHERE m.pipeline_id = p.id AND m.branch = p.default_branch)
			WHERE p.organization_id = $1 AND `+in, orgID, arg)
	})
	for _, o := range all {
		slices.SortFunc(o.Recent, func(a, b Glance) int { return a.Number - b.Number })
	}
	return all, err
}

// Listed returns a page of a pipeline's builds that match a filter, newest first, and whether there are more.
func (s *Reader) Listed(ctx context.Context, p *pipelines.Pipeline, f Filter, limit, offset int) (found []*Build, more bool, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		found, err = ListOfPipeline(q, p, f, limit+1, offset)
		return err
	})
	return found[:min(len(found), limit)], len(found) > limit, err
}
