package agents

import (
	"context"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// accept gives an agent the job that it was offered. Repeating it after a lost response changes nothing.
func (s *Service) accept(ctx context.Context, a caller, jobID string) (acceptedJob, error) {
	j, b, err := s.builds.AcceptJob(ctx, a.OrganizationID, jobID, a.ID)
	if err != nil {
		a.session.markStale()
		return acceptedJob{}, err
	}
	s.dispatch.Accepted(a.ID)
	return s.acceptedJob(ctx, a.Agent, j, b)
}

// acquire gives an agent a job that it was not offered: a scheduled or reserved job of the agent's cluster.
// Every permanent refusal is Unprocessable: from that kind alone the process that started the agent learns that
// the job was not run.
func (s *Service) acquire(ctx context.Context, a caller, jobID string) (acceptedJob, error) {
	if a.OnlyJob != "" && a.OnlyJob != jobID {
		return acceptedJob{}, core.Errorf(core.Unprocessable, "This agent has registered for another job")
	}
	t, err := s.loadAccepted(ctx, a.Agent, jobID)
	if core.KindOf(err) == core.NotFound {
		return t, core.Errorf(core.Unprocessable, noJob)
	}
	if err != nil {
		return t, err
	}
	var hostedOn clusters.Platform
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		hostedOn, err = clusters.PlatformOf(q, a.OrganizationID, t.Job.QueueID)
		return err
	})
	if err != nil {
		return t, err
	}
	if hostedOn != "" && a.OnlyJob == "" { // only agents of the service run its jobs; checkReserved knows them
		return t, core.Errorf(core.Unprocessable, noJob)
	}
	switch {
	case t.Job.Type != flow.Script:
		return t, core.Errorf(core.Unprocessable, "Only command jobs are run by agents")
	case t.Build.ClusterID != a.ClusterID:
		return t, core.Errorf(core.Unprocessable, "The job is for another cluster")
	case a.job.JobID != "" && a.job.JobID != jobID:
		return t, core.Errorf(core.Unprocessable, "This agent has another job")
	case isPending(t.Job.State):
		return t, core.Errorf(core.Locked, "The job is %s; it cannot be run yet", t.Job.APIState())
	}
	check := func(q *db.Q) error { return s.checkReserved(q, a.Agent, jobID) }
	if err := s.builds.AcquireIf(ctx, a.OrganizationID, jobID, a.ID, check); err != nil {
		return t, err
	}
	t.Job.State = flow.Accepted
	return t, nil
}

// isPending reports whether a job in that state can be scheduled later.
func isPending(state flow.JobState) bool {
	switch state {
	case flow.Pending, flow.Waiting, flow.Limiting, flow.Limited, flow.PlatformLimiting, flow.PlatformLimited:
		return true
	}
	return false
}

// An acceptedJob is a job that an agent has accepted, with its environment and its token.
type acceptedJob struct {
	FullJob
	env   map[string]string
	token string
}

// loadAccepted returns a job as its agent needs it.
func (s *Service) loadAccepted(ctx context.Context, a *Agent, jobID string) (t acceptedJob, err error) {
	var j *builds.Job
	var b *builds.Build
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if j, err = builds.JobByID(q, a.OrganizationID, jobID); err != nil {
			return err
		}
		b, err = builds.ByID(q, a.OrganizationID, j.BuildID)
		return err
	})
	if err != nil {
		return t, err
	}
	return s.acceptedJob(ctx, a, j, b)
}

// acceptedJob completes a job with its pipeline, its environment and its token.
func (s *Service) acceptedJob(ctx context.Context, a *Agent, j *builds.Job, b *builds.Build) (t acceptedJob, err error) {
	org, err := s.dir.OrganizationByID(ctx, a.OrganizationID)
	if err != nil {
		return t, err
	}
	around, err := s.surroundingsOf(ctx, org, b.PipelineID, a.ClusterID)
	if err != nil {
		return t, err
	}
	t.FullJob = FullJob{j, b, around.pipeline}
	env, err := s.builds.CheckoutEnvironment(org, t.Pipeline, t.Build, t.Job)
	if err != nil {
		return t, err
	}
	t.env = jobEnvironment(env, a, around.cluster.Name)
	t.token = s.jobTokens.issue(jobToken{organizationID: org.ID, agentID: a.ID, jobID: t.Job.ID})
	return t, nil
}

// JobForStack returns the environment and the command of a job as a stack of the cluster sees them.
func (s *Service) JobForStack(q *db.Q, org *identity.Organization, clusterID, jobID string) (env map[string]string, command string, err error) {
	h := FullJob{}
	if h.Job, h.Build, h.Pipeline, err = builds.Whole(q, org.ID, jobID); err != nil {
		return nil, "", err
	}
	cluster, err := clusters.ByID(q, org.ID, clusterID)
	if err != nil {
		return nil, "", err
	}
	if env, err = s.builds.CheckoutEnvironment(org, h.Pipeline, h.Build, h.Job); err != nil {
		return nil, "", err
	}
	return jobEnvironment(env, nil, cluster.Name), h.Job.Work.Command, nil
}

// StartedBy reports whether a stack check have started an agent. An agent that registered with a token of a stack
// was started by that stack; an agent that waits for offers was started by none. An agent that acquires a job
// with an agent token check have been started by any stack.
func StartedBy(q *db.Q, orgID, agentID, stackID string) (bool, error) {
	a, err := byID(q, orgID, agentID)
	if err != nil {
		return false, err
	}
	if a.StackID != "" {
		return a.StackID == stackID, nil
	}
	return a.Ignored, nil
}
