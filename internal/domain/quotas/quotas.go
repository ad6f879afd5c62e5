// Package quotas holds the limits of organizations: what they are, their defaults, and how an organization file
// sets them. It does not enforce them; the packages that do read them with [Of].
package quotas

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"stackyard/internal/platform/identity"
)

// Limits bound what an organization uses.
type Limits struct {
	// Stacks is the number of active stacks.
	Stacks int `json:"stacks"`
	// StackRequestsPerSecond overrides the rate limits of the stacks API, by scope.
	StackRequestsPerSecond map[string]int `json:"stack_requests_per_second,omitempty"`
	// RESTRequestsPerSecond bounds each user in the organization; 0 is no limit.
	RESTRequestsPerSecond int `json:"rest_requests_per_second"`
	// BuildRetentionDays is how long finished builds are kept; 0 is forever.
	BuildRetentionDays int `json:"build_retention_days,omitempty"`
	// TestRetentionDays is how long test results are kept; 0 is forever.
	TestRetentionDays int `json:"test_retention_days"`
	// AuditRetentionDays is how long the audit trail is kept; 0 is forever.
	AuditRetentionDays int `json:"audit_retention_days"`
	// ArtifactRetentionDays is how long the bytes of artifacts are kept; 0 is as long as their builds.
	ArtifactRetentionDays int `json:"artifact_retention_days,omitempty"`
	// ArtifactBytes is how much the artifacts of the organization can have together; 0 is no limit.
	ArtifactBytes int64 `json:"artifact_bytes,omitempty"`
	// AtArtifactLimit is what happens when ArtifactBytes is reached; "" is Refuse.
	AtArtifactLimit AtLimit `json:"at_artifact_limit,omitempty"`
	// CacheBytes is how much the caches of the organization can have together; 0 is no limit.
	CacheBytes int64 `json:"cache_bytes"`
	// LogRetentionDays is how long logs of finished builds are kept; 0 is as long as their builds.
	LogRetentionDays int `json:"log_retention_days,omitempty"`
	// LogBytes is how much the logs in the blob store can have together before the oldest are removed; 0 is no limit.
	LogBytes int64 `json:"log_bytes,omitempty"`
	// EventRetentionDays is how long events are kept; 0 is as long as the installation keeps them.
	EventRetentionDays int `json:"event_retention_days,omitempty"`
	// DeliveryRetentionDays is how long finished deliveries of notification services are kept; 0 is forever, up to their
	// number for each service.
	DeliveryRetentionDays int `json:"delivery_retention_days,omitempty"`
	// TriggeredBuilds is how many builds one build can cause through triggers, directly and indirectly.
	TriggeredBuilds int `json:"triggered_builds"`
	// FairShare says how pipelines share the agents of a queue.
	FairShare FairShare `json:"fair_share,omitzero"`
}

// AtLimit is what happens when an organization stores as much as it may.
type AtLimit string

// What can happen.
const (
	Refuse       AtLimit = "refuse"        // uploads are refused
	RemoveOldest AtLimit = "remove_oldest" // the oldest are removed
)

// Values lists every value.
func (AtLimit) Values() []string { return []string{string(Refuse), string(RemoveOldest)} }

// FairShare keeps the jobs of one pipeline from blocking those of others in a queue. When it is on, the next
// job belongs to the pipeline with the fewest running jobs for its weight.
type FairShare struct {
	On bool `json:"on,omitempty"`
	// Weights are the weights of pipelines by slug; 1 for all others.
	Weights map[string]int `json:"weights,omitempty"`
}

// IsZero reports whether fair share was never configured.
func (f FairShare) IsZero() bool { return !f.On && len(f.Weights) == 0 }

// Weight returns the weight of a pipeline.
func (f FairShare) Weight(slug string) int { return max(f.Weights[slug], 1) }

// Default are the limits of an organization that sets none.
var Default = Limits{Stacks: 30, RESTRequestsPerSecond: 1000, TestRetentionDays: 90, AuditRetentionDays: 730, CacheBytes: 20_000_000_000, TriggeredBuilds: 500}

// Of returns the limits of an organization. A limit that its row does not have, because the limit is newer than
// the row, has its default.
func Of(org *identity.Organization) Limits {
	l := Default
	if org == nil || len(org.Limits) == 0 {
		return l
	}
	decoded.RLock()
	known, ok := decoded.byText[string(org.Limits)]
	decoded.RUnlock()
	if ok {
		return known
	}
	json.Unmarshal(org.Limits, &l) // cannot fail: only Encode writes them
	decoded.Lock()
	defer decoded.Unlock()
	if len(decoded.byText) >= maxDecoded {
		clear(decoded.byText)
	}
	decoded.byText[string(org.Limits)] = l
	return l
}

// maxDecoded bounds how many different limits are kept in decoded.
const maxDecoded = 1_000

// decoded are limits by their JSON. They are read several times for each request, and never changed.
var decoded = struct {
	sync.RWMutex
	byText map[string]Limits
}{byText: map[string]Limits{}}

// Encode returns the limits as an organization stores them.
func (l Limits) Encode() json.RawMessage {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers and maps of numbers always marshal
	}
	return text
}

// stackRequests are the specification's limits of the stacks API, in requests per second by scope.
var stackRequests = map[string]int{
	"list-scheduled-jobs":   10,
	"batch-reserve":         10,
	"show-job":              1000,
	"batch-load-job-states": 20,
	"finish-job":            100,
	"stack-notification":    200,
	"default":               10,
}

// StackScopes returns the rate-limit scopes of the stacks API.
func StackScopes() []string { return slices.Sorted(maps.Keys(stackRequests)) }

// StackRequests returns how many requests of a scope one stack can make per second.
func (l Limits) StackRequests(scope string) int {
	if n, ok := l.StackRequestsPerSecond[scope]; ok {
		return n
	}
	return stackRequests[scope]
}

// RESTRequests returns how many requests to the REST API one user can make per second in an organization; 0 is
// no limit.
func RESTRequests(org *identity.Organization) int { return Of(org).RESTRequestsPerSecond }
