// Package commits finds the commit of new builds that were created for the tip of a branch, such as HEAD.
//
// Creating a build does not wait for the source host: the transaction that creates it adds a task, which asks the
// repository (package gitremote) and fills in the commit, its message and its author. The task changes nothing once an
// agent has a job of the build: that agent checks out the branch by itself and reports what it found. A host that does not
// answer therefore delays no build. It is not asked again for a while (failures.go).
package commits

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/gitremote"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/platform/tasks"
)

const timeout = 15 * time.Second

// Service looks up commits.
type Service struct {
	db        *db.DB
	pipelines *pipelines.Service
	builds    *lifecycle.Service
	client    *http.Client
	log       *slog.Logger

	connections *connections.Service
	failures    *failures
}

// New returns the service. Builds of HEAD that are created from now on get a task that finds their commit.
func New(d *db.DB, p *pipelines.Service, b *lifecycle.Service, c *connections.Service, client *http.Client, clock core.Clock, log *slog.Logger) *Service {
	s := &Service{db: d, pipelines: p, builds: b, connections: c, client: client, log: log, failures: newFailures(clock)}
	b.ResolveCommits(s.can)
	return s
}

// can reports whether the repository of a pipeline can be asked, without asking it.
func (s *Service) can(p *pipelines.Pipeline) bool {
	_, ok := sourcehost.HTTPURL(p.Repository)
	return ok && !s.failures.paused(p.Repository)
}

// Background registers the task.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(lifecycle.CommitTask, tasks.Limits{Timeout: timeout}, s.resolve)
}

// resolve fills in the commit of a build. A failure is not repeated: by then an agent has the build, or will find out
// itself.
func (s *Service) resolve(ctx context.Context, t *tasks.Due) error {
	var b *builds.Build
	var p *pipelines.Pipeline
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if b, err = lifecycle.Unresolved(q, t.Key); err != nil || b == nil {
			return err
		}
		p, err = pipelines.ByID(q, pipelines.System(b.OrganizationID), b.PipelineID)
		return err
	})
	if core.KindOf(err) == core.NotFound || err == nil && (b == nil || !s.can(p)) {
		return nil
	}
	if err != nil {
		return err
	}
	remote, err := s.remote(ctx, p)
	if err != nil || remote == nil {
		return err
	}
	found, err := remote.Resolve(ctx, refs(b)...)
	if err != nil {
		s.log.Info("resolve commit failed", "build", b.ID, "pipeline", p.ID, "error", err)
		s.failures.add(p.Repository, err)
		return nil
	}
	if short := b.Commit; short != head && !strings.HasPrefix(found.SHA, short) {
		return nil // the branch has moved on
	}
	author := builds.Author{Name: found.AuthorName, Email: found.AuthorEmail}
	return s.builds.FillInCommit(ctx, t.Key, found.SHA, author, found.Message)
}

const head = "HEAD"

// refs returns the names that a build's branch or tag can have in the repository.
func refs(b *builds.Build) []string {
	if b.Tag != "" {
		return []string{"refs/tags/" + b.Tag}
	}
	return []string{"refs/heads/" + b.Branch, "refs/tags/" + b.Branch}
}

// remote returns the repository of a pipeline over https, or nil if it cannot be reached so. Credentials come from its
// URL or from the organization's connection to its host.
func (s *Service) remote(ctx context.Context, p *pipelines.Pipeline) (*gitremote.Remote, error) {
	full, err := s.pipelines.CheckoutURL(p)
	if err != nil {
		return nil, err
	}
	address, ok := sourcehost.HTTPURL(full)
	if !ok {
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil
	}
	remote := &gitremote.Remote{Client: s.client}
	if u.User != nil {
		remote.User = u.User.Username()
		remote.Password, _ = u.User.Password()
		u.User = nil
	}
	remote.URL = u.String()
	if remote.User != "" || u.Scheme != "https" {
		return remote, nil
	}
	token, err := s.connections.TokenFor(ctx, p.OrganizationID, remote.URL)
	switch {
	case err == nil && token != "":
		remote.User, remote.Password = "token", token
	case err != nil && core.KindOf(err) != core.NotFound:
		s.log.Info("get token of source connection failed", "pipeline", p.ID, "error", err)
	}
	return remote, nil
}
