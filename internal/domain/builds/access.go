package builds

import (
	"context"
	"slices"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// The paths of routes about builds.
const (
	OrgPath   = "/v2/organizations/{org}"
	ListPath  = OrgPath + "/pipelines/{pipeline}/builds"
	BuildPath = ListPath + "/{build}"
)

// JobPaths are the two forms of a job's path. Both behave the same.
var JobPaths = []string{BuildPath + "/jobs/{job}", OrgPath + "/jobs/{job}"}

// OnBuild is a build with its pipeline, which decides who can see and change the build.
type OnBuild struct {
	*Build
	Pipeline *pipelines.Pipeline
}

// Permits reports whether the request's caller has a permission on the build.
func (o OnBuild) Permits(r *route.Request, p identity.Permission) bool {
	return o.Pipeline.Permits(r, p)
}

// LoadOnBuild returns the build of a request whose path has {org}, {pipeline} and {build}, or a NotFound error when
// the caller cannot see it.
func (s *Reader) LoadOnBuild(r *route.Request) (OnBuild, error) {
	p, err := s.pipelines.Load(r)
	if err != nil {
		return OnBuild{}, err
	}
	o := OnBuild{Pipeline: p}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		o.Build, err = byName(q, r.Org.ID, p.ID, r.PathValue("build"))
		return err
	})
	return o, err
}

// Refusal returns the message for callers who lack a permission.
func (o OnBuild) Refusal(p identity.Permission) string { return o.Pipeline.Refusal(p) }

// OnJob is a job with its build and its pipeline, which decides who can see and change the job.
type OnJob struct {
	*Job
	Build    *Build
	Pipeline *pipelines.Pipeline
}

// Permits reports whether the request's caller has a permission on the job. If a block step lists teams, only
// their members can unblock it, whatever access they have to the pipeline.
func (o OnJob) Permits(r *route.Request, p identity.Permission) bool {
	if p != identity.UnblockJob {
		return o.Pipeline.Permits(r, p)
	}
	if manual := o.Work.Manual; manual != nil && len(manual.AllowedTeams) > 0 {
		return inTeams(r.Member, manual.AllowedTeams)
	}
	return o.Pipeline.Permits(r, identity.BuildPipeline)
}

// Refusal returns the message for callers who lack a permission.
func (o OnJob) Refusal(p identity.Permission) string {
	if p == identity.UnblockJob {
		return "Forbidden: you may not unblock this job"
	}
	return o.Pipeline.Refusal(p)
}

// LoadJob is LoadOnJob for routes that need only the job.
func (s *Reader) LoadJob(r *route.Request) (*Job, error) {
	o, err := s.LoadOnJob(r)
	return o.Job, err
}

// LoadOnJob returns the job of a request whose path has one of the forms of [JobPaths], or a NotFound error when the
// caller cannot see it.
func (s *Reader) LoadOnJob(r *route.Request) (OnJob, error) {
	if r.PathValue("pipeline") != "" {
		return s.loadJobOfBuild(r)
	}
	id, err := r.PathID("job", noJob)
	if err != nil {
		return OnJob{}, err
	}
	var o OnJob
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Job, err = JobByID(q, r.Org.ID, id); err != nil {
			return err
		}
		if o.Build, err = ByID(q, r.Org.ID, o.Job.BuildID); err != nil {
			return err
		}
		if o.Pipeline, err = pipelines.ByID(q, pipelines.ViewerOf(r), o.Build.PipelineID); err != nil {
			return err
		}
		return s.FillAgentNames(q, r.Org.ID, o.Job)
	})
	if core.KindOf(err) == core.NotFound {
		err = core.Errorf(core.NotFound, noJob)
		if r.Member == nil { // callers who are no members do not learn that the organization exists
			err = core.Errorf(core.NotFound, "No organization found")
		}
	}
	return o, err
}

func (s *Reader) loadJobOfBuild(r *route.Request) (OnJob, error) {
	on, err := s.LoadOnBuild(r)
	if core.KindOf(err) == core.NotFound && r.Member != nil {
		err = core.Errorf(core.NotFound, noJob)
	}
	if err != nil {
		return OnJob{}, err
	}
	id, err := r.PathID("job", noJob)
	if err != nil {
		return OnJob{}, err
	}
	o := OnJob{Build: on.Build, Pipeline: on.Pipeline}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Job, err = JobByID(q, r.Org.ID, id); err != nil {
			return err
		}
		return s.FillAgentNames(q, r.Org.ID, o.Job)
	})
	if err == nil && o.Job.BuildID != o.Build.ID {
		err = core.Errorf(core.NotFound, noJob)
	}
	return o, err
}

// inTeams reports whether a member is in one of the teams, given by slug or id.
func inTeams(m *identity.Membership, teams []string) bool {
	return m != nil && slices.ContainsFunc(m.Teams, func(t identity.TeamMembership) bool {
		return slices.Contains(teams, t.Slug) || slices.Contains(teams, t.TeamID)
	})
}

// State returns the state of a build, or a NotFound error.
func (s *Reader) State(ctx context.Context, orgID, buildID string) (state flow.BuildState, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		b, err := ByID(q, orgID, buildID)
		if err == nil {
			state = b.State
		}
		return err
	})
	return state, err
}
