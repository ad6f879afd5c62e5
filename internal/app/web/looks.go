package web

import (
	"fmt"

	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

// A look is how a state is shown: never by its color alone.
type look struct {
	Class string // good, bad, warn, busy, or "" where nothing is decided yet or any more
	Icon  string
	Word  string
}

var buildLooks = map[flow.BuildState]look{
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

var jobLooks = map[flow.JobState]look{
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

func lookOfBuild(s flow.BuildState) look { return buildLooks[s] }

func lookOfJob(j *builds.Job) look {
	l := jobLooks[j.APIState()]
	switch {
	case j.State == flow.Finished && j.Type == flow.Waiter:
		l.Class, l.Word = "", "Done"
	case j.State == flow.Finished && j.SoftFailed:
		l = look{"warn", "alert", "Soft failed"}
	case j.State == flow.Broken && j.Unreachable:
		l = look{"bad", "cross", "Broken"}
	case j.PromisedFailure():
		l.Class, l.Word = "bad", "Failing"
	}
	return l
}

// A share is how many jobs of a build look alike.
type share struct {
	look
	Count int
	X     float64 // where its part of a bar of 100 begins
	Width float64
}

// Words are the counts of a share: "3 passed".
func (s share) Words() string { return fmt.Sprintf("%d %s", s.Count, s.Word) }

// shareOrder is how the bar of a build reads: what is over, what goes on, what is to come.
var shareOrder = []struct {
	word   string
	look   look
	states []flow.JobState
}{
	{"passed", look{"good", "check", ""}, []flow.JobState{flow.APIPassed, flow.Unblocked, flow.UnblockedFailed}},
	{"failed", look{"bad", "cross", ""}, []flow.JobState{flow.APIFailed, flow.TimedOut, flow.Expired}},
	{"soft failed", look{"warn", "alert", ""}, []flow.JobState{builds.SoftFailed}},
	{"running", look{"busy", "run", ""}, []flow.JobState{flow.Assigned, flow.Accepted, flow.Running, flow.Canceling, flow.TimingOut}},
	{"blocked", look{"warn", "hand", ""}, []flow.JobState{flow.Blocked}},
	{"pending", look{"", "clock", ""}, []flow.JobState{flow.Pending, flow.Waiting, flow.Limited, flow.Scheduled}},
	{"not run", look{"", "skip", ""}, []flow.JobState{flow.WaitingFailed, flow.BlockedFailed, flow.Skipped, flow.Broken, flow.Canceled}},
}

// sharesOf returns how the jobs of a build are shared out among the ways they look.
func sharesOf(counts map[flow.JobState]int) []share {
	var shares []share
	total := 0
	for _, of := range shareOrder {
		s := share{look: of.look}
		s.Word = of.word
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
