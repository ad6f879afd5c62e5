package buildapi

import (
	"net/http"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/jobusage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) jobRoutes() []route.Route {
	routes := []route.Route{{
		Method: http.MethodGet, Path: builds.BuildPath + "/jobs", Summary: "List the jobs of a build",
		Description: "In the order of the steps; attempts of a job in the order they were made.",
		Permission:  identity.ReadPipeline, Visitors: true,
		Query: append([]route.Param{
			{Name: "state[]", Type: "array", Doc: "The states of the jobs to list; all unless given."},
			{Name: "include_retried_jobs", Type: "boolean", Doc: "Whether to list all attempts of jobs, not only the latest; true unless given."},
			{Name: "step_key", Doc: "The key of the step whose jobs are listed."},
			{Name: "group_key", Doc: "The key of the group whose steps' jobs are listed."},
		}, route.CursorParams...),
		Handler: route.On(s.builds.LoadOnBuild, s.getJobs),
	}}
	for _, path := range builds.JobPaths {
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
		Handler: route.On(s.builds.LoadOnJob, s.getEnv),
	}
	envText := env
	envText.Path, envText.Summary = path+"/env.txt", "Get the environment of a job as plain text"
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Summary: "Get a job",
			Permission: identity.ReadPipeline, Visitors: true,
			Handler: route.On(s.builds.LoadOnJob, s.getJob),
		},
		env, envText,
		{
			Method: http.MethodPut, Path: path + "/retry", Summary: "Retry a job",
			Description: "Returns the new job. Each job can be retried once; to retry again, retry the new one.",
			Errors:      []int{http.StatusBadRequest, http.StatusUnprocessableEntity},
			Handler:     route.OnBody(s.builds.LoadOnJob, s.putRetry),
		},
		{
			Method: http.MethodPut, Path: path + "/reprioritize", Summary: "Change the priority of a job",
			Handler: route.OnBody(s.builds.LoadOnJob, s.putReprioritize),
		},
		{
			Method: http.MethodPut, Path: path + "/unblock", Summary: "Unblock a job",
			Description: "The values of the step's fields become meta-data of the build.",
			Permission:  identity.UnblockJob,
			Handler:     route.OnBody(s.builds.LoadOnJob, s.putUnblock),
		},
		{
			Method: http.MethodPut, Path: path + "/cancel", Summary: "Cancel a job",
			Errors:  unprocessable,
			Handler: route.On(s.builds.LoadOnJob, s.putCancelJob),
		},
	}
}

func (s *Service) getJobs(r *route.Request, o builds.OnBuild) (route.Items[JobView], error) {
	none := route.Items[JobView]{}
	page, err := r.CursorPage("jobs of "+o.Build.ID, 2)
	if err != nil {
		return none, err
	}
	f := builds.JobFilter{Promised: r.Org.Features.EarlyFailures, StepKey: r.QueryText("step_key"), GroupKey: r.QueryText("group_key")}
	if f.States, err = r.QueryList("state"); err != nil {
		return none, err
	}
	if err := builds.CheckJobStates(f.States); err != nil {
		return none, err
	}
	if f.Retried, err = r.Flag("include_retried_jobs", true); err != nil {
		return none, err
	}
	var jobs []*builds.Job
	var used map[string]*jobusage.Usage
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if o.Pipeline.Visited() && f.Hidden() {
			return nil
		}
		if jobs, err = builds.ListJobs(q, o.Build.ID, f, page); err != nil {
			return err
		}
		ids := make([]string, len(jobs))
		for i, j := range jobs {
			ids[i] = j.ID
		}
		if used, err = jobusage.Of(q, ids...); err != nil {
			return err
		}
		return s.builds.FillAgentNames(q, r.Org.ID, jobs...)
	})
	if err != nil {
		return none, err
	}
	return route.ItemsOf(r, page, jobs,
		func(j *builds.Job) core.Cursor { return core.Cursor{j.Position, j.ID} },
		func(j *builds.Job) JobView { return s.jobView(r, o.Pipeline, o.Build, j).using(used[j.ID]) }), nil
}

func (s *Service) getJob(r *route.Request, o builds.OnJob) (JobView, error) {
	used, err := s.builds.Usage(r.Context(), o.ID)
	return s.jobView(r, o.Pipeline, o.Build, o.Job).using(used), err
}

type jobEnvView struct {
	Env map[string]string `json:"env"`
}

func (s *Service) getEnv(r *route.Request, o builds.OnJob) (route.OrText[jobEnvView], error) {
	env := s.builds.Environment(r.Org, o.Pipeline, o.Build, o.Job)
	return route.OrText[jobEnvView]{JSON: jobEnvView{env}, Text: builds.EnvText(env), PlainText: r.WantsText()}, nil
}
