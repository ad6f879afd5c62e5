package buildapi

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// ExportedJob returns a job as the API shows it to members.
func (s *Service) ExportedJob(org *identity.Organization, p *pipelines.Pipeline, b *builds.Build, j *builds.Job) any {
	return s.jobView(&route.Request{Org: org}, p, b, j)
}
