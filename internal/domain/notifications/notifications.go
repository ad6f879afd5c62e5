// Package notifications manages the notification services of organizations: external destinations, such as webhooks
// and chat channels, that are notified of builds and jobs.
//
// The API resource "notification service" is a Receiver here, because Service is the name of the operations in every
// capability. Each receiver has a Provider (provider.go), which describes the settings it takes: their kind, default,
// visibility and update rules. Providers are data, one file each (provider_NAME.go). Validating, merging, masking and
// encrypting settings is the same code for all of them (settings.go). All settings of a receiver are encrypted
// together, so a provider cannot forget to encrypt one.
//
// To deliver notifications, use Enabled, Receiver.Covers, Service.Settings and MarkBroken. Results of Enabled can be
// cached until Topic is announced.
package notifications

import (
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// A Receiver is a notification service of an organization.
type Receiver struct {
	ID             string
	OrganizationID string
	Provider       *Provider
	Description    string
	Scope          Scope
	// ScopeIDs are the ids of the pipelines, teams or clusters that the scope selects. They can include ids of deleted
	// ones, which the API does not show.
	ScopeIDs []string
	Branches core.BranchFilter
	States   BuildStates
	// Connected receivers were authorized at the provider through the web. Their credentials cannot be edited.
	Connected    bool
	Disabled     bool
	BrokenAt     time.Time // zero: it works
	BrokenReason string
	CreatedBy    *identity.User
	CreatedAt    time.Time

	sealed string // settings; see Service.Settings
}

// Enabled reports whether notifications are sent to the receiver.
func (r *Receiver) Enabled() bool { return !r.Disabled && r.BrokenAt.IsZero() }

// enable clears the disabled and the broken state.
func (r *Receiver) enable() { r.Disabled, r.BrokenAt, r.BrokenReason = false, time.Time{}, "" }

// BuildStates selects the states that trigger a notification.
type BuildStates struct {
	Passed       bool `json:"build_passed"`
	Fixed        bool `json:"build_fixed"`
	Failed       bool `json:"build_failed"`
	Blocked      bool `json:"build_blocked"`
	Canceled     bool `json:"build_canceled"`
	Failing      bool `json:"build_failing"`
	JobActivated bool `json:"job_activated"`
}

// switches returns the fields by API name.
func (b *BuildStates) switches() map[string]*bool {
	return map[string]*bool{
		"build_passed":   &b.Passed,
		"build_fixed":    &b.Fixed,
		"build_failed":   &b.Failed,
		"build_blocked":  &b.Blocked,
		"build_canceled": &b.Canceled,
		"build_failing":  &b.Failing,
		"job_activated":  &b.JobActivated,
	}
}

// ByName returns the values by API name.
func (b BuildStates) ByName() map[string]bool {
	on := make(map[string]bool)
	for name, value := range b.switches() {
		on[name] = *value
	}
	return on
}

// Limits of a receiver. Lengths are in characters.
const (
	maxDescription = 2048
	maxBranches    = 2048
	maxBroken      = 1024
	// maxReceivers limits the receivers of an organization.
	maxReceivers = 1000
)

// check adds problems with the receiver's texts.
func (r *Receiver) check(problems *core.Problems) {
	checkText(problems, "description", r.Description, maxDescription)
	checkText(problems, "branch_configuration", string(r.Branches), maxBranches)
}

func checkText(problems *core.Problems, field, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		problems.Add(field, "must have at most %d characters, not %d", most, n)
	}
}
