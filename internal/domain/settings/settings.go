// Package settings holds the pipeline settings of an organization: what new pipelines begin with,
// what bounds every pipeline, and the switches that an administrator turns.
//
// An organization that never changed anything has no row and reads as the defaults, so [Of] always
// has an answer. A change locks the organization, reads the settings, changes them and writes them
// back whole, so that two administrators who change different fields at once both get their way.
//
// The settings decide nothing by themselves. Other rooms ask Of within their own transaction, and so
// a change takes effect with the next thing they do.
package settings

import "time"

// ExpiryChanged is the kind of the task that a change of ScheduledJobExpiry adds, whose key is the
// organization's id: jobs that are scheduled already go by the new time too.
const ExpiryChanged = "job-expiry-changed"

// DefaultBranch is the default branch of new pipelines where the organization names none.
const DefaultBranch = "main"

// Settings are the pipeline settings of one organization. Times are in minutes, 0 where not set.
type Settings struct {
	DefaultBranch    string // of new pipelines; never empty
	DefaultClusterID string // of new pipelines; empty where not set

	DefaultTimeout     int // of command steps of new pipelines; 0: none
	MaximumTimeout     int // of any pipeline's command steps; 0: no cap
	ScheduledJobExpiry int // of jobs that nobody starts; 0: after 30 days

	TerminalAccess  Switch // into jobs on hosted agents
	PublicPipelines Switch // members may create them
	QueueMetrics    Switch // the advanced ones; once enabled it stays so
	BuildExport     Destination
}

// defaults are the settings of an organization that never changed any.
var defaults = Settings{DefaultBranch: DefaultBranch}

// JobExpiry returns how long a job may be scheduled before it expires.
func (s Settings) JobExpiry() time.Duration {
	if s.ScheduledJobExpiry == 0 {
		return 30 * 24 * time.Hour
	}
	return time.Duration(s.ScheduledJobExpiry) * time.Minute
}

// A Switch is off, or remembers since when it is on and who turned it.
type Switch struct {
	EnabledAt time.Time
	EnabledBy Person // the zero Person when the user no longer exists
}

// A Person is the user who turned a switch.
type Person struct{ ID, Name string }

// Enabled reports whether the switch is on.
func (s Switch) Enabled() bool { return !s.EnabledAt.IsZero() }

// enable turns the switch on. One that is on already keeps who turned it first, and when.
func (s *Switch) enable(by Person, at time.Time) {
	if !s.Enabled() {
		*s = Switch{EnabledAt: at, EnabledBy: by}
	}
}

func (s *Switch) disable() { *s = Switch{} }

// A Destination is the bucket that finished builds are exported to; the zero value is none.
type Destination struct {
	Strategy string // one of blob.Strategies
	Location string // the bucket, and a folder in it if any, without the prefix of a URI
}
