package lifecycle

import (
	"context"

	"stackyard/internal/domain/builds"
)

// AcceptJob is Accept and returns the job and its build as they are then, which the agent needs.
func (s *Service) AcceptJob(ctx context.Context, orgID, jobID, holder string) (*builds.Job, *builds.Build, error) {
	var job *builds.Job
	var build *builds.Build
	err := s.report(ctx, orgID, jobID, false, func(u *unit) error {
		if err := u.run.Accept(jobID, holder); err != nil {
			return err
		}
		u.show(jobID, func(j *builds.Job, b *builds.Build) { job, build = j, b })
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return job, build, nil
}

// show passes a job and its build to a function when the unit has written its changes.
func (u *unit) show(jobID string, to func(*builds.Job, *builds.Build)) {
	if u.shows == nil {
		u.shows = map[string]func(*builds.Job, *builds.Build){}
	}
	u.shows[jobID] = to
}

// showJobs passes the jobs that were asked for with show: out of memory, or read together.
func (u *unit) showJobs() error {
	if len(u.shows) == 0 {
		return nil
	}
	build := *u.build
	var missing []string
	for id, to := range u.shows {
		known, state := u.kept.shown[id], u.kept.jobs[id]
		if known == nil || state == nil {
			missing = append(missing, id)
			continue
		}
		j := *known
		j.Job = *state
		to(&j, &build)
	}
	if len(missing) == 0 {
		return nil
	}
	jobs, err := builds.JobsByID(u.q, u.build.OrganizationID, missing)
	for _, j := range jobs {
		u.shows[j.ID](j, &build)
	}
	return err
}
