package stacks

import (
	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Path is the path of the stacks API. All of its responses have rate-limit headers.
const Path = "/v3/stacks"

// DefaultRateLimit returns the rate limit of the stacks API for requests that have no scope of their own.
func DefaultRateLimit() *route.RateLimit { return rateLimit("default") }

// rateLimit returns the rate limit of a scope, which each stack has for itself.
func rateLimit(scope string) *route.RateLimit {
	return &route.RateLimit{
		Scope:     scope,
		PerSecond: func(org *identity.Organization) int { return quotas.Of(org).StackRequests(scope) },
		Segment:   "stack",
		Key: func(r *route.Request, key string) string {
			// Keys that no stack can have are counted together, so that long ones do not fill the memory.
			if len(key) > maxKey {
				key = ""
			}
			return "stack " + r.Org.ID + " " + r.Agent.ClusterID + " " + key + " " + scope
		},
	}
}
