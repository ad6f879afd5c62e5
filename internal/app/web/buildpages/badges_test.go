package buildpages

import (
	"testing"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

func TestBadges_ExistForEveryState(t *testing.T) {
	for _, state := range []flow.BuildState{
		flow.BuildCreating, flow.BuildScheduled, flow.BuildRunning, flow.BuildFailing, flow.BuildBlocked, flow.BuildCanceling,
		flow.BuildPassed, flow.BuildFailed, flow.BuildCanceled, flow.BuildSkipped, flow.BuildNotRun,
	} {
		wantBadge(t, string(state), badgeOfBuild(state))
	}
	for _, state := range []flow.JobState{
		flow.Pending, flow.Waiting, flow.WaitingFailed, flow.Blocked, flow.BlockedFailed, flow.Unblocked, flow.UnblockedFailed,
		flow.Limiting, flow.Limited, flow.PlatformLimiting, flow.PlatformLimited, flow.Scheduled, flow.Assigned, flow.Accepted,
		flow.Running, flow.Finished, flow.Canceling, flow.Canceled, flow.TimingOut, flow.TimedOut, flow.Skipped, flow.Broken, flow.Expired,
	} {
		for _, kind := range []flow.JobType{flow.Script, flow.Waiter, flow.Manual, flow.Trigger} {
			j := &builds.Job{Job: flow.Job{Type: kind, State: state}}
			wantBadge(t, string(state), badgeOfJob(j))
			if shares := sharesOf(map[flow.JobState]int{j.APIState(): 2}); len(shares) != 1 || shares[0].Count != 2 || shares[0].Width != 100 {
				t.Errorf("jobs that are %s have the shares %v", state, shares)
			}
		}
	}
}

func wantBadge(t *testing.T, state string, l badge) {
	t.Helper()
	if l.Label == "" || pages.Icon(l.Icon) == "" {
		t.Errorf("%s looks like %+v", state, l)
	}
}

func TestBadges_DistinguishFailuresThatCount(t *testing.T) {
	one := 1
	for want, j := range map[string]flow.Job{
		"Failed":      {Type: flow.Script, State: flow.Finished, ExitStatus: &one},
		"Soft failed": {Type: flow.Script, State: flow.Finished, ExitStatus: &one, SoftFailed: true},
		"Failing":     {Type: flow.Script, State: flow.Running, PromisedExitStatus: &one},
		"Broken":      {Type: flow.Script, State: flow.Broken, Unreachable: true},
		"Skipped":     {Type: flow.Script, State: flow.Broken},
		"Done":        {Type: flow.Waiter, State: flow.Finished},
	} {
		if got := badgeOfJob(&builds.Job{Job: j}).Label; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
