package builds

import (
	"strconv"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// An Address builds the URLs of a build and of everything below it.
type Address struct {
	public        core.PublicURL
	org, pipeline string // slugs
	number        int
}

// Address returns the address of a build.
func (s *Reader) Address(org *identity.Organization, p *pipelines.Pipeline, number int) Address {
	return Address{s.public, org.Slug, p.Slug, number}
}

// AddressOf returns the address of a linked build.
func (s *Reader) AddressOf(org *identity.Organization, l Link) Address {
	return Address{s.public, org.Slug, l.Slug, l.Number}
}

// API returns the REST URL of the build, or of something below it.
func (a Address) API(segments ...string) string {
	return a.public.Org(a.org, append([]string{"pipelines", a.pipeline, "builds", strconv.Itoa(a.number)}, segments...)...)
}

// Web returns the URL of the build's page.
func (a Address) Web() string {
	return a.public.To(a.org, a.pipeline, "builds", strconv.Itoa(a.number))
}

// Prefix is the prefix of the keys of all blobs of a build, like logs and artifacts. They are removed with the
// build.
func Prefix(orgID, pipelineID, buildID string) string {
	return pipelines.Prefix(orgID, pipelineID) + "/" + buildID
}
