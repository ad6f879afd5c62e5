package flow

import (
	"testing"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/definition"
)

func promises(status int) func(*Run, string) error {
	return func(r *Run, id string) error { return r.Promise(id, "", status, true) }
}

func anyFailure(limit int) definition.RetryRule {
	return definition.RetryRule{ExitStatus: definition.ExitStatus{Any: true}, Limit: limit}
}

func status(limit int, codes ...int) definition.RetryRule {
	return definition.RetryRule{ExitStatus: definition.ExitStatus{Codes: codes}, Limit: limit}
}

func TestAutomaticRetry_FollowsTheFirstRuleThatMatches(t *testing.T) {
	stackError := definition.RetryRule{ExitStatus: definition.ExitStatus{Codes: []int{-1}}, SignalReason: "stack_error"}
	for _, test := range []struct {
		name  string
		rules []definition.RetryRule
		exits []Exit
		want  int // attempts
	}{
		{"no rules", nil, []Exit{{Status: 1}}, 1},
		{"passed", []definition.RetryRule{anyFailure(2)}, []Exit{{}}, 1},
		{"any failure, twice", []definition.RetryRule{anyFailure(2)}, []Exit{{Status: 1}, {Status: -1}, {Status: 7}}, 3},
		{"a listed exit status", []definition.RetryRule{status(2, 3, 4)}, []Exit{{Status: 4}, {Status: 5}}, 2},
		{"limit zero forbids", []definition.RetryRule{status(0, 3), anyFailure(2)}, []Exit{{Status: 3}}, 1},
		{"counts are per rule", []definition.RetryRule{status(1, 1), status(1, 2)}, []Exit{{Status: 1}, {Status: 2}, {Status: 1}}, 3},
		{"a rule used up hides the next", []definition.RetryRule{status(1, 1), anyFailure(5)}, []Exit{{Status: 1}, {Status: 1}}, 2},
		{"a stack error that must not be retried", []definition.RetryRule{stackError, anyFailure(2)}, []Exit{{Status: -1, SignalReason: "stack_error"}}, 1},
		{"another -1 is retried", []definition.RetryRule{stackError, anyFailure(1)}, []Exit{{Status: -1, SignalReason: "agent_lost"}, {Status: -1}}, 2},
		{"a signal by name", []definition.RetryRule{{Signal: "KILL", Limit: 1}}, []Exit{{Status: 137, Signal: "SIGKILL"}, {Status: 137, Signal: "kill"}}, 2},
		{"another signal", []definition.RetryRule{{Signal: "KILL", Limit: 1}}, []Exit{{Status: 143, Signal: "SIGTERM"}}, 1},
		{"any signal", []definition.RetryRule{{Signal: "*", Limit: 1}}, []Exit{{Status: 143, Signal: "SIGTERM"}, {Status: 1}}, 2},
		{"no signal", []definition.RetryRule{{Signal: "none", Limit: 1}}, []Exit{{Status: 143, Signal: "SIGTERM"}}, 1},
		{"no signal reason", []definition.RetryRule{{SignalReason: "none", Limit: 1}}, []Exit{{Status: 1}, {Status: -1, SignalReason: "agent_lost"}}, 2},
		{"any signal reason", []definition.RetryRule{{SignalReason: "*", Limit: 1}}, []Exit{{Status: 1}}, 1},
		{"all conditions at once", []definition.RetryRule{{ExitStatus: definition.ExitStatus{Codes: []int{255}}, SignalReason: "agent_stop", Limit: 1}}, []Exit{{Status: 255, SignalReason: "cancel"}}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, command("a", rules(test.rules...)), wait("w"), command("b"))
			for _, exit := range test.exits {
				s.start("a")
				s.on("a", func(r *Run, id string) error { return r.Finish(id, "", exit) })
			}
			if got := len(s.byStep[s.job("a").StepID]); got != test.want {
				t.Errorf("there were %d attempts, want %d", got, test.want)
			}
		})
	}
}

func TestAutomaticRetry_LeavesNoTraceInTheBuild(t *testing.T) {
	s := begin(t, command("a", rules(anyFailure(1))), wait("w"), command("b"))
	first := s.job("a")
	s.finish("a", 1)
	s.wantsBuild(BuildRunning)
	s.wants("w", Waiting)
	second := s.job("a")
	first = s.jobs[first.ID]
	if !first.Retried || first.RetriedIn != second.ID || first.APIState() != APIFailed {
		t.Errorf("the first attempt: %+v", first)
	}
	if second.RetryOf != first.ID || second.RetryType != RetryAutomatic || second.RetriesCount != 1 || second.State != Scheduled {
		t.Errorf("the second attempt: %+v", second)
	}
	s.finish("a", 0)
	s.wants("b", Scheduled)
	if !s.build.FailingAt.IsZero() {
		t.Error("the build was failing")
	}
}

