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
		b.version, b.waiting_jobs, b.scheduled_jobs, b.running_jobs,
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
		&b.Version, &b.Jobs.WaitingJobs, &b.Jobs.ScheduledJobs, &b.Jobs.RunningJobs,
		db.ToText(&b.Message), db.ToText(&b.Tag), db.ToJSON(&b.Env), db.ToJSON(&b.PipelineEnv), db.ToJSON(&b.Author), db.ToJSON(&b.PullRequest), db.ToJSON(&b.SourceEvent), &b.CleanCheckout,
		db.ToText(&b.RebuiltBuild.ID), &b.RebuiltBuild.Number, db.ToText(&b.RebuiltBuild.Slug),
		db.ToText(&b.TriggeringBuild.ID), &b.TriggeringBuild.Number, db.ToText(&b.TriggeringBuild.Slug),
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

// LockedByID is ByID with a row lock, which is held until the end of the transaction.
func LockedByID(q *db.Q, orgID, id string) (*Build, error) {
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.id = $2`+q.Locking("b"), orgID, id)
}

// WithDeleted is ByID without the organization, and also returns builds of deleted pipelines.
func WithDeleted(q *db.Q, id string) (*Build, error) {
	return db.One(q, scanBuild, buildColumns+` FROM builds b`+buildJoins+` WHERE b.id = $1`, id)
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

// ByOrigin returns the build of a pipeline that was created for an origin, or a NotFound error.
func ByOrigin(q *db.Q, orgID, pipelineID, origin string) (*Build, error) {
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.pipeline_id = $2 AND b.origin = $3`, orgID, pipelineID, origin)
}

func oneBuild(q *db.Q, where string, args ...any) (*Build, error) {
	b, err := db.One(q, scanBuild, selectBuild+"\n\t"+where, args...)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, noBuild)
	}
	return b, err
}

// LinkTo returns the link to a build, the zero Link when the build does not exist or id is empty.
func LinkTo(q *db.Q, orgID, id string) (l Link, err error) {
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

// LinkToBuildOf returns the link to the build of a job, like linkTo.
func LinkToBuildOf(q *db.Q, orgID, jobID string) (Link, error) {
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
	return LinkTo(q, orgID, buildID)
}

// ChildOf returns the build that a trigger job started, or a NotFound error.
func ChildOf(q *db.Q, orgID, jobID string) (*Build, error) {
	return oneBuild(q, `WHERE b.organization_id = $1 AND b.triggered_by = $2`, orgID, jobID)
}
