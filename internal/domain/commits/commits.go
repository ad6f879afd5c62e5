// Package commits finds the commit of new builds that are for the tip of a branch, such as HEAD.
//
// The repository is asked (package gitremote) before the build is created, so that its commit, message and author are
// right before an agent has it. If the repository does not answer soon, the build is created without them, and a task asks
// again. The task changes nothing once an agent has a job of the build: that agent checks out the branch by itself and
// reports what it found. A host that does not answer is not asked again for a while (failures.go).
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
	"stackyard/internal/platform/lru"
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
	patience    time.Duration
	slots       *lru.Cache[string, chan struct{}]
}

// New returns the service. New builds of HEAD wait for their commit, at most for the time patience.
func New(d *db.DB, p *pipelines.Service, b *lifecycle.Service, c *connections.Service, client *http.Client, patience time.Duration, clock core.Clock, log *slog.Logger) *Service {
	s := &Service{db: d, pipelines: p, builds: b, connections: c, client: client, log: log, failures: newFailures(clock), patience: patience, slots: newSlots()}
	b.ResolveCommits(lifecycle.CommitFinder{Can: s.can, Find: s.find})
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
	found, ok, err := s.ask(ctx, p, b)
	if err != nil {
		s.failures.add(p.Repository, err)
	}
	if !ok {
		return nil
	}
	return s.builds.FillInCommit(ctx, t.Key, found)
}

// find returns the commit of a build that is about to be created, if its repository says it soon.
func (s *Service) find(ctx context.Context, p *pipelines.Pipeline, b *builds.Build) (lifecycle.Commit, bool) {
	worth := func() bool { return s.can(p) && !s.failures.slow(p.Repository) }
	if !worth() {
		return lifecycle.Commit{}, false
	}
	soon, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	release, ok := s.slot(soon, hostOf(p.Repository))
	if !ok {
		return lifecycle.Commit{}, false
	}
	defer release()
	if !worth() { // others have found out meanwhile
		return lifecycle.Commit{}, false
	}
	found, ok, err := s.ask(soon, p, b)
	switch {
	case err == nil || ctx.Err() != nil:
	case soon.Err() != nil:
		s.failures.addSlow(p.Repository)
	default:
		s.failures.add(p.Repository, err)
	}
	return found, ok
}

const head = "HEAD"

// ask asks the repository of a pipeline for the commit of a build; ok is false if it does not say it.
func (s *Service) ask(ctx context.Context, p *pipelines.Pipeline, b *builds.Build) (found lifecycle.Commit, ok bool, err error) {
	remote, err := s.remote(ctx, p)
	if err == nil && remote == nil {
		return found, false, nil
	}
	var c gitremote.Commit
	if err == nil {
		c, err = remote.Resolve(ctx, refs(b)...)
	}
	if err != nil {
		s.log.Info("resolve commit failed", "build", b.ID, "pipeline", p.ID, "error", err)
		return found, false, err
	}
	if short := b.Commit; short != head && !strings.HasPrefix(c.SHA, short) {
		return found, false, nil // the branch has moved on
	}
	return lifecycle.Commit{SHA: c.SHA, Author: builds.Author{Name: c.AuthorName, Email: c.AuthorEmail}, Message: c.Message}, true, nil
}

// Builds that are created at once ask one host in parallel, but only some of them.
const (
	maxHosts      = 1000 // that are remembered
	atOncePerHost = 16
)

func newSlots() *lru.Cache[string, chan struct{}] { return lru.New[string, chan struct{}](maxHosts) }

// slot waits until a host can be asked.
func (s *Service) slot(ctx context.Context, host string) (release func(), ok bool) {
	taken, known := s.slots.Get(host)
	if !known {
		taken = make(chan struct{}, atOncePerHost)
		s.slots.Add(host, taken)
	}
	select {
	case taken <- struct{}{}:
		return func() { <-taken }, true
	case <-ctx.Done():
		return nil, false
	}
}

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
