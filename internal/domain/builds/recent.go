package builds

import (
	"context"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// Recent returns a page of a pipeline's builds, newest first, of one branch unless that is empty, and
// whether there are more.
func (s *Service) Recent(ctx context.Context, p *pipelines.Pipeline, branch string, page route.Page) (list []*Build, more bool, err error) {
	if page.Offset() > maxOffset {
		return nil, false, core.Errorf(core.BadRequest, "Pages reach %d builds back", maxOffset)
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		var where db.Statement
		where.Where("b.organization_id = %s AND b.pipeline_id = %s", p.OrganizationID, p.ID)
		if branch != "" {
			where.Where("b.branch = %s", branch)
		}
		list, err = listBuilds(q, &where, newestOfPipeline, page.More(), page.Offset())
		return err
	})
	return list[:min(len(list), page.Size)], len(list) > page.Size, err
}

// Newest returns the newest build of each of some pipelines of an organization, by pipeline, as far as
// they have any.
func (s *Service) Newest(ctx context.Context, orgID string, pipelineIDs []string) (map[string]*Build, error) {
	newest := make(map[string]*Build, len(pipelineIDs))
	if len(pipelineIDs) == 0 {
		return newest, nil
	}
	err := s.db.Read(ctx, func(q *db.Q) error {
		in, arg := q.In("n.pipeline_id", 2, pipelineIDs)
		list, err := db.All(q, scanBuild, selectBuild+`
	JOIN build_numbers n ON n.pipeline_id = b.pipeline_id AND n.newest = b.number
	WHERE b.organization_id = $1 AND `+in, orgID, arg)
		for _, b := range list {
			newest[b.PipelineID] = b
		}
		return err
	})
	return newest, err
}

// Ask makes a build that the request's caller asks for on a page.
func (s *Service) Ask(r *route.Request, p *pipelines.Pipeline, commit, branch, message string) (*Build, error) {
	c, err := (&buildCreate{Commit: commit, Branch: branch, Message: message}).creation(r)
	if err != nil {
		return nil, err
	}
	c.Source = FromUI
	return s.Create(r.Context(), p, c)
}
