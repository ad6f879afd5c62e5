package builds

import (
	"errors"
	"strconv"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/sourcehost"
)

const noBuild = "No build found"

const buildColumns = `
	SELECT b.id, b.organization_id, b.pipeline_id, b.cluster_id, b.number, b.branch, b.commit_name, b.source,
		b.state, b.tally, b.cancel_reason, b.triggered_by, b.root_build, b.rebuilt_from, b.created_at, b.scheduled_at, b.queue_place, b.started_at, b.failing_at, b.finished_at,
		d.message, d.tag, d.env, d.pipeline_env, d.author, d.pull_request, d.source_event, d.clean_checkout,
		CASE WHEN rp.id IS NOT NULL THEN rb.id END, COALESCE(rb.number, 0), rp.slug,
		CASE WHEN tp.id IS NOT NULL THEN tb.id END, COALESCE(tb.number, 0), tp.slug, ` + identity.UserColumns

// fromBuilds selects builds of pipelines that are not deleted. PostgreSQL reorders only the first eight tables,
// so those with conditions come first.
const fromBuilds = `
	FROM builds b
	JOIN pipelines p ON p.id = b.pipeline_id AND p.deleted_at IS NULL`

// buildJoins are the joins that buildColumns need besides builds b.
const buildJoins = `
	JOIN build_details d ON d.build_id = b.id
	LEFT JOIN users u ON u.id = b.creator_id
	LEFT JOIN builds rb ON rb.id = b.rebuilt_from
	LEFT JOIN pipelines rp ON rp.id = rb.pipeline_id AND rp.deleted_at IS NULL
	LEFT JOIN jobs tj ON tj.id = b.triggered_by
	LEFT JOIN builds tb ON tb.id = tj.build_id
	LEFT JOIN pipelines tp ON tp.id = tb.pipeline_id AND tp.deleted_at IS NULL`

const selectBuild = buildColumns + fromBuilds + buildJoins

func scanBuild(scan db.Scan) (*Build, error) {
	b := &Build{}
	var creator identity.User
	err := scan(append([]any{
		&b.ID, &b.OrganizationID, &b.PipelineID, db.ToText(&b.ClusterID), &b.Number, &b.Branch, &b.Commit, &b.Source,
		&b.State, db.ToJSON(&b.Counts), db.ToText(&b.CancelReason), db.ToText(&b.TriggeredBy), db.ToText(&b.Root), db.ToText(&b.RebuiltFrom), db.ToTime(&b.CreatedAt), db.ToTime(&b.ScheduledAt), &b.QueuePlace, db.ToTime(&b.StartedAt), db.ToTime(&b.FailingAt), db.ToTime(&b.FinishedAt),
		db.ToText(&b.Message), db.ToText(&b.Tag), db.ToJSON(&b.Env), db.ToJSON(&b.PipelineEnv), db.ToJSON(&b.Author), db.ToJSON(&b.PullRequest), db.ToJSON(&b.SourceEvent), &b.CleanCheckout,
		db.ToText(&b.rebuiltFrom.ID), &b.rebuiltFrom.Number, db.ToText(&b.rebuiltFrom.Slug),
		db.ToText(&b.triggeredFrom.ID), &b.triggeredFrom.Number, db.ToText(&b.triggeredFrom.Slug),
	}, identity.UserDest(&creator)...)...)
	b.Creator = creator.OrNil()
	if pr := b.PullRequest; pr != nil { // older ones were stored with credentials
		pr.Repository = sourcehost.WithoutCredentials(pr.Repository)
	}
	return b, err
}

// ByID returns a build of an organization, or a NotFound error.
func ByID(q *db.Q, orgID, id string) (*Build, error) {
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.id = $2`, orgID, id)
}

// lockedByID is ByID with a row lock, which is held until the end of the transaction.
func lockedByID(q *db.Q, orgID, id string) (*Build, error) {
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.id = $2`+q.Locking("b"), orgID, id)
}

