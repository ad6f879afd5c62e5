package builds

import (
	"net/http"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// JobPaths are the two forms of a job's path, which behave the same.
var JobPaths = []string{BuildPath + "/jobs/{job}", orgPath + "/jobs/{job}"}

func (s *Service) jobRoutes() []route.Route {
	routes := []route.Route{{
		Method: http.MethodGet, Path: BuildPath + "/jobs", Summary: "List the jobs of a build",
		Description: "In the order of the steps; attempts of a job in the order they were made.",
		Permission:  identity.ReadPipeline, Visitors: true,
		Query: append([]route.Param{
			{Name: "state[]", Type: "array", Doc: "The states of the jobs to list; all unless given."},
			{Name: "include_retried_jobs", Type: "boolean", Doc: "Whether to list all attempts of jobs, not only the latest; true unless given."},
			{Name: "step_key", Doc: "The key of the step whose jobs are listed."},
			{Name: "group_key", Doc: "The key of the group whose steps' jobs are listed."},
		}, route.CursorParams...),
		Handler: route.On(s.loadBuild, s.getJobs),
	}}
	for _, path := range JobPaths {
		routes = append(routes, s.oneJobRoutes(path)...)
	}
	for i := range routes {
		r := &routes[i]
		r.Tag = "Jobs"
		if r.Scope != "" {
			continue
		}
		r.Scope = identity.ReadBuilds
		if r.Method != http.MethodGet {
			r.Scope = identity.WriteBuilds
			if r.Permission == "" {
				r.Permission = identity.BuildPipeline
			}
		}
	}
	return routes
}

func (s *Service) oneJobRoutes(path string) []route.Route {
	unprocessable := []int{http.StatusUnprocessableEntity}
	env := route.Route{
		Method: http.MethodGet, Path: path + "/env", Summary: "Get the environment of a job",
		Description: "As plain text, one variable to a line, when the Accept header asks for text/plain or the path ends in .txt.",
		Scope:       identity.ReadJobEnv, Permission: identity.ReadPipeline,
		Handler: route.On(s.loadJob, s.getEnv),
	}
	envText := env
	envText.Path, envText.Summary = path+"/env.txt", "Get the environment of a job as plain text"
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Summary: "Get a job",
			Permission: identity.ReadPipeline, Visitors: true,
			Handler: route.On(s.loadJob, s.getJob),
		},
		env, envText,
		{
			Method: http.MethodPut, Path: path + "/retry", Summary: "Retry a job",
			Description: "Answers with the new job. Each job can be retried once; to retry again, retry the new one.",
			Errors:      []int{http.StatusBadRequest, http.StatusUnprocessableEntity},
			Handler:     route.On(s.loadJob, s.putRetry),
		},
		{
			Method: http.MethodPut, Path: path + "/reprioritize", Summary: "Change the priority of a job",
			Handler: route.OnBody(s.loadJob, s.putReprioritize),
		},
		{
			Method: http.MethodPut, Path: path + "/unblock", Summary: "Unblock a job",
			Description: "The values of the step's fields become meta-data of the build.",
			Permission:  identity.UnblockJob,
			Handler:     route.OnBody(s.loadJob, s.putUnblock),
		},
		{
			Method: http.MethodPut, Path: path + "/cancel", Summary: "Cancel a job",
			Errors:  unprocessable,
			Handler: route.On(s.loadJob, s.putCancelJob),
		},
	}
}

// OnJob is a job together with its build and pipeline, which decides who may see and change it.
type OnJob struct {
	*Job
	Build    *Build
	Pipeline *pipelines.Pipeline
}

// Permits reports whether the request's caller may do something to the job. Where a block step names
// teams, their members may unblock it, whatever access they have to the pipeline, and nobody else.
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

// LoadJob returns the job that the path of a route of another room names, for a caller who may see it.
func (s *Service) LoadJob(r *route.Request) (*Job, error) {
	o, err := s.loadJob(r)
	return o.Job, err
}

// LoadOnJob is LoadJob for routes whose permission is one on the job's pipeline. The path has one of the
// forms of [JobPaths].
func (s *Service) LoadOnJob(r *route.Request) (OnJob, error) { return s.loadJob(r) }

// loadJob returns the job that a path of either form names.
func (s *Service) loadJob(r *route.Request) (OnJob, error) {
	if r.PathValue("pipeline") != "" {
		return s.loadJobOfBuild(r)
	}
	id, err := r.PathID("job", noJob)
	if err != nil {
		return OnJob{}, err
	}
	var o OnJob
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Job, err = jobByID(q, r.Org.ID, id); err != nil {
			return err
		}
		if o.Build, err = byID(q, r.Org.ID, o.Job.BuildID); err != nil {
			return err
		}
		if o.Pipeline, err = pipelines.ByID(q, pipelines.ViewerOf(r), o.Build.PipelineID); err != nil {
			return err
		}
		return s.nameAgents(q, r.Org.ID, o.Job)
	})
	if core.KindOf(err) == core.NotFound {
		err = core.Errorf(core.NotFound, noJob)
		if r.Member == nil { // a stranger does not learn that there is such an organization
			err = core.Errorf(core.NotFound, "No organization found")
		}
	}
	return o, err
}

func (s *Service) loadJobOfBuild(r *route.Request) (OnJob, error) {
	on, err := s.loadBuild(r)
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
		if o.Job, err = jobByID(q, r.Org.ID, id); err != nil {
			return err
		}
		return s.nameAgents(q, r.Org.ID, o.Job)
	})
	if err == nil && o.Job.BuildID != o.Build.ID {
		err = core.Errorf(core.NotFound, noJob)
	}
	return o, err
}

func (s *Service) getJobs(r *route.Request, o OnBuild) (route.Items[jobView], error) {
	none := route.Items[jobView]{}
	page, err := r.CursorPage("jobs of "+o.Build.ID, 2)
	if err != nil {
		return none, err
	}
	f := jobFilter{promised: r.Org.Features.EarlyFailures, stepKey: r.QueryText("step_key"), groupKey: r.QueryText("group_key")}
	if f.states, err = r.QueryList("state"); err != nil {
		return none, err
	}
	if err := checkJobStates(f.states); err != nil {
		return none, err
	}
	if f.retried, err = r.Flag("include_retried_jobs", true); err != nil {
		return none, err
	}
	var jobs []*Job
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Pipeline.Visited() && f.hidden() {
			return nil
		}
		if jobs, err = listJobs(q, o.Build.ID, f, page); err != nil {
			return err
		}
		return s.nameAgents(q, r.Org.ID, jobs...)
	})
	if err != nil {
		return none, err
	}
	return route.ItemsOf(r, page, jobs,
		func(j *Job) core.Cursor { return core.Cursor{j.position, j.ID} },
		func(j *Job) jobView { return s.jobView(r, o.Pipeline, o.Build, j) }), nil
}

func (s *Service) getJob(r *route.Request, o OnJob) (jobView, error) {
	return s.jobView(r, o.Pipeline, o.Build, o.Job), nil
}

type jobEnvView struct {
	Env map[string]string `json:"env"`
}

func (s *Service) getEnv(r *route.Request, o OnJob) (route.OrText[jobEnvView], error) {
	env := s.Environment(r.Org, o.Pipeline, o.Build, o.Job)
	return route.OrText[jobEnvView]{JSON: jobEnvView{env}, Text: envText(env), PlainText: r.WantsText()}, nil
}
