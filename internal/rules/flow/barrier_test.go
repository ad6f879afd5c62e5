package flow

import (
	"testing"

	"stackyard/internal/rules/definition"
)

func TestWait_PassesWhenAllBeforeSucceeded(t *testing.T) {
	s := begin(t, command("a"), command("b", softFail(3)), command("never", broken("conditional_failed")), wait("w"), command("c"))
	s.finish("a", 0)
	s.wants("w", Waiting)
	s.wants("c", Waiting)
	s.finish("b", 3)
	s.wants("w", APIPassed)
	s.wants("c", Scheduled)
}

func TestWait_StopsEverythingLaterAfterAFailure(t *testing.T) {
	s := begin(t, command("a"), command("b"), wait("w"), command("c"), wait("on", continueOnFailure), command("d"), block("ask"))
	s.finish("a", 1)
	s.wantsBuild(BuildFailing)
	s.wants("w", Waiting) // b may still upload steps before it
	s.finish("b", 0)
	for key, state := range map[string]JobState{
		"w": WaitingFailed, "c": WaitingFailed, "on": WaitingFailed, "d": WaitingFailed, "ask": BlockedFailed,
	} {
		s.wants(key, state)
	}
	s.wantsBuild(BuildFailed)
}

func TestWait_WithContinueOnFailurePassesOverFailures(t *testing.T) {
	s := begin(t, command("a"), wait("w", continueOnFailure), command("b"), wait("again", continueOnFailure), command("c"), wait("plain"), command("d"))
	s.finish("a", 1)
	s.wants("b", Scheduled)
	s.wantsBuild(BuildFailing)
	s.finish("b", 0)
	s.wants("c", Scheduled)
	s.finish("c", 0)
	s.wants("d", WaitingFailed) // not every earlier step succeeded
	s.wantsBuild(BuildFailed)
}

func TestWait_WithContinueOnFailureDoesNotPassOverACancel(t *testing.T) {
	s := begin(t, command("a"), wait("w", continueOnFailure), command("b"), wait("x", continueOnFailure), command("c"))
	s.on("a", (*Run).CancelJob)
	s.wants("b", WaitingFailed)
	s.wants("c", WaitingFailed)
}

func TestWait_BesideABlockIsAbsorbed(t *testing.T) {
	for _, specs := range [][]Spec{
		{command("a"), wait("w", continueOnFailure), block("ask"), command("b")},
		{command("a"), block("ask"), wait("w", continueOnFailure), command("b")},
	} {
		s := begin(t, specs...)
		s.finish("a", 1)
		s.wants("ask", BlockedFailed)
		s.wants("b", WaitingFailed)
	}
	s := begin(t, command("a"), wait("w"), block("ask"), wait("x"), command("b"))
	s.finish("a", 0)
	s.wantsBuild(BuildBlocked)
	s.on("ask", (*Run).Unblock)
	s.wants("b", Scheduled)
}

func TestWait_WaitsForWhatEarlierStepsUpload(t *testing.T) {
	s := begin(t, command("a"), command("up"), wait("w"), command("b"))
	s.finish("a", 0)
	s.start("up")
	s.upload("up", command("x"), wait("inner"), command("y"))
	s.finish("up", 0)
	s.finish("x", 0)
	s.wants("inner", APIPassed)
	s.wants("w", Waiting)
	s.finish("y", 0)
	s.wants("b", Scheduled)
}

func TestWait_ThatIsUploadedWaitsForWhatIsBeforeTheUploadingStep(t *testing.T) {
	s := begin(t, command("a"), command("up"), command("beside"))
	s.start("up")
	s.upload("up", command("x"))
	s.upload("up", wait("inner"), command("y"))
	s.finish("up", 0)
	s.finish("x", 0)
	s.wants("y", Waiting)
	s.finish("a", 0)
	s.wants("y", Scheduled) // beside comes after it, in the order of the pipeline
}

func TestWait_ThatIsUploadedWaitsForWhatEarlierStepsUploadLater(t *testing.T) {
	s := begin(t, command("first"), command("second"))
	s.start("first", "second")
	s.upload("first", command("x"))
	s.upload("second", wait("inner"), command("y"))
	s.upload("first", command("z"))
	s.finish("first", 0)
	s.finish("second", 0)
	s.finish("x", 0)
	s.wants("y", Waiting)
	s.finish("z", 0)
	s.wants("y", Scheduled)
}

func TestWait_BrokenByAConditionIsAsIfItWasNotThere(t *testing.T) {
	s := begin(t, command("a"), wait("w", broken("conditional_failed")), command("b"))
	s.wants("b", Scheduled)
}

