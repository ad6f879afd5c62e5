// Package settings stores the pipeline settings of an organization: defaults of new pipelines, limits on all
// pipelines, and features that administrators switch on. It enforces nothing itself; other packages call Of in
// their own transaction, so a change takes effect with their next operation.
//
// An organization that never changed a setting has no row; [Of] returns the defaults then. A change locks the
// organization, reads the settings, changes them and writes all of them back, so that concurrent changes of
// different fields are all kept.
package settings

import "time"

// ExpiryChanged is the kind of the task that a change of ScheduledJobExpiry adds. Its key is the organization's
// id. It applies the new expiry to jobs that are already scheduled.
const ExpiryChanged = "job-expiry-changed"

// DefaultBranch is the default branch of new pipelines in organizations that do not set one.
const DefaultBranch = "main"

// Settings are the pipeline settings of one organization. Times are in minutes, 0 if not set.
type Settings struct {
	DefaultBranch    string // of new pipelines; never empty
	DefaultClusterID string // of new pipelines; empty: not set

	DefaultTimeout     int // of command steps of new pipelines; 0: none
	MaximumTimeout     int // of command steps of all pipelines; 0: no limit
	ScheduledJobExpiry int // of jobs that do not start; 0: after 30 days

	TerminalAccess  Switch // into jobs on hosted agents
	PublicPipelines Switch // whether members can create public pipelines
	QueueMetrics    Switch // advanced metrics; cannot be disabled
	BuildExport     Destination
}

// defaults are the settings of an organization that never changed any.
var defaults = Settings{DefaultBranch: DefaultBranch}

// JobExpiry returns how long a job can be scheduled before it expires.
func (s Settings) JobExpiry() time.Duration {
	if s.ScheduledJobExpiry == 0 {
		return 30 * 24 * time.Hour
	}
	return time.Duration(s.ScheduledJobExpiry) * time.Minute
}

// A Switch is a feature that is off, or on since a time by a user.
type Switch struct {
	EnabledAt time.Time
	EnabledBy Person // zero if the user was deleted
}

// A Person is the user who enabled a switch.
type Person struct{ ID, Name string }

// Enabled reports whether the switch is on.
func (s Switch) Enabled() bool { return !s.EnabledAt.IsZero() }

// enable sets the switch. If it is set already, the first user and time are kept.
func (s *Switch) enable(by Person, at time.Time) {
	if !s.Enabled() {
		*s = Switch{EnabledAt: at, EnabledBy: by}
	}
}

func (s *Switch) disable() { *s = Switch{} }

// A Destination is the bucket to which finished builds are exported; the zero value is none.
type Destination struct {
	Strategy string // one of blob.Strategies
	Location string // the bucket, and a folder in it if any, without the prefix of a URI
}
