// Package oidc issues OpenID Connect tokens to running jobs and publishes the keys that verify them, so that
// cloud providers can trust a job without a stored secret.
//
// The signing keys are RSA keys in the table oidc_keys, encrypted with the key of the installation (keys.go).
// The claims of a token come from the job, its build and its agent (claims.go), never from the request.
package oidc

import (
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// Service issues tokens to jobs.
type Service struct {
	agents   *agents.Service
	clusters *clusters.Service
	keys     *signingKeys
	public   core.PublicURL
	clock    core.Clock
}

// New returns a Service that keeps its signing keys in d, encrypted with key. public is the issuer of tokens.
func New(d *db.DB, agents *agents.Service, clusters *clusters.Service, key seal.Key, public core.PublicURL, clock core.Clock) *Service {
	return &Service{
		agents: agents, clusters: clusters, public: public, clock: clock,
		keys: &signingKeys{db: d, seal: key, clock: clock},
	}
}
