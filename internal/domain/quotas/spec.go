package quotas

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// A Spec names the limits to change. StackRequestsPerSecond changes the limits of the scopes that it
// names.
type Spec struct {
	Line                   int            `yaml:"-"`
	Stacks                 *int           `yaml:"stacks"`
	StackRequestsPerSecond map[string]int `yaml:"stack_requests_per_second"`
	RESTRequestsPerSecond  *int           `yaml:"rest_requests_per_second"`
	BuildRetentionDays     *int           `yaml:"build_retention_days"`
	TestRetentionDays      *int           `yaml:"test_retention_days"`
	AuditRetentionDays     *int           `yaml:"audit_retention_days"`
	ArtifactRetentionDays  *int           `yaml:"artifact_retention_days"`
	ArtifactBytes          *int64         `yaml:"artifact_bytes"`
	AtArtifactLimit        *AtLimit       `yaml:"at_artifact_limit"`
	CacheBytes             *int64         `yaml:"cache_bytes"`
	LogRetentionDays       *int           `yaml:"log_retention_days"`
	LogBytes               *int64         `yaml:"log_bytes"`
	EventRetentionDays     *int           `yaml:"event_retention_days"`
	DeliveryRetentionDays  *int           `yaml:"delivery_retention_days"`
	TriggeredBuilds        *int           `yaml:"triggered_builds"`
	FairShare              FairShareSpec  `yaml:"fair_share"`
}

// A FairShareSpec turns fair share on or off and names the weights to change.
type FairShareSpec struct {
	Line    int            `yaml:"-"`
	Enabled *bool          `yaml:"enabled"`
	Weights map[string]int `yaml:"weights"`
}

// maxWeight is the largest weight of a pipeline.
const maxWeight = 1000

// maxRetentionDays is the longest retention of finished builds and of test results, a century. Zero keeps them forever.
const maxRetentionDays = 36500

// minAuditDays is the shortest retention of the audit trail, so that nobody removes traces by shortening it for a moment.
const minAuditDays = 30

// minEventDays is the shortest retention of events: deliveries that are tried again read them for that long.
const minEventDays = 2

// Check reports errors in the spec that can be found without a database.
func (s Spec) Check(c *core.Complaints) {
	if s.Stacks != nil && *s.Stacks < 0 {
		c.Add(s.Line, "stacks must not be negative")
	}
	if s.RESTRequestsPerSecond != nil && *s.RESTRequestsPerSecond < 0 {
		c.Add(s.Line, "rest_requests_per_second must not be negative; 0 is no limit")
	}
	for _, p := range s.storageProblems() {
		c.Add(s.Line, "%s %s", p.Field, p.Code)
	}
	if s.TriggeredBuilds != nil && *s.TriggeredBuilds < 0 {
		c.Add(s.Line, "triggered_builds must not be negative")
	}
	for _, scope := range slices.Sorted(maps.Keys(s.StackRequestsPerSecond)) {
		if !slices.Contains(StackScopes(), scope) {
			c.Add(s.Line, "unknown scope %q in stack_requests_per_second; known are %s", scope, strings.Join(StackScopes(), ", "))
		} else if s.StackRequestsPerSecond[scope] < 1 {
			c.Add(s.Line, "the limit of the scope %s must be at least 1", scope)
		}
	}
	s.FairShare.check(c)
}

