package lifecycle

import (
	"context"
	"regexp"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// CommitTask is the kind of the tasks that find the commits of new builds. [Unresolved] reads their key.
const CommitTask = "commit-resolution"

// A CommitFinder asks the repositories of pipelines for commits.
type CommitFinder struct {
	// Can reports whether the repository of a pipeline can be asked, without asking it.
	Can func(p *pipelines.Pipeline) bool
	// Find returns the commit of a new build; ok is false if the repository did not answer soon.
	Find func(ctx context.Context, p *pipelines.Pipeline, b *builds.Build) (found Commit, ok bool)
}

// ResolveCommits makes the service find the commit of each new build whose commit is not a SHA: before the build is
// created, or with a CommitTask if the repository does not answer soon. Call it before builds are created.
func (s *Service) ResolveCommits(f CommitFinder) { s.commits = f }

// findCommit asks the repository for the commit, the author and the message of the requested build, so that they are
// known before an agent has it, and to conditions of steps.
func (d *Draft) findCommit(ctx context.Context) {
	find := d.service.commits.Find
	if find == nil || !unresolved(d.build) {
		return
	}
	if found, ok := find(ctx, d.pipeline, d.build); ok {
		d.requested.Commit, d.requested.Details = found.SHA, found.cut().details(d.requested.Details)
		d.begin()
	}
}

// resolveLater adds the task that finds the commit of a new build.
func (s *Service) resolveLater(q *db.Q, p *pipelines.Pipeline, b *builds.Build) error {
	if s.commits.Can == nil || !unresolved(b) || !s.commits.Can(p) {
		return nil
	}
	return tasks.Add(q, tasks.Task{Kind: CommitTask, Key: b.OrganizationID + " " + b.ID, RunAt: b.CreatedAt})
}

var shortSHA = regexp.MustCompile(`^[0-9a-f]{7,39}$`)

// unresolved reports whether the commit of a build can be found at the tip of its branch or tag: it is HEAD, or the
// beginning of a SHA. Pull requests have refs of their own, which agents know.
func unresolved(b *builds.Build) bool {
	return (b.Commit == "HEAD" && b.PullRequest == nil || shortSHA.MatchString(b.Commit)) && !b.State.Ended()
}

// Unresolved returns the build of a CommitTask if its commit is to be found and no agent has one of its jobs. Otherwise
// it returns nil, or a NotFound error.
func Unresolved(q *db.Q, key string) (*builds.Build, error) {
	orgID, id, _ := strings.Cut(key, " ")
	b, err := builds.ByID(q, orgID, id)
	if err != nil || !unresolved(b) {
		return nil, err
	}
	accepted, err := wasAccepted(q, id)
	if err != nil || accepted {
		return nil, err
	}
	return b, nil
}

// wasAccepted reports whether an agent has or had a job of a build.
func wasAccepted(q *db.Q, buildID string) (accepted bool, err error) {
	err = q.QueryRow(`
		SELECT EXISTS (
			SELECT 1 FROM jobs
			WHERE build_id = $1 AND agent_id IS NOT NULL AND state NOT IN ('scheduled', 'assigned'))`, buildID).Scan(&accepted)
	return accepted, err
}

// FillInCommit sets the commit of the build of a CommitTask, and its author and message where they are unknown, unless an
// agent has one of its jobs: that agent reports what it checked out.
func (s *Service) FillInCommit(ctx context.Context, key string, found Commit) error {
	_, id, _ := strings.Cut(key, " ")
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("builds", id); err != nil {
			return err
		}
		b, err := Unresolved(q, key)
		if core.KindOf(err) == core.NotFound || err == nil && b == nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fillInCommit(q, b, found.cut()); err != nil {
			return err
		}
		q.Announce(b.Topics()...)
		return nil
	})
}
