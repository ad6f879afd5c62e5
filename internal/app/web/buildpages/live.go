package buildpages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// livePace is the minimum time between two reads of a build.
const livePace = 200 * time.Millisecond

// live streams changes of a build to its page.
func (s *Site) live(v *pages.Visit) error {
	return s.Live.Follow(v, func(v *pages.Visit) (string, func() *live.Source, error) {
		o, err := s.Builds.LoadOnBuild(v.Request)
		if err != nil {
			return "", nil, err
		}
		chosen := selectionOf(v)
		key := strings.Join([]string{"build", o.ID, chosen.query().Encode(), permissionsOf(v, o)}, "\n")
		return key, func() *live.Source { return s.buildFeed(v, o, chosen) }, nil
	})
}

// buildFeed returns the feed of a build's page.
func (s *Site) buildFeed(v *pages.Visit, o builds.OnBuild, chosen selection) *live.Source {
	f := s.source(o.ID)
	reader := live.Detached(v)
	var last *board
	f.Read = func(ctx context.Context) (pages.Snapshot, error) {
		reader.Request.Request = reader.Request.Request.WithContext(ctx)
		o, err := s.Builds.LoadOnBuild(reader.Request)
		if err != nil {
			return nil, err
		}
		if last, err = s.readBoard(reader, o, chosen, actionError{}, last); err != nil {
			return nil, err
		}
		return last.parts()
	}
	if job, ok := s.scriptJob(v.Context(), o, chosen.Job); ok {
		f.Log = &windowLog{bus: s.Bus, window: s.Logs.Window(job), job: job, path: s.Prefix + PathOf(v.Org, o.Pipeline.Slug, o.Number) + "/jobs/" + job.ID}
	}
	return f
}

// scriptJob returns the job of a build with an id, if it has a log.
func (s *Site) scriptJob(ctx context.Context, o builds.OnBuild, id string) (job joblog.Job, ok bool) {
	if _, valid := core.ParseID(id); !valid {
		return job, false
	}
	err := s.DB.Read(ctx, func(q *db.Q) error {
		j, err := builds.JobByID(q, o.OrganizationID, id)
		ok = err == nil && j.BuildID == o.ID && j.Type == flow.Script
		return err
	})
	return joblog.Job{OrganizationID: o.OrganizationID, PipelineID: o.PipelineID, BuildID: o.ID, ID: id}, ok && err == nil
}

// source returns the source of a feed of a build, which reads it when the bus reports a change, and at no other time.
func (s *Site) source(buildID string) *live.Source {
	return &live.Source{
		Subscribe: func() (<-chan struct{}, func()) { return s.watched.Subscribe(buildID) },
		Version:   func(ctx context.Context) (string, error) { return s.versionOf(ctx, buildID) },
		Pace:      livePace,
	}
}

// permissionsOf returns a text that is the same for visitors who see the same page.
func permissionsOf(v *pages.Visit, o builds.OnBuild) string {
	if v.Session == nil || v.Member == nil {
		return fmt.Sprint("visitor ", v.Session != nil, o.Pipeline.Visited())
	}
	var teams []string
	for _, t := range v.Member.Teams {
		teams = append(teams, t.TeamID)
	}
	slices.Sort(teams)
	return fmt.Sprint("member ", o.Pipeline.Visited(), o.Permits(v.Request, identity.BuildPipeline), v.Member.Can(identity.ManageHostedAgents, v.Org), teams)
}

// versionOf returns a text that changes when a build does.
func (s *Site) versionOf(ctx context.Context, buildID string) (version string, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) error {
		versions, err := builds.Versions(q, []string{buildID})
		version = strings.Join(slices.Collect(maps.Values(versions)), "")
		return err
	})
	return version, err
}

// A logChange is the data of an event about the end of a log.
type logChange struct {
	Reset     bool   `json:"reset"`
	Truncated bool   `json:"truncated"`
	Settled   string `json:"settled"`
	Screen    string `json:"screen"`
	Size      string `json:"size"` // formatted
}

// windowLog is the end of a log on the page of a build.
type windowLog struct {
	bus    *bus.Bus
	window *joblog.Window
	job    joblog.Job
	path   string    // of the page of the job
	now    logChange // with all settled lines
}

// maxWindow limits what a windowLog keeps for new viewers, in bytes.
const maxWindow = 1 << 20

func (w *windowLog) Subscribe() (printed <-chan struct{}, cancel func()) {
	return w.bus.Subscribe(joblog.Topic(w.job.ID))
}

func (w *windowLog) Next(ctx context.Context) (any, error) {
	update, err := w.window.Read(ctx)
	if err != nil {
		return nil, err
	}
	change := logChange{update.Reset, update.Truncated, linkArtifacts(update.Settled, w.path), linkArtifacts(update.Screen, w.path), pages.Size(update.Size)}
	before := w.now.Settled
	if change.Reset {
		before = ""
	}
	w.now = change
	w.now.Reset, w.now.Settled = true, before+change.Settled
	if extra := len(w.now.Settled) - maxWindow; extra > 0 {
		cut := strings.Index(w.now.Settled[extra:], `<span class="line`)
		w.now.Settled, w.now.Truncated = w.now.Settled[extra+max(cut, 0):], true
	}
	return change, nil
}

func (w *windowLog) All() any { return w.now }