func TestWait_InAGroupIsLocalToIt(t *testing.T) {
	s := begin(t,
		group("g", steps(command("a"), wait("local"), command("b"))),
		group("h", steps(command("c"))),
		command("d"), wait("w"), command("last"))
	s.wants("c", Scheduled)
	s.wants("d", Scheduled)
	s.wants("b", Waiting)
	s.finish("a", 0)
	s.wants("b", Scheduled)
	s.finish("c", 0)
	s.finish("d", 0)
	s.wants("last", Waiting)
	s.finish("b", 0)
	s.wants("last", Scheduled)
}

func TestGroup_WithDependenciesHoldsAllItsMembersBack(t *testing.T) {
	s := begin(t, command("a"), command("z"), group("g", steps(command("b"), wait("local"), command("c"), command("d", dependsOn("z"))), dependsOn("a")))
	s.finish("z", 0)
	s.wants("b", Waiting)
	s.wants("d", Waiting)
	s.finish("a", 0)
	s.wants("b", Scheduled)
	s.wants("c", Waiting)
	s.wants("d", Scheduled)
}

func TestGroup_TakesInUploadedMembers(t *testing.T) {
	s := begin(t, group("g", steps(command("up"))), command("after", dependsOn("g")))
	s.start("up")
	into := s.job("up")
	s.upload("up", Spec{Into: s.steps[into.StepID].Scope, Members: steps(command("x"))})
	s.finish("up", 0)
	s.wants("after", Waiting)
	s.finish("x", 0)
	s.wants("after", Scheduled)
	if got, want := s.steps[s.job("x").StepID].Scope, s.steps[into.StepID].Scope; got != want {
		t.Errorf("the scope is %q, want %q", got, want)
	}
}

func TestBlock_HoldsBackWhatComesAfterUntilItIsUnblocked(t *testing.T) {
	s := begin(t, command("a"), block("ask"), command("b"))
	s.wants("ask", Waiting)
	s.finish("a", 0)
	s.wants("ask", Blocked)
	s.wants("b", Waiting)
	s.wantsBuild(BuildBlocked)
	s.on("ask", (*Run).Unblock)
	s.wants("ask", Unblocked)
	s.wants("b", Scheduled)
	s.wantsBuild(BuildRunning)
	if s.job("ask").UnblockedAt.IsZero() {
		t.Error("UnblockedAt is not set")
	}
}

func TestInput_HoldsBackNothingButTheEnd(t *testing.T) {
	s := begin(t, input("ask"), command("a"))
	s.wants("a", Scheduled)
	s.finish("a", 0)
	s.wantsBuild(BuildBlocked)
	s.on("ask", (*Run).Unblock)
	s.wantsBuild(BuildPassed)
}

func TestUnblock_IsRefusedWithTheTextsOfTheSpecification(t *testing.T) {
	s := begin(t, command("a"), block("ask"), command("b"), block("later"))
	for _, test := range []struct{ key, want string }{
		{"a", "This job type cannot be unblocked"},
		{"ask", "The job's state must be blocked"},
	} {
		if err := s.try(test.key, (*Run).Unblock); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.key, err, test.want)
		}
	}
	s.must(s.do((*Run).CancelBuild))
	const want = "Jobs from canceled builds cannot be unblocked"
	if err := s.try("ask", (*Run).Unblock); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBlockedState_IsTheMostUrgentOfAllBlockedSteps(t *testing.T) {
	for _, test := range []struct {
		states []definition.BlockedState
		want   definition.BlockedState
	}{
		{[]definition.BlockedState{""}, definition.BlockedPassed},
		{[]definition.BlockedState{definition.BlockedPassed, definition.BlockedRunning}, definition.BlockedRunning},
		{[]definition.BlockedState{definition.BlockedRunning, definition.BlockedFailed}, definition.BlockedFailed},
	} {
		var specs []Spec
		for _, state := range test.states {
			specs = append(specs, input("", blockedState(state)))
		}
		s := begin(t, specs...)
		if got := s.build.BlockedState(); got != test.want || !s.build.Blocked() {
			t.Errorf("%v: got %s, want %s", test.states, got, test.want)
		}
	}
}

func TestReplace_SkipsAllThatHasNotStarted(t *testing.T) {
	s := begin(t, command("up"), command("running"), command("idle"), wait("w"), command("later"), block("ask"))
	s.start("up", "running")
	s.on("up", func(r *Run, id string) error {
		return r.AddSteps(id, steps(command("later"), wait(""), command("end")), true)
	})
	for _, key := range []string{"idle", "w", "ask"} {
		for _, step := range s.steps {
			if step.Key == key && (!step.Replaced || s.newest(step.ID)[0].State != Skipped) {
				t.Errorf("%s is %s", key, s.newest(step.ID)[0].State)
			}
		}
	}
	s.finish("up", 0)
	s.finish("later", 0)
	s.wants("end", Scheduled) // the running step comes after the new ones
	s.finish("end", 0)
	s.wantsBuild(BuildRunning)
	s.finish("running", 0)
	s.wantsBuild(BuildPassed)
}
