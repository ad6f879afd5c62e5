package builds

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

func (s *Service) actionRoutes() []route.Route {
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{
			Method: http.MethodPut, Path: BuildPath + "/cancel", Summary: "Cancel a build",
			Description: "Jobs that agents run are canceled as soon as they have stopped.",
			Errors:      unprocessable, Handler: route.On(s.loadBuild, s.putCancel),
		},
		{
			Method: http.MethodPut, Path: BuildPath + "/rebuild", Summary: "Rebuild a build",
			Description: "Makes a new build with the same commit, branch, message, environment and pull request, and answers with it.",
			Errors:      unprocessable, Handler: route.On(s.loadBuild, s.putRebuild),
		},
		{
			Method: http.MethodPut, Path: BuildPath + "/retry_failed_jobs", Summary: "Retry the failed jobs of a build",
			Status: http.StatusAccepted, Handler: route.OnBody(s.loadBuild, s.putRetryFailedJobs),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Scope, routes[i].Permission = "Builds", identity.WriteBuilds, identity.BuildPipeline
	}
	return routes
}

// viewNow returns a build as it is now, and with it the counts of its pipeline.
func (s *Service) viewNow(r *route.Request, p *pipelines.Pipeline, id string, show shown) (shownBuildView, error) {
	var b *Build
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if b, err = byID(q, r.Org.ID, id); err != nil {
			return err
		}
		p, err = pipelines.ByID(q, pipelines.ViewerOf(r), p.ID)
		return err
	})
	if err != nil {
		return shownBuildView{}, err
	}
	return s.oneView(r, p, b, show)
}

func (s *Service) putCancel(r *route.Request, o OnBuild) (shownBuildView, error) {
	if err := s.Cancel(r.Context(), r.Org.ID, o.Build.ID, ""); err != nil {
		return shownBuildView{}, err
	}
	return s.viewNow(r, o.Pipeline, o.Build.ID, withAll)
}

// Cancel cancels a build, for a reason that may be empty.
func (s *Service) Cancel(ctx context.Context, orgID, buildID, reason string) error {
	return s.change(ctx, orgID, buildID, func(u *unit) error { return u.cancel(reason) })
}

// State returns the state of a build, or a NotFound error.
func (s *Service) State(ctx context.Context, orgID, buildID string) (state flow.BuildState, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		b, err := byID(q, orgID, buildID)
		if err == nil {
			state = b.State
		}
		return err
	})
	return state, err
}

func (s *Service) putRebuild(r *route.Request, o OnBuild) (shownBuildView, error) {
	rebuilt, err := s.Rebuild(r.Context(), o, FromAPI, &r.Caller.User)
	if err != nil {
		return shownBuildView{}, err
	}
	return s.viewNow(r, o.Pipeline, rebuilt.ID, withAll)
}

// Rebuild makes a new build of what another was asked to be.
func (s *Service) Rebuild(ctx context.Context, o OnBuild, source Source, by *identity.User) (*Build, error) {
	if !o.Pipeline.AllowRebuilds {
		return nil, core.Errorf(core.Unprocessable, "This pipeline does not allow rebuilds")
	}
	return s.Create(ctx, o.Pipeline, Creation{
		Commit:              o.Commit,
		Branch:              o.Branch,
		Source:              source,
		Creator:             by,
		IgnoreBranchFilters: true, // it was built before
		RebuiltFrom:         o.ID,
		Details:             o.Details,
	})
}

type buildRetryFailedJobs struct {
	States string `json:"states" doc:"Which jobs to retry, separated by commas: canceled, expired, failed, soft_failed, timed_out. All of them unless given."`
}

// retryableStates say for each word which jobs it stands for.
var retryableStates = map[string]func(*flow.Job) bool{
	"canceled":    func(j *flow.Job) bool { return j.State == flow.Canceled },
	"expired":     func(j *flow.Job) bool { return j.State == flow.Expired },
	"failed":      func(j *flow.Job) bool { return j.State == flow.Finished && !j.Passed() && !j.SoftFailed },
	"soft_failed": func(j *flow.Job) bool { return j.State == flow.Finished && j.SoftFailed },
	"timed_out":   func(j *flow.Job) bool { return j.State == flow.TimedOut },
}

func (b buildRetryFailedJobs) wanted() ([]func(*flow.Job) bool, error) {
	known := keys(retryableStates)
	slices.Sort(known)
	words := strings.FieldsFunc(b.States, func(r rune) bool { return r == ',' || r == ' ' })
	if len(words) == 0 {
		words = known
	}
	var wanted []func(*flow.Job) bool
	var invalid []string
	for _, word := range words {
		if is, ok := retryableStates[strings.ToLower(word)]; ok {
			wanted = append(wanted, is)
		} else {
			invalid = append(invalid, word)
		}
	}
	if len(invalid) > 0 {
		return nil, core.Errorf(core.BadRequest, "Invalid states: %s. Valid states are: %s", strings.Join(invalid, ", "), strings.Join(known, ", "))
	}
	return wanted, nil
}

func (s *Service) putRetryFailedJobs(r *route.Request, o OnBuild, body buildRetryFailedJobs) (shownBuildView, error) {
	wanted, err := body.wanted()
	if err != nil {
		return shownBuildView{}, err
	}
	retried, err := s.retryFailedJobs(r.Context(), o.Build, wanted, &r.Caller.User)
	if err != nil {
		return shownBuildView{}, err
	}
	show := withAll
	show.retriedJobsCount = &retried
	return s.viewNow(r, o.Pipeline, o.Build.ID, show)
}

// RetryFailed retries all jobs of a build that ended without passing, and returns how many. Jobs whose
// steps do not allow it are left as they are.
func (s *Service) RetryFailed(ctx context.Context, b *Build, by *identity.User) (int, error) {
	wanted, err := buildRetryFailedJobs{}.wanted()
	if err != nil {
		return 0, err
	}
	return s.retryFailedJobs(ctx, b, wanted, by)
}

// retryFailedJobs retries the jobs of a build that ended in one of the ways, and returns how many. Jobs
// whose steps do not allow it are left as they are.
func (s *Service) retryFailedJobs(ctx context.Context, b *Build, wanted []func(*flow.Job) bool, by *identity.User) (retried int, err error) {
	err = s.change(ctx, b.OrganizationID, b.ID, func(u *unit) error {
		if err := u.checkMutable(); err != nil {
			return err
		}
		jobs, err := failedJobs(u.q, b.ID)
		if err != nil {
			return err
		}
		retried = 0
		for _, j := range jobs {
			if !slices.ContainsFunc(wanted, func(is func(*flow.Job) bool) bool { return is(j) }) {
				continue
			}
			_, err := u.retry(j.ID, by)
			if core.KindOf(err) == core.Unprocessable && !strings.HasPrefix(err.Error(), "Jobs from") {
				continue // its step does not allow it
			}
			if err != nil {
				return err
			}
			retried++
		}
		return nil
	})
	return retried, err
}

// failedJobs returns the newest attempts of a build's jobs that ended without passing.
func failedJobs(q *db.Q, buildID string) ([]*flow.Job, error) {
	return db.All(q, scanFlowJob, `SELECT`+flowJobColumns+`
		FROM jobs j
		WHERE j.build_id = $1 AND NOT j.retried AND j.type IN ('script', 'trigger')
			AND (j.state IN ('canceled', 'expired', 'timed_out') OR j.state = 'finished' AND j.exit_status <> 0)
		ORDER BY j.position, j.id`, buildID)
}
