package remoteaccess

import (
	"context"
	"errors"
	"slices"
	"strings"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// systems are the hosted agents that support each kind, for messages.
var systems = map[Kind]string{Shell: "macOS or Linux", Desktop: "macOS"}

func (k Kind) name() string { return strings.ToUpper(string(k)) }

// unsupported is the error for a job that cannot have a session.
func (k Kind) unsupported() error {
	return core.Errorf(core.Unprocessable, "%s access needs a running command job on a hosted agent with %s", k.name(), systems[k])
}

// A target is where a session leads.
type target struct {
	hosted   bool
	platform clusters.Platform
	desktop  bool // the agent says that its machine has one
}

// check returns where a session into a job leads, or an error unless the organization allows it and the job runs on a
// machine that supports it.
func (k Kind) check(q *db.Q, org *identity.Organization, j *builds.Job) (t target, err error) {
	if err := k.checkOrganization(q, org); err != nil {
		return t, err
	}
	if j.Type != flow.Script || j.State != flow.Running {
		return t, k.unsupported()
	}
	return k.checkQueue(q, org, j)
}

// checkOrganization returns an error unless the organization allows sessions.
func (k Kind) checkOrganization(q *db.Q, org *identity.Organization) error {
	set, err := settings.Of(q, org.ID)
	switch {
	case err != nil:
		return err
	case !org.Features.HostedAgents && !org.Features.SelfHostedSessions:
		return core.Errorf(core.NotFound, "%s access is unavailable: the organization has no hosted agents", k.name())
	case !set.TerminalAccess.Enabled():
		return core.Errorf(core.NotFound, "%s access is unavailable: the organization's pipeline settings do not allow remote access to hosted agents", k.name())
	}
	return nil
}

// checkQueue returns where a session into a job of a queue leads, whatever the state of the job.
func (k Kind) checkQueue(q *db.Q, org *identity.Organization, j *builds.Job) (t target, err error) {
	hosted, own := org.Features.HostedAgents, org.Features.SelfHostedSessions
	if t.platform, err = clusters.PlatformOf(q, org.ID, j.QueueID); err != nil {
		return t, err
	}
	t.hosted = t.platform != ""
	switch {
	case t.hosted && !hosted:
		return t, core.Errorf(core.NotFound, "%s access is unavailable: the organization has no hosted agents", k.name())
	case t.hosted && k == Desktop && t.platform != clusters.MacOS:
		return t, k.unsupported()
	case !t.hosted && !own:
		return t, k.unsupported()
	}
	return t, nil
}

// checkAgent returns the target with the platform of the job's agent, or an error unless the agent can have sessions.
func (t target) checkAgent(q *db.Q, k Kind, j *builds.Job) (target, error) {
	a, err := agents.ByID(q, j.OrganizationID, j.AgentID)
	switch {
	case core.KindOf(err) == core.NotFound || err == nil && !strings.HasPrefix(a.UserAgent, ownAgents):
		if t.hosted {
			return t, unavailable("the agent of the job does not support sessions")
		}
		return t, k.unsupported()
	case err != nil:
		return t, err
	}
	t.desktop = slices.Contains(a.Tags, desktopTag)
	if !t.hosted {
		t.platform = clusters.Linux
		if a.OS == "darwin" {
			t.platform = clusters.MacOS
		}
	}
	return t, nil
}

// desktopTag is the tag of agents whose machine has a desktop.
const desktopTag = "vnc=true"

// ownAgents is how the user agent of agents begins that can have sessions.
const ownAgents = "stackyard-agent/"

// stillAllowed returns an error when a session could not be opened by its user now.
func (s *Service) stillAllowed(ctx context.Context, sess *Session) error {
	org, err := s.Directory.OrganizationByID(ctx, sess.OrganizationID)
	if err != nil {
		return err
	}
	person, err := s.Directory.Person(ctx, sess.UserID)
	if err != nil {
		return err
	}
	member := person.Membership(org.ID)
	switch {
	case org.Suspended:
		return core.Errorf(core.Unavailable, "This organization is temporarily unavailable")
	case !member.Can(identity.ManageHostedAgents, org):
		return errNoAccess
	}
	return s.DB.Read(ctx, func(q *db.Q) error {
		if sess.OpenedWith != "" {
			valid, err := sess.OpenedWith.Valid(q, s.Clock())
			if err != nil {
				return err
			}
			if !valid {
				return errRevoked
			}
		}
		j, b, _, err := builds.Whole(q, org.ID, sess.JobID)
		if err != nil {
			return err
		}
		if _, err := pipelines.ByID(q, pipelines.Viewer{Org: org, Member: member, User: person.User}, b.PipelineID); err != nil {
			return errNoAccess
		}
		if j.State != flow.Running || j.AgentID != sess.AgentID {
			return errJobEnded
		}
		_, err = sess.Kind.check(q, org, j)
		return err
	})
}

var (
	errRevoked  = core.Errorf(core.Forbidden, "You are no longer signed in with what the session was opened with")
	errNoAccess = core.Errorf(core.Forbidden, "You no longer have access to the job")
	errJobEnded = core.Errorf(core.Unprocessable, "The job has ended")
)

// Offered returns the kinds of sessions that a member can open into a job now, for pages. An agent can still refuse.
func (s *Service) Offered(q *db.Q, org *identity.Organization, member *identity.Membership, j *builds.Job) (kinds []Kind, err error) {
	if !member.Can(identity.ManageHostedAgents, org) || j.Type != flow.Script || j.State != flow.Running {
		return nil, nil
	}
	for _, kind := range []Kind{Shell, Desktop} {
		t, err := kind.check(q, org, j)
		if err == nil {
			t, err = t.checkAgent(q, kind, j)
		}
		if _, refused := errors.AsType[*core.Error](err); refused || err == nil && kind == Desktop && !t.desktop {
			continue
		}
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// CheckDebug returns an error unless a member can have a job kept for debugging: it is useless without a session.
func (s *Service) CheckDebug(ctx context.Context, org *identity.Organization, member *identity.Membership, j *builds.Job) error {
	if !member.Can(identity.ManageHostedAgents, org) {
		return core.Errorf(core.Forbidden, "Forbidden: keeping a job for debugging needs the permission %s", identity.ManageHostedAgents)
	}
	err := s.DB.Read(ctx, func(q *db.Q) error {
		if err := Shell.checkOrganization(q, org); err != nil {
			return err
		}
		if j.Type != flow.Script {
			return Shell.unsupported()
		}
		_, err := Shell.checkQueue(q, org, j)
		return err
	})
	if e, ok := errors.AsType[*core.Error](err); ok {
		return core.Errorf(core.Unprocessable, "The job cannot be kept for debugging: %s", e.Message)
	}
	return err
}
