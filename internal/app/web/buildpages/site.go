// Package buildpages has the pages of a build: its jobs, logs and artifacts, and shells and desktops in its jobs.
//
// The page of a build consists of parts (parts.go), elements that change independently. It is rendered with all of
// them and then receives those that have changed (live.go, package live). The page of a job shows any part of its log (job.go,
// log.go) with the script assets/job.js.
package buildpages

import (
	"context"
	"embed"
	"html/template"
	"io"
	"slices"
	"time"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/remoteaccess"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Config contains the dependencies of the pages.
type Config struct {
	Builds      *lifecycle.Service
	Artifacts   *artifacts.Service
	Annotations *annotations.Service
	Logs        *joblog.Service
	Timeline    *timeline.Service
	Deliveries  *delivery.Service
	Remote      *remoteaccess.Service
	Bus         *bus.Bus
	Live        *live.Hub
	// Download returns a temporary URL of an artifact's content.
	Download func(artifacts.Artifact) (string, error)
	// Open opens the content of an artifact that the server stores.
	Open func(context.Context, artifacts.Artifact) (io.ReadSeekCloser, error)
}

// Site serves the pages of builds.
type Site struct {
	*pages.Site
	Config
	watched  *bus.Watched  // builds with open pages
	archives chan struct{} // contains a token for each archive being written
}

// New returns the pages of builds.
func New(base *pages.Site, c Config) *Site {
	base.AddTemplates(templates, template.FuncMap{
		"eventText": func(event string) string { return eventTexts[event] },
		"prompt":    func(text string) template.HTML { return template.HTML(markdown.Prompt(text)) },
		"micros":    func(n int64) string { return pages.Length(time.Duration(n) * time.Microsecond) },
	})
	return &Site{Site: base, Config: c, watched: c.Bus.Watch(builds.Topic, builds.Versions), archives: make(chan struct{}, maxArchives)}
}

// Routes returns the routes of the pages.
func (s *Site) Routes() []route.Route {
	return slices.Concat(s.buildRoutes(), s.jobRoutes(), s.pictureRoutes(), s.artifactRoutes(), s.remoteRoutes())
}