// storageProblems reports errors in what the spec says about retention and storage.
func (s Spec) storageProblems() (problems core.Problems) {
	for _, days := range []struct {
		name, forever string
		given         *int
	}{
		{"build_retention_days", "keeps builds for ever", s.BuildRetentionDays},
		{"test_retention_days", "keeps test results forever", s.TestRetentionDays},
		{"artifact_retention_days", "keeps artifacts as long as their builds", s.ArtifactRetentionDays},
		{"log_retention_days", "keeps logs as long as their builds", s.LogRetentionDays},
		{"delivery_retention_days", "keeps the last 100 of each service", s.DeliveryRetentionDays},
	} {
		if days.given != nil && (*days.given < 0 || *days.given > maxRetentionDays) {
			problems.Add(days.name, "must be an integer from 0, which %s, to %d", days.forever, maxRetentionDays)
		}
	}
	if n := s.AuditRetentionDays; n != nil && *n != 0 && (*n < minAuditDays || *n > maxRetentionDays) {
		problems.Add("audit_retention_days", "must be 0, which keeps the audit trail forever, or an integer from %d to %d", minAuditDays, maxRetentionDays)
	}
	if n := s.EventRetentionDays; n != nil && *n != 0 && (*n < minEventDays || *n > maxRetentionDays) {
		problems.Add("event_retention_days", "must be 0, which keeps events as long as the server does, or an integer from %d to %d", minEventDays, maxRetentionDays)
	}
	for _, bytes := range []struct {
		name  string
		given *int64
	}{{"artifact_bytes", s.ArtifactBytes}, {"log_bytes", s.LogBytes}, {"cache_bytes", s.CacheBytes}} {
		if n := bytes.given; n != nil && (*n < 0 || *n > maxBytes) {
			problems.Add(bytes.name, "must be an integer from 0, which is no limit, to %d", maxBytes)
		}
	}
	if at := s.AtArtifactLimit; at != nil && !slices.Contains(at.Values(), string(*at)) {
		problems.Add("at_artifact_limit", "must be one of %s", strings.Join(at.Values(), ", "))
	}
	return problems
}

// CheckStorage returns an error if what the spec says about retention and storage is not possible.
func (s Spec) CheckStorage() error { return s.storageProblems().Err() }

// maxBytes is the largest limit of bytes, an exabyte.
const maxBytes = int64(1_000_000_000_000_000_000)

func (s FairShareSpec) check(c *core.Complaints) {
	for _, slug := range slices.Sorted(maps.Keys(s.Weights)) {
		if weight := s.Weights[slug]; weight < 1 || weight > maxWeight {
			c.Add(s.Line, "the weight of the pipeline %s must be an integer from 1 to %d", slug, maxWeight)
		}
	}
}

// ApplyTo writes the limits that the spec gives into org. It leaves org as it is when that changes nothing.
func (s Spec) ApplyTo(org *identity.Organization) {
	before := Of(org)
	l := before
	core.SetGiven(&l.Stacks, s.Stacks)
	core.SetGiven(&l.RESTRequestsPerSecond, s.RESTRequestsPerSecond)
	core.SetGiven(&l.BuildRetentionDays, s.BuildRetentionDays)
	core.SetGiven(&l.TestRetentionDays, s.TestRetentionDays)
	core.SetGiven(&l.AuditRetentionDays, s.AuditRetentionDays)
	core.SetGiven(&l.ArtifactRetentionDays, s.ArtifactRetentionDays)
	core.SetGiven(&l.ArtifactBytes, s.ArtifactBytes)
	core.SetGiven(&l.AtArtifactLimit, s.AtArtifactLimit)
	core.SetGiven(&l.CacheBytes, s.CacheBytes)
	core.SetGiven(&l.LogRetentionDays, s.LogRetentionDays)
	core.SetGiven(&l.LogBytes, s.LogBytes)
	core.SetGiven(&l.EventRetentionDays, s.EventRetentionDays)
	core.SetGiven(&l.DeliveryRetentionDays, s.DeliveryRetentionDays)
	core.SetGiven(&l.TriggeredBuilds, s.TriggeredBuilds)
	core.SetGiven(&l.FairShare.On, s.FairShare.Enabled)
	l.StackRequestsPerSecond = merged(l.StackRequestsPerSecond, s.StackRequestsPerSecond)
	l.FairShare.Weights = merged(l.FairShare.Weights, s.FairShare.Weights)
	if !reflect.DeepEqual(l, before) {
		org.Limits = l.Encode()
	}
}

// merged returns numbers with the values of overrides on top. It never changes numbers itself.
func merged(numbers, overrides map[string]int) map[string]int {
	if len(overrides) == 0 {
		return numbers
	}
	result := make(map[string]int, len(numbers)+len(overrides))
	maps.Copy(result, numbers)
	maps.Copy(result, overrides)
	return result
}