func TestAutomaticRetry_AppliesToTimeoutsButNeverToCanceledJobs(t *testing.T) {
	s := begin(t, command("a", rules(anyFailure(2))))
	timesOut(s, "a")
	s.wants("a", Scheduled)
	s.start("a")
	s.on("a", (*Run).CancelJob)
	s.on("a", exits(143))
	s.wants("a", Canceled)

	s = begin(t, command("a", rules(anyFailure(2))), command("b"))
	s.start("a", "b")
	s.on("a", (*Run).TimeOut)
	s.must(s.do((*Run).CancelBuild))
	s.on("a", exits(143))
	s.wants("a", TimedOut)
}

func TestRetry_BringsBackWhatTheFailureStopped(t *testing.T) {
	s := begin(t, command("a"), command("z"), wait("w"), command("b"), block("ask"), command("c"), command("d", dependsOn("a")))
	s.finish("a", 1)
	s.finish("z", 0)
	s.wants("c", WaitingFailed)
	s.wants("ask", BlockedFailed)
	s.wants("d", WaitingFailed)
	s.wantsBuild(BuildFailed)
	s.on("a", retry)
	for _, key := range []string{"w", "b", "ask", "c", "d"} {
		s.wants(key, Waiting)
	}
	s.finish("a", 0)
	s.wants("d", Scheduled)
	s.finish("b", 0)
	s.finish("d", 0)
	s.wantsBuild(BuildBlocked)
	s.on("ask", (*Run).Unblock)
	s.finish("c", 0)
	s.wantsBuild(BuildPassed)
}

func TestRetry_OfAStepThatOthersPassedOverLeavesThemAlone(t *testing.T) {
	s := begin(t, command("a"), wait("w", continueOnFailure), command("b"), wait("plain"), command("c"))
	s.finish("a", 1)
	s.finish("b", 0)
	s.wants("c", WaitingFailed)
	s.on("a", retry)
	s.wants("b", APIPassed)
	s.wants("c", Waiting)
	s.finish("a", 0)
	s.wants("c", Scheduled)
}

