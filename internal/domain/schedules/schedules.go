// Package schedules starts builds of pipelines at the times of cron lines.
//
// A [Schedule] that is enabled has one task, which is due at its next time. The task creates the build and moves the
// schedule to the time after it in one transaction (run.go). The build's origin is the schedule and the time, so there
// is one build for each time, whichever replica runs the task and whatever crashes. Package cron computes the times,
// also across clock changes.
//
// Times missed while no server ran are not made up one by one: see [Schedule.due]. A schedule whose builds cannot be
// created keeps the reason, and is disabled after several failures in a row.
package schedules

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/cron"
)

// Limits of schedules.
const (
	maxLabel   = 255      // characters
	maxEnv     = 64 << 10 // bytes of JSON
	maxPerPipe = 100      // schedules of a pipeline
	headCommit = "HEAD"   // commit unless given
	maxReason  = 1000     // characters of a failure's reason
	previewed  = 10       // upcoming times in a preview
)

// A Schedule starts builds of a pipeline at the times of a cron line.
type Schedule struct {
	ID             string
	OrganizationID string
	PipelineID     string
	Label          string
	Cronline       string
	Message        string // of the builds; empty: that of the commit
	Commit         string // empty: HEAD
	Branch         string // empty: the pipeline's default branch
	Env            map[string]string
	Enabled        bool
	NextAt         time.Time // zero: disabled
	Failures       int       // since the last build
	FailedMessage  string    // of the last failure
	FailedAt       time.Time
	CreatedBy      *identity.User
	CreatedAt      time.Time
}

// Service manages schedules.
type Service struct {
	db        *db.DB
	pipelines *pipelines.Service
	builds    *lifecycle.Service
	events    *events.Service
	public    core.PublicURL
	clock     core.Clock
	log       *slog.Logger
}

// New returns the service of the schedules in a database.
func New(d *db.DB, p *pipelines.Service, b *lifecycle.Service, e *events.Service, public core.PublicURL, clock core.Clock, log *slog.Logger) *Service {
	return &Service{db: d, pipelines: p, builds: b, events: e, public: public, clock: clock, log: log}
}

// check reports problems of the schedule and sets the time of its next build if it must change.
func (s *Schedule) check(now time.Time, reschedule bool) error {
	var wrong core.Problems
	s.Cronline = strings.TrimSpace(s.Cronline)
	line, err := parse(s.Cronline, now)
	if err != nil {
		wrong.Add("cronline", "%s", err)
	}
	checkLength(&wrong, "label", s.Label, maxLabel)
	checkLength(&wrong, "message", s.Message, lifecycle.MaxMessage)
	checkLength(&wrong, "commit", s.Commit, lifecycle.MaxName)
	checkLength(&wrong, "branch", s.Branch, lifecycle.MaxName)
	for name := range s.Env {
		if name == "" || strings.Contains(name, "=") {
			wrong.Add("env", `has a variable %q; a name cannot be empty or contain "="`, core.Cut(name, 100))
		}
	}
	if text, err := json.Marshal(s.Env); err != nil || len(text) > maxEnv {
		wrong.Add("env", "must have at most %d bytes as JSON, not %d", maxEnv, len(text))
	}
	if err := wrong.Err(); err != nil {
		return err
	}
	switch {
	case !s.Enabled:
		s.NextAt = time.Time{}
	case reschedule:
		s.NextAt = line.Next(now)
	}
	return nil
}

// parse reads a cron line that runs at least once.
func parse(text string, now time.Time) (*cron.Line, error) {
	line, err := cron.Parse(text)
	if err == nil && line.Next(now).IsZero() {
		err = core.Errorf(core.Unprocessable, "never runs: no day matches its day of the month and month")
	}
	return line, err
}

func checkLength(wrong *core.Problems, field, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		wrong.Add(field, "must have at most %d characters, not %d", most, n)
	}
}

// Each missed time within shortDelay gets its build, so that a restart loses none. After a longer time without a server,
// only the last missed time gets one, if it is within longDelay.
const (
	shortDelay = 5 * time.Minute
	longDelay  = 12 * time.Hour
)

// due returns the time for which a build must be created now, the zero time for none, and the time after it.
func (s *Schedule) due(line *cron.Line, now time.Time) (at, next time.Time) {
	at = s.NextAt
	if now.Sub(at) <= shortDelay {
		return at, line.Next(at)
	}
	if oldest := now.Add(-longDelay); at.Before(oldest) {
		at = line.Next(oldest.Add(-time.Nanosecond))
	}
	if at.IsZero() || at.After(now) {
		return time.Time{}, at
	}
	for next = line.Next(at); !next.IsZero() && !next.After(now); next = line.Next(at) {
		at = next
	}
	return at, next
}

// creation returns the build for a time of the schedule.
func (s *Schedule) creation(p *pipelines.Pipeline, creator *identity.User, at time.Time) lifecycle.Creation {
	c := lifecycle.Creation{
		Commit:      cmp.Or(s.Commit, headCommit),
		Branch:      cmp.Or(s.Branch, p.DefaultBranch),
		Source:      builds.FromSchedule,
		Creator:     creator,
		ScheduledAt: at,
		Origin:      "schedule:" + s.ID + ":" + at.UTC().Format(time.RFC3339),
		Details:     builds.Details{Message: s.Message, Env: s.Env},
	}
	if creator != nil {
		c.Author = &builds.Author{Name: creator.Name, Email: creator.Email}
	}
	return c
}