// byName returns a build of a pipeline by its number or id, or a NotFound error.
func byName(q *db.Q, orgID, pipelineID, name string) (*Build, error) {
	if id, ok := core.ParseID(name); ok {
		return oneBuild(q, `WHERE b.organization_id = $1 AND b.pipeline_id = $2 AND b.id = $3`, orgID, pipelineID, id)
	}
	number, err := strconv.ParseInt(name, 10, 63)
	if err != nil {
		return nil, core.Errorf(core.NotFound, noBuild)
	}
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.pipeline_id = $2 AND b.number = $3`, orgID, pipelineID, number)
}

// byOrigin returns the build of a pipeline that was created for an origin, or a NotFound error.
func byOrigin(q *db.Q, orgID, pipelineID, origin string) (*Build, error) {
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.pipeline_id = $2 AND b.origin = $3`, orgID, pipelineID, origin)
}

func oneBuild(q *db.Q, where string, args ...any) (*Build, error) {
	b, err := db.One(q, scanBuild, selectBuild+"\n\t"+where, args...)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, noBuild)
	}
	return b, err
}

// linkTo returns the link to a build, the zero Link when the build does not exist or id is empty.
func linkTo(q *db.Q, orgID, id string) (l Link, err error) {
	if id == "" {
		return l, nil
	}
	err = q.QueryRow(`
		SELECT b.id, b.number, p.slug FROM builds b JOIN pipelines p ON p.id = b.pipeline_id AND p.deleted_at IS NULL
		WHERE b.organization_id = $1 AND b.id = $2`, orgID, id).Scan(&l.ID, &l.Number, &l.Slug)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return l, err
}

// linkToBuildOf returns the link to the build of a job, like linkTo.
func linkToBuildOf(q *db.Q, orgID, jobID string) (Link, error) {
	if jobID == "" {
		return Link{}, nil
	}
	buildID, err := BuildIDOf(q, orgID, jobID)
	if core.KindOf(err) == core.NotFound {
		return Link{}, nil
	}
	if err != nil {
		return Link{}, err
	}
	return linkTo(q, orgID, buildID)
}

// organization returns an organization, or a NotFound error.
func organization(q *db.Q, id string) (*identity.Organization, error) {
	found, _, err := identity.OrganizationsByID(q, []string{id}, 1, 0)
	if err == nil && len(found) == 0 {
		err = core.Errorf(core.NotFound, "No organization found")
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// nextNumber returns the number of a pipeline's next build, and locks it until the end of the transaction.
func nextNumber(q *db.Q, pipelineID string) (n int, err error) {
	err = q.QueryRow(`
		INSERT INTO build_numbers (pipeline_id, newest) VALUES ($1, 1)
		ON CONFLICT (pipeline_id) DO UPDATE SET newest = build_numbers.newest + 1
		RETURNING newest`, pipelineID).Scan(&n)
	return n, err
}

// insertBuild adds a build without jobs.
func insertBuild(q *db.Q, b *Build, origin string) error {
	_, err := q.Exec(`
		INSERT INTO builds (id, organization_id, pipeline_id, cluster_id, number, branch, commit_name, source, creator_id,
			state, tally, waiting_jobs, scheduled_jobs, running_jobs, triggered_by, root_build, rebuilt_from, created_at, scheduled_at, queue_place, origin)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, 0, 0, $12, $13, $14, $15, $16, $17, $18)`,
		b.ID, b.OrganizationID, b.PipelineID, db.Text(b.ClusterID), b.Number, b.Branch, b.Commit, b.Source, b.Creator.IDOrNull(),
		b.State, db.JSON(b.Counts), db.Text(b.TriggeredBy), db.Text(b.Root), db.Text(b.RebuiltFrom), db.Micros(b.CreatedAt), db.Micros(b.ScheduledAt), b.QueuePlace, db.Text(origin))
	if err != nil {
		return err
	}
	_, err = q.Exec(`
		INSERT INTO build_details (build_id, message, tag, env, pipeline_env, author, pull_request, clean_checkout, source_event)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		b.ID, db.Text(b.Message), db.Text(b.Tag), db.JSON(orEmpty(b.Env)), db.JSON(orEmpty(b.PipelineEnv)),
		db.JSON(b.Author), db.JSON(b.PullRequest), b.CleanCheckout, db.JSON(b.SourceEvent))
	return err
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
