package builds

import (
	"context"
	"errors"
	"strings"

	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// Builds are listed newest first: within a pipeline by number, which follows the order of creation exactly.
var (
	newestOfPipeline = order{by: `b.number DESC`}
	newestOfAll      = order{by: `b.created_at DESC, b.id DESC`}
)

// maxOffset bounds the offset of pages: the cost of a page grows with it.
const maxOffset = 50_000

// CheckOffset returns a BadRequest error for a page that is too far back in a list of builds. hint is appended to
// its text.
func CheckOffset(page route.Page, hint string) error {
	if page.Offset() > maxOffset {
		return core.Errorf(core.BadRequest, "Pages reach %d builds back%s", maxOffset, hint)
	}
	return nil
}

// ListOfPipeline returns builds of a pipeline that match a filter, newest first.
func ListOfPipeline(q *db.Q, p *pipelines.Pipeline, f Filter, limit, offset int) ([]*Build, error) {
	var where db.Statement
	where.Where("b.organization_id = %s AND b.pipeline_id = %s", p.OrganizationID, p.ID)
	f.restrict(q, &where)
	order := f.orderWithMetaData(q, &where, metadata.Scope{Column: "pipeline_id", IDs: []string{p.ID}}, newestOfPipeline)
	return list(q, &where, order, limit, offset)
}

// A Visible is the part of an organization's builds that a caller can see.
type Visible struct {
	OrganizationID string
	PipelineIDs    []string
	All            bool // all pipelines; PipelineIDs is ignored
}

// ListVisible returns visible builds that match a filter, newest first.
func ListVisible(q *db.Q, visible []Visible, f Filter, limit, offset int) ([]*Build, error) {
	var where db.Statement
	either := "1 = 0"
	orgs := make([]string, len(visible))
	for i, v := range visible {
		orgs[i] = v.OrganizationID
		of := "b.organization_id = " + where.Arg(v.OrganizationID)
		if !v.All {
			of += " AND " + where.In(q, "b.pipeline_id", v.PipelineIDs)
		}
		either += " OR (" + of + ")"
	}
	if len(visible) == 1 {
		either = either[len("1 = 0 OR "):]
	}
	where.And("(" + either + ")")
	f.restrict(q, &where)
	order := f.orderWithMetaData(q, &where, metadata.Scope{Column: "organization_id", IDs: orgs}, newestOfAll)
	return list(q, &where, order, limit, offset)
}

// ByIDs returns builds of an organization, newest first.
func ByIDs(q *db.Q, orgID string, ids []string) ([]*Build, error) {
	var where db.Statement
	where.Where("b.organization_id = %s", orgID)
	where.WhereIn(q, "b.id", ids)
	return list(q, &where, newestOfAll, len(ids), 0)
}

func list(q *db.Q, s *db.Statement, o order, limit, offset int) ([]*Build, error) {
	return db.All(q, db.Within(route.Budget(limit, ""), scanBuild), buildColumns+fromBuilds+o.join+buildJoins+`
	`+s.Clause()+`
	ORDER BY `+o.by+`
	LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
}

// Recent returns a page of a pipeline's builds, newest first, of one branch unless that is empty, and whether there
// are more.
func (s *Reader) Recent(ctx context.Context, p *pipelines.Pipeline, branch string, page route.Page) (found []*Build, more bool, err error) {
	if err := CheckOffset(page, ""); err != nil {
		return nil, false, err
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		var where db.Statement
		where.Where("b.organization_id = %s AND b.pipeline_id = %s", p.OrganizationID, p.ID)
		if branch != "" {
			where.Where("b.branch = %s", branch)
		}
		found, err = list(q, &where, newestOfPipeline, page.More(), page.Offset())
		return err
	})
	return found[:min(len(found), page.Size)], len(found) > page.Size, err
}

// Newest returns the newest build of each pipeline that has one, by pipeline id.
func (s *Reader) Newest(ctx context.Context, orgID string, pipelineIDs []string) (map[string]*Build, error) {
	newest := make(map[string]*Build, len(pipelineIDs))
	if len(pipelineIDs) == 0 {
		return newest, nil
	}
	err := s.db.Read(ctx, func(q *db.Q) error {
		in, arg := q.In("n.pipeline_id", 2, pipelineIDs)
		found, err := db.All(q, scanBuild, selectBuild+`
	JOIN build_numbers n ON n.pipeline_id = b.pipeline_id AND n.newest = b.number
	WHERE b.organization_id = $1 AND `+in, orgID, arg)
		for _, b := range found {
			newest[b.PipelineID] = b
		}
		return err
	})
	return newest, err
}

// searchedBuilds is how many builds of a pipeline a search for branches looks at.
const searchedBuilds = 1000

// RecentBranches returns branches of a pipeline's newest builds that contain a text, the most recent first.
func RecentBranches(q *db.Q, pipelineID, text string, limit int) ([]string, error) {
	return db.Strings(q, `
		SELECT branch
		FROM (SELECT branch, number FROM builds WHERE pipeline_id = $1 ORDER BY number DESC LIMIT $2) newest
		WHERE LOWER(branch) LIKE $3 ESCAPE '\'
		GROUP BY branch
		ORDER BY MAX(number) DESC
		LIMIT $4`, pipelineID, searchedBuilds, "%"+db.Like(strings.ToLower(text))+"%", limit)
}

// Numbered returns the builds of pipelines with a number, by pipeline id.
func (s *Reader) Numbered(ctx context.Context, orgID string, pipelineIDs []string, number int) (map[string]*Build, error) {
	byPipeline := make(map[string]*Build, len(pipelineIDs))
	if len(pipelineIDs) == 0 {
		return byPipeline, nil
	}
	err := s.db.Read(ctx, func(q *db.Q) error {
		in, arg := q.In("b.pipeline_id", 3, pipelineIDs)
		found, err := db.All(q, scanBuild, selectBuild+`
	WHERE b.organization_id = $1 AND b.number = $2 AND `+in, orgID, number, arg)
		for _, b := range found {
			byPipeline[b.PipelineID] = b
		}
		return err
	})
	return byPipeline, err
}

// LastState returns the state of the last finished build of a branch, "" when there is none.
func LastState(q *db.Q, pipelineID, branch string) (flow.BuildState, error) {
	var state flow.BuildState
	err := q.QueryRow(`
		SELECT state FROM builds
		WHERE pipeline_id = $1 AND branch = $2 AND state IN ($3, $4, $5)
		ORDER BY number DESC
		LIMIT 1`, pipelineID, branch, flow.BuildPassed, flow.BuildFailed, flow.BuildCanceled).Scan(&state)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return state, err
}

// shortCommit is the length to which Bitbucket Cloud cuts the commits of pull requests.
const shortCommit = 12

// BuiltCommit returns the commit of a build of the pipeline that is the given one, or "". Either of them can be cut, so
// the result can be longer than what is given.
func BuiltCommit(q *db.Q, orgID, pipelineID, commit string) (found string, err error) {
	// "g" sorts after every digit of a SHA.
	err = q.QueryRow(`
		SELECT COALESCE(
			(SELECT MAX(commit_name) FROM builds WHERE organization_id = $1 AND commit_name >= $2 AND commit_name < $3 AND pipeline_id = $4),
			(SELECT MAX(commit_name) FROM builds WHERE organization_id = $1 AND commit_name = $5 AND pipeline_id = $4),
			'')`,
		orgID, commit, commit+"g", pipelineID, commit[:min(len(commit), shortCommit)]).Scan(&found)
	return found, err
}
