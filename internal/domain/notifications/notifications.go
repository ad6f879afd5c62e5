// Package notifications keeps the notification services of an organization: destinations outside of it, such as
// webhooks and chat channels, to which it sends what happens to its builds and jobs.
//
// In the API the resource is called a notification service; here it is a Receiver, because Service is what every
// capability calls its operations. What receivers of one kind have in common is a Provider (provider.go): the
// settings that it takes, each with its kind, its default, who may change it and how much of it is shown. Each
// provider has a file of its own, provider_NAME.go. A provider is data: settings.go validates, merges, masks and seals
// the settings of all of them.
//
// All settings of a receiver are sealed at rest as one text, so that no provider can forget to.
//
// This package decides which receivers there are and what they cover (scope.go). Deliver to them with Enabled,
// Service.Settings and MarkBroken, and subscribe to Topic to keep what Enabled returned.
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
	// ScopeIDs are those of the pipelines, teams or clusters that the scope selects. Ids of what was deleted may be
	// among them; REST does not show those.
	ScopeIDs []string
	Branches core.BranchFilter
	States   BuildStates
	// Connected says that people authorized it at the provider, through the web, so that its credentials are the
	// provider's to change.
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

// enable undoes whatever stopped notifications.
func (r *Receiver) enable() { r.Disabled, r.BrokenAt, r.BrokenReason = false, time.Time{}, "" }

// BuildStates are the switches for what the receiver wants to be notified of.
type BuildStates struct {
	Passed       bool `json:"build_passed"`
	Fixed        bool `json:"build_fixed"`
	Failed       bool `json:"build_failed"`
	Blocked      bool `json:"build_blocked"`
	Canceled     bool `json:"build_canceled"`
	Failing      bool `json:"build_failing"`
	JobActivated bool `json:"job_activated"`
}

// switches returns the switches by the names that they have in the API.
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

// ByName returns whether each switch is on, by the name that it has in the API.
func (b BuildStates) ByName() map[string]bool {
	on := make(map[string]bool)
	for name, value := range b.switches() {
		on[name] = *value
	}
	return on
}

// The bounds of what people write about a receiver, in characters where they are of texts.
const (
	maxDescription = 2048
	maxBranches    = 2048
	maxBroken      = 1024
	// maxReceivers is how many receivers an organization can have.
	maxReceivers = 1000
)

// check notes what is wrong with the texts that people write about a receiver.
func (r *Receiver) check(problems *core.Problems) {
	checkText(problems, "description", r.Description, maxDescription)
	checkText(problems, "branch_configuration", string(r.Branches), maxBranches)
}

func checkText(problems *core.Problems, field, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		problems.Add(field, "must have at most %d characters, not %d", most, n)
	}
}
