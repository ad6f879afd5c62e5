package buildapi

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// ExportedBuild returns a build as the API shows it to members, without its jobs and its pipeline.
func (s *Service) ExportedBuild(org *identity.Organization, p *pipelines.Pipeline, b *builds.Build, metaData map[string]string) any {
	v := s.view(&route.Request{Org: org}, p, b)
	v.MetaData = metaData
	return v
}

// ExportedJob returns a job as the API shows it to members.
func (s *Service) ExportedJob(org *identity.Organization, p *pipelines.Pipeline, b *builds.Build, j *builds.Job) any {
	return s.jobView(&route.Request{Org: org}, p, b, j)
}
