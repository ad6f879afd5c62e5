package buildpages

import (
	"fmt"

	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

// A badge is how a state is shown: never by its color alone.
type badge struct {
	Class string // good, bad, warn, busy, or "" where nothing is decided yet or any more
	Icon  string
	Label string
}

var buildBadges = map[flow.BuildState]badge{
	flow.BuildCreating:  {"", "dots", "Creating"},
	flow.BuildScheduled: {"", "clock", "Scheduled"},
	flow.BuildRunning:   {"busy", "run", "Running"},
	flow.BuildFailing:   {"bad", "run", "Failing"},
	flow.BuildBlocked:   {"warn", "hand", "Blocked"},
	flow.BuildCanceling: {"warn", "slash", "Canceling"},
	flow.BuildPassed:    {"good", "check", "Passed"},
	flow.BuildFailed:    {"bad", "cross", "Failed"},
	flow.BuildCanceled:  {"", "slash", "Canceled"},
	flow.BuildSkipped:   {"", "skip", "Skipped"},
	flow.BuildNotRun:    {"", "skip", "Not run"},
}

var jobBadges = map[flow.JobState]badge{
	flow.Pending:         {"", "dots", "Pending"},
	flow.Waiting:         {"", "dots", "Waiting"},
	flow.WaitingFailed:   {"", "skip", "Not run"},
	flow.Blocked:         {"warn", "hand", "Blocked"},
	flow.BlockedFailed:   {"", "skip", "Not run"},
	flow.Unblocked:       {"good", "check", "Unblocked"},
	flow.UnblockedFailed: {"good", "check", "Unblocked"},
	flow.Limited:         {"", "clock", "Limited"},
	flow.Scheduled:       {"", "clock", "Scheduled"},
	flow.Assigned:        {"busy", "run", "Assigned"},
	flow.Accepted:        {"busy", "run", "Starting"},
	flow.Running:         {"busy", "run", "Running"},
	flow.APIPassed:       {"good", "check", "Passed"},
	flow.APIFailed:       {"bad", "cross", "Failed"},
	flow.Canceling:       {"warn", "slash", "Canceling"},
	flow.Canceled:        {"", "slash", "Canceled"},
	flow.TimingOut:       {"bad", "clock", "Timing out"},
	flow.TimedOut:        {"bad", "clock", "Timed out"},
	flow.Skipped:         {"", "skip", "Skipped"},
	flow.Broken:          {"", "skip", "Skipped"},
	flow.Expired:         {"bad", "clock", "Expired"},
}

func badgeOfBuild(s flow.BuildState) badge { return buildBadges[s] }

// A Badge is how a state is shown.
type Badge = badge

// BadgeOf returns how the state of a build is shown.
func BadgeOf(s flow.BuildState) Badge { return badgeOfBuild(s) }

func badgeOfJob(j *builds.Job) badge {
	l := jobBadges[j.APIState()]
	switch {
	case j.State == flow.Finished && j.Type == flow.Waiter:
		l.Class, l.Label = "", "Done"
	case j.State == flow.Finished && j.SoftFailed:
		l = badge{"warn", "alert", "Soft failed"}
	case j.State == flow.Broken && j.Unreachable:
		l = badge{"bad", "cross", "Broken"}
	case j.PromisedFailure():
		l.Class, l.Label = "bad", "Failing"
	}
	return l
}

// A share is the number of jobs of a build with the same badge.
type share struct {
	badge
	Count int
	X     float64 // where its part of a bar of width 100 begins
	Width float64
}

// Text returns the count of a share, for example "3 passed".
func (s share) Text() string { return fmt.Sprintf("%d %s", s.Count, s.Label) }

// A shareKind is what jobs in some states have in common.
type shareKind struct {
	label  string
	look   badge
	states []flow.JobState
}

// shareOrder is the order in the bar of a build: finished, running, pending.
var shareOrder = []shareKind{
	{"passed", badge{"good", "check", ""}, []flow.JobState{flow.APIPassed, flow.Unblocked, flow.UnblockedFailed}},
	{"failed", badge{"bad", "cross", ""}, []flow.JobState{flow.APIFailed, flow.TimedOut, flow.Expired}},
	{"soft failed", badge{"warn", "alert", ""}, []flow.JobState{builds.SoftFailed}},
	{"running", badge{"busy", "run", ""}, []flow.JobState{flow.Assigned, flow.Accepted, flow.Running, flow.Canceling, flow.TimingOut}},
	{"blocked", badge{"warn", "hand", ""}, []flow.JobState{flow.Blocked}},
	{"pending", badge{"", "clock", ""}, []flow.JobState{flow.Pending, flow.Waiting, flow.Limited, flow.Scheduled}},
	{"not run", badge{"", "skip", ""}, []flow.JobState{flow.WaitingFailed, flow.BlockedFailed, flow.Skipped, flow.Broken, flow.Canceled}},
}

// sharesOf groups the jobs of a build by badge.
func sharesOf(counts map[flow.JobState]int) []share {
	var shares []share
	total := 0
	for _, of := range shareOrder {
		s := share{badge: of.look}
		s.Label = of.label
		for _, state := range of.states {
			s.Count += counts[state]
		}
		if s.Count > 0 {
			shares = append(shares, s)
			total += s.Count
		}
	}
	x := 0.0
	for i := range shares {
		s := &shares[i]
		s.X, s.Width = x, 100*float64(s.Count)/float64(total)
		x += s.Width
	}
	return shares
}