func TestRetry_IsRefusedWithTheTextsOfTheSpecification(t *testing.T) {
	notAllowed := func(reason string) func(*Spec) {
		return func(s *Spec) {
			s.Step.Retry.Manual = definition.ManualRetry{Reason: reason}
		}
	}
	for _, test := range []struct {
		name string
		step Spec
		do   func(*scenario)
		kind core.Kind
		want string
	}{
		{"scheduled", command("a"), func(*scenario) {}, core.BadRequest, "Only failed, timed out or canceled jobs can be retried"},
		{"running", command("a"), func(s *scenario) { s.start("a") }, core.BadRequest, "Only failed, timed out or canceled jobs can be retried"},
		{"passed", command("a"), func(s *scenario) { s.finish("a", 0) }, core.BadRequest, "Only failed, timed out or canceled jobs can be retried"},
		{"block", block("a"), func(s *scenario) { s.on("a", (*Run).CancelJob) }, core.BadRequest, "Only failed, timed out or canceled jobs can be retried"},
		{"broken", command("a", broken("conditional_failed")), func(*scenario) {}, core.BadRequest, "Only failed, timed out or canceled jobs can be retried"},
		{"build canceled", command("a"), func(s *scenario) { s.must(s.do((*Run).CancelBuild)) }, core.Unprocessable, "Jobs from canceled builds cannot be retried"},
		{"build canceling", command("a"), func(s *scenario) {
			s.start("beside")
			s.must(s.do((*Run).CancelBuild))
		}, core.Unprocessable, "Jobs from canceled builds cannot be retried"},
		{"build skipped", command("a", softFail()), func(s *scenario) { cancels(s, "a"); s.must(s.do((*Run).SkipBuild)) }, core.Unprocessable, "Jobs from skipped builds cannot be retried"},
		{"parent canceled", command("a"), func(s *scenario) { s.finish("a", 1); s.build.Orphaned = true }, core.Unprocessable, "Jobs from builds that were triggered by a canceled build cannot be retried"},
		{"unreachable", command("a", dependsOn("nobody", "beside"), parallel(2)), func(s *scenario) { cancels(s, "a"); s.finish("beside", 0) }, core.Unprocessable, "This job cannot be retried, because its step depends on one that does not exist"},
		{"not allowed", command("a", notAllowed("")), func(s *scenario) { s.finish("a", 1) }, core.Unprocessable, "This job cannot be retried by hand, because its step does not allow it"},
		{"not allowed for a reason", command("a", notAllowed("it deploys")), func(s *scenario) { s.finish("a", 1) }, core.Unprocessable, "This job cannot be retried by hand: it deploys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, test.step, command("beside", dependsOn()))
			test.do(s)
			err := s.try("a", retry)
			if err == nil || err.Error() != test.want || core.KindOf(err) != test.kind {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	t.Run("already retried", func(t *testing.T) {
		s := begin(t, command("a"))
		s.finish("a", 1)
		id := s.job("a").ID
		s.on("a", retry)
		const want = "This job has already been retried"
		if err := s.do(func(r *Run) error { return retry(r, id) }); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

func TestRetry_IsAllowedFor(t *testing.T) {
	for name, test := range map[string]struct {
		step Spec
		end  func(*scenario, string)
	}{
		"failed":                {command("a"), fails},
		"soft failed":           {command("a", softFail()), fails},
		"timed out":             {command("a"), timesOut},
		"canceled":              {command("a"), cancels},
		"expired":               {command("a"), expires},
		"passed, if permitted":  {command("a", permitOnPassed), passes},
		"in concurrency groups": {command("a", limit("g", 1)), fails},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, test.step, command("beside"))
			test.end(s, "a")
			s.on("a", retry)
			s.wants("a", Scheduled)
			if j := s.job("a"); j.RetryType != RetryManual || j.RetriesCount != 1 {
				t.Errorf("the new job is %+v", j)
			}
		})
	}
}

func TestPromise_DecidesWithTheRealExit(t *testing.T) {
	for _, test := range []struct {
		name          string
		step          Spec
		promised      int
		meanwhile     BuildState
		real          int
		want          int // exit status
		soft, retried bool
		build         BuildState
	}{
		{"kept", command("a"), 2, BuildFailing, 2, 2, false, false, BuildFailing},
		{"would have passed", command("a"), 2, BuildFailing, 0, 2, false, false, BuildFailing},
		{"would have soft failed", command("a", softFail(3)), 2, BuildFailing, 3, 2, false, false, BuildFailing},
		{"failed otherwise", command("a"), 2, BuildFailing, 5, 5, false, false, BuildFailing},
		{"covered by soft_fail", command("a", softFail(2)), 2, BuildRunning, 0, 2, true, false, BuildRunning},
		{"covered by soft_fail, and failed hard", command("a", softFail(2)), 2, BuildRunning, 1, 1, false, false, BuildFailing},
		{"covered by a retry", command("a", rules(status(1, 2))), 2, BuildRunning, 0, 2, false, true, BuildRunning},
		{"covered by a retry that is used up", command("a", rules(status(0, 2))), 2, BuildFailing, 0, 2, false, false, BuildFailing},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, test.step, command("beside"))
			id := s.job("a").ID
			s.start("a")
			s.on("a", promises(test.promised))
			s.wants("a", Running)
			s.wantsBuild(test.meanwhile)
			if got, want := s.job("a").PromisedFailure(), !covers(test.step.Jobs[0].SoftFail, test.promised); got != want {
				t.Errorf("PromisedFailure is %t, want %t", got, want)
			}
			s.on("a", exits(test.real))
			j := s.jobs[id]
			if *j.ExitStatus != test.want || j.SoftFailed != test.soft || j.Retried != test.retried {
				t.Errorf("exit status %d, soft failed %t, retried %t", *j.ExitStatus, j.SoftFailed, j.Retried)
			}
			s.wantsBuild(test.build)
		})
	}
}

func TestPromise_IsForRunningCommandJobsOnceAndNotZero(t *testing.T) {
	s := begin(t, command("a"), trigger("child"))
	s.on("child", (*Run).ChildCreated)
	refused := func(key string, status int, want string) {
		t.Helper()
		if err := s.try(key, promises(status)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	refused("a", 1, "Only a command job that is running can promise an exit status")
	refused("child", 1, "Only a command job that is running can promise an exit status")
	s.start("a")
	refused("a", 0, "A promised exit status must not be zero")
	s.on("a", promises(1))
	refused("a", 2, "This job has already promised the exit status 1")
	s.on("a", promises(1))
}
