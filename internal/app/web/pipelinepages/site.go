// Package pipelinepages has the pages of pipelines: lists of pipelines and of their builds, and creating builds.
package pipelinepages

import (
	"embed"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/schedules"
)

//go:embed templates
var templates embed.FS

// Config contains the dependencies of the pages.
type Config struct {
	Pipelines *pipelines.Service
	Builds    *lifecycle.Service
	BuildAPI  *buildapi.Service
	Schedules *schedules.Service
	Live      *live.Hub
}

// Site serves the pages of pipelines.
type Site struct {
	*pages.Site
	Config
}

// New returns the pages of pipelines.
func New(base *pages.Site, c Config) *Site {
	base.AddTemplates(templates, nil)
	return &Site{Site: base, Config: c}
}
