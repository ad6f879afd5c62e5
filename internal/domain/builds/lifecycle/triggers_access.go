package lifecycle

import (
	"errors"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusterrules"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// maxTriggerDepth bounds the length of a chain of triggers.
const maxTriggerDepth = 10

// target returns the pipeline that a trigger job builds, or an error for people. In an organization with teams,
// the creator of the build needs access to the pipeline. A pipeline of another cluster needs a rule. The chain
// of triggers has a maximum length.
func (t *trigger) target(q *db.Q) (*pipelines.Pipeline, error) {
	org, err := identity.OrganizationByID(q, t.from.OrganizationID)
	if err != nil {
		return nil, err
	}
	p, err := t.accessible(q, org)
	if err != nil {
		return nil, err
	}
	if err := t.checkRule(q, p); err != nil {
		return nil, err
	}
	if t.from.MarkedFork() && !p.Flag(pipelines.BuildForks) {
		return nil, core.Errorf(core.Unprocessable, "A build from a fork can trigger only pipelines that build forks; %s of the pipeline %q is off", pipelines.BuildForks, p.Slug)
	}
	depth, err := triggerDepth(q, t.from)
	if err == nil && depth >= maxTriggerDepth {
		err = core.Errorf(core.Unprocessable, "A chain of builds can have at most %d triggers", maxTriggerDepth)
	}
	return p, err
}

// accessible returns the pipeline of the trigger job if the teams of the build's creator can build it. A build
// without a creator, for example of a push by an unknown user, needs one team that has both pipelines.
func (t *trigger) accessible(q *db.Q, org *identity.Organization) (*pipelines.Pipeline, error) {
	slug, maker := t.job.Work.Trigger.Pipeline, t.from.Creator
	viewer, err := pipelines.System(org.ID), error(nil)
	if org.Features.Teams && maker != nil {
		viewer, err = pipelines.ViewerAs(q, org, *maker)
	}
	if err != nil {
		return nil, err
	}
	p, err := pipelines.BySlug(q, viewer, slug)
	switch {
	case core.KindOf(err) == core.NotFound && viewer.ManagesAll():
		return nil, core.Errorf(core.Unprocessable, "There is no pipeline %q in the organization", slug)
	case core.KindOf(err) == core.NotFound:
		return nil, core.Errorf(core.Unprocessable, "There is no pipeline %q that %s, who created this build, has access to", slug, maker.Name)
	case err != nil:
		return nil, err
	case !p.Permits(nil, identity.BuildPipeline):
		return nil, core.Errorf(core.Unprocessable, "%s, who created this build, cannot build the pipeline %q", maker.Name, slug)
	case !org.Features.Teams || maker != nil:
		return p, nil
	}
	together, err := pipelines.BuiltTogether(q, org.ID, t.from.PipelineID, p.ID)
	if err == nil && !together {
		err = core.Errorf(core.Unprocessable, "This build has no known creator, and no team can build both its pipeline and the pipeline %q", slug)
	}
	return p, err
}

// checkRule returns an error if the pipeline is in another cluster and no rule allows the trigger.
func (t *trigger) checkRule(q *db.Q, target *pipelines.Pipeline) error {
	if target.ClusterID == "" || t.from.ClusterID == "" || target.ClusterID == t.from.ClusterID {
		return nil
	}
	ok, err := clusterrules.Allows(q, t.from.OrganizationID, clusterrules.TriggerBuild, t.from.PipelineID, target.ID)
	if err == nil && !ok {
		err = core.Errorf(core.Unprocessable, "The pipeline %q is in another cluster, and no rule lets this pipeline trigger it", target.Slug)
	}
	return err
}

// triggerDepth returns the number of builds in the chain of triggers before a build.
func triggerDepth(q *db.Q, b *builds.Build) (depth int, err error) {
	for by := b.TriggeredBy; by != "" && depth < maxTriggerDepth; depth++ {
		err := q.QueryRow(`
			SELECT b.triggered_by FROM jobs j JOIN builds b ON b.id = j.build_id
			WHERE j.organization_id = $1 AND j.id = $2`, b.OrganizationID, by).Scan(db.ToText(&by))
		if errors.Is(err, db.ErrNoRows) {
			return depth + 1, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return depth, nil
}

// checkDescendants returns an error if the root of a chain of triggers has as many descendants as the
// organization allows. A build of the same trigger job, created before a crash, does not count.
func (d *Draft) checkDescendants(q *db.Q) error {
	root := d.requested.Root
	if root == "" {
		return nil
	}
	if err := q.LockName("descendants of build " + root); err != nil {
		return err
	}
	var made int
	err := q.QueryRow(`SELECT COUNT(*) FROM builds WHERE root_build = $1 AND triggered_by <> $2`, root, d.requested.TriggeredBy).Scan(&made)
	if most := quotas.Of(d.org).TriggeredBuilds; err == nil && made >= most {
		err = core.Errorf(core.Unprocessable, "The build that started this chain of triggers has %d descendants, the limit of the organization", made)
	}
	return err
}
