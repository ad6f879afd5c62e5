package flow

import (
	"slices"
	"testing"
	"time"
)

func TestBuild_MovesAsTheTableSays(t *testing.T) {
	cancelBuild := func(s *scenario) { s.must(s.do((*Run).CancelBuild)) }
	for _, test := range []struct {
		name  string
		steps []Spec
		do    func(*scenario)
		want  []BuildState
	}{
		{"jobs created", steps(command("a")), func(*scenario) {}, []BuildState{BuildScheduled}},
		{"first job starts", steps(command("a")), func(s *scenario) { s.start("a") }, []BuildState{BuildScheduled, BuildRunning}},
		{"every step conditioned out", steps(command("a", broken("conditional_failed")), wait("w"), command("b", broken("branch_mismatch"))), func(*scenario) {}, []BuildState{BuildScheduled, BuildNotRun}},
		{"no step at all", nil, func(*scenario) {}, []BuildState{BuildScheduled, BuildNotRun}},
		{"a newer build", steps(command("a"), wait("w"), command("b")), func(s *scenario) { s.must(s.do((*Run).SkipBuild)) }, []BuildState{BuildScheduled, BuildSkipped}},
		{"the first live step is a block step", steps(command("a", broken("x")), block("ask"), command("b")), func(*scenario) {}, []BuildState{BuildScheduled, BuildBlocked}},
		{"cancel before any job started", steps(command("a")), cancelBuild, []BuildState{BuildScheduled, BuildCanceled}},
		{"all jobs passed", steps(command("a")), func(s *scenario) { s.finish("a", 0) }, []BuildState{BuildScheduled, BuildRunning, BuildPassed}},
		{"a job soft failed", steps(command("a", softFail(1))), func(s *scenario) { s.finish("a", 1) }, []BuildState{BuildScheduled, BuildRunning, BuildPassed}},
		{"a job failed", steps(command("a")), func(s *scenario) { s.finish("a", 1) }, []BuildState{BuildScheduled, BuildRunning, BuildFailed}},
		{"a job timed out", steps(command("a")), func(s *scenario) { timesOut(s, "a") }, []BuildState{BuildScheduled, BuildRunning, BuildFailed}},
		{"a job was canceled", steps(command("a"), command("b")), func(s *scenario) { s.finish("b", 0); cancels(s, "a") }, []BuildState{BuildScheduled, BuildRunning, BuildFailed}},
		{"a job with soft_fail was canceled", steps(command("a", softFail()), command("b")), func(s *scenario) { s.finish("b", 0); cancels(s, "a") }, []BuildState{BuildScheduled, BuildRunning, BuildPassed}},
		{"a job expired", steps(command("a")), func(s *scenario) { expires(s, "a") }, []BuildState{BuildScheduled, BuildRunning, BuildFailed}},
		{"hard failure with work remaining", steps(command("a"), command("b")), func(s *scenario) { s.finish("a", 1) }, []BuildState{BuildScheduled, BuildRunning, BuildFailing}},
		{"remaining work done", steps(command("a"), command("b")), func(s *scenario) { s.finish("a", 1); s.finish("b", 0) }, []BuildState{BuildScheduled, BuildRunning, BuildFailing, BuildFailed}},
		{"only a block step remains", steps(command("a"), block("ask")), func(s *scenario) { s.finish("a", 0) }, []BuildState{BuildScheduled, BuildRunning, BuildBlocked}},
		{"unblock", steps(block("ask"), command("a")), func(s *scenario) { s.on("ask", (*Run).Unblock) }, []BuildState{BuildScheduled, BuildBlocked, BuildRunning}},
		{"unblock of the last step", steps(block("ask")), func(s *scenario) { s.on("ask", (*Run).Unblock) }, []BuildState{BuildScheduled, BuildBlocked, BuildRunning, BuildPassed}},
		{"cancel while blocked", steps(block("ask")), cancelBuild, []BuildState{BuildScheduled, BuildBlocked, BuildCanceled}},
		{"cancel while running", steps(command("a"), command("b")), func(s *scenario) { s.start("a"); cancelBuild(s) }, []BuildState{BuildScheduled, BuildRunning, BuildCanceling}},
		{"cancel while failing", steps(command("a"), command("b")), func(s *scenario) { s.finish("a", 1); cancelBuild(s) }, []BuildState{BuildScheduled, BuildRunning, BuildFailing, BuildCanceling, BuildCanceled}},
		{"last job wound down", steps(command("a"), command("b")), func(s *scenario) { s.start("a"); cancelBuild(s); s.on("a", exits(0)) }, []BuildState{BuildScheduled, BuildRunning, BuildCanceling, BuildCanceled}},
		{"the failing job is retried", steps(command("a"), command("b")), func(s *scenario) { s.finish("a", 1); s.on("a", retry) }, []BuildState{BuildScheduled, BuildRunning, BuildFailing, BuildRunning}},
		{"a job of a failed build is retried", steps(command("a")), func(s *scenario) { s.finish("a", 1); s.on("a", retry) }, []BuildState{BuildScheduled, BuildRunning, BuildFailed, BuildRunning}},
		{"one of two failed jobs is retried", steps(command("a"), command("b")), func(s *scenario) { s.finish("a", 1); s.finish("b", 1); s.on("a", retry) }, []BuildState{BuildScheduled, BuildRunning, BuildFailing, BuildFailed, BuildRunning, BuildFailing}},
		{"a job of a passed build is retried", steps(command("a", permitOnPassed)), func(s *scenario) { s.finish("a", 0); s.on("a", retry) }, []BuildState{BuildScheduled, BuildRunning, BuildPassed, BuildRunning}},
		{"a stack finishes a job", steps(command("a")), func(s *scenario) {
			s.on("a", func(r *Run, id string) error { return r.FinishUnstarted(id, Exit{}) })
		}, []BuildState{BuildScheduled, BuildRunning, BuildPassed}},
		{"a failure beside an input step", steps(command("a"), input("ask")), func(s *scenario) { s.finish("a", 1) }, []BuildState{BuildScheduled, BuildRunning, BuildFailing}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, test.steps...)
			test.do(s)
			if !slices.Equal(s.states, test.want) {
				t.Errorf("the build moved through %v, want %v", s.states, test.want)
			}
			if err := s.verify(); err != nil {
				t.Error(err)
			}
			for i, state := range s.states[1:] {
				if !slices.Contains(buildMoves[s.states[i]], state) {
					t.Errorf("%s to %s is not in the table", s.states[i], state)
				}
			}
		})
	}
}

func permitOnPassed(s *Spec) { s.Step.Retry.Manual.PermitOnPassed = true }

func TestBuild_RecordsWhenItStartedFailedAndFinished(t *testing.T) {
	s := begin(t, command("a"), command("b"))
	at := func() time.Time { return s.now }
	s.on("a", assign)
	s.on("a", accept)
	if !s.build.StartedAt.IsZero() {
		t.Error("the build started before its first job")
	}
	s.on("a", starts)
	started := at()
	s.on("a", exits(1))
	failing := at()
	s.finish("b", 0)
	if b := s.build; b.StartedAt != started || b.FailingAt != failing || b.FinishedAt != at() {
		t.Errorf("started %v, failing %v, finished %v", b.StartedAt, b.FailingAt, b.FinishedAt)
	}
	s.on("a", retry)
	if b := s.build; b.FailingAt != failing || !b.FinishedAt.IsZero() {
		t.Errorf("after a retry: failing %v, finished %v", b.FailingAt, b.FinishedAt)
	}
	s.finish("a", 0)
	s.wantsBuild(BuildPassed)
	if s.build.FinishedAt != at() || s.build.FailingAt != failing {
		t.Error("the build finished again and nobody noted when")
	}
}

func TestCancelBuild_EndsEveryJob(t *testing.T) {
	s := begin(t, command("done"), command("running"), command("accepted"), command("assigned"), command("scheduled"),
		command("limited", limit("g", 1), parallel(2)), trigger("child"), input("ask"), wait("w"), command("waiting"))
	s.finish("done", 0)
	s.start("running")
	s.on("accepted", assign)
	s.on("accepted", accept)
	s.on("assigned", assign)
	s.on("child", (*Run).ChildCreated)
	s.must(s.do((*Run).CancelBuild))
	for key, state := range map[string]JobState{
		"done": APIPassed, "running": Canceling, "accepted": Canceling, "assigned": Canceled, "scheduled": Canceled,
		"limited/1": Canceled, "child": Canceled, "ask": Canceled, "w": Canceled, "waiting": Canceled,
	} {
		s.wants(key, state)
	}
	s.wantsBuild(BuildCanceling)
	s.on("running", exits(0))
	s.on("accepted", exits(-1))
	s.wants("running", Canceled)
	s.wantsBuild(BuildCanceled)

	const want = "Build can't be canceled because it's already finished."
	if err := s.do((*Run).CancelBuild); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSkipBuild_IsForBuildsThatHaveNotStarted(t *testing.T) {
	s := begin(t, command("a", limit("g", 1), parallel(2)), wait("w"), command("b"))
	s.must(s.do((*Run).SkipBuild))
	for _, key := range []string{"a/0", "a/1", "w", "b"} {
		s.wants(key, Skipped)
	}
	s = begin(t, command("a"))
	s.start("a")
	if err := s.do((*Run).SkipBuild); err == nil {
		t.Error("a build that has started was skipped")
	}
}

func TestCancelOnBuildFailing_EndsJobsAsSoonAsTheBuildIsFailing(t *testing.T) {
	s := begin(t, command("a"), command("slow", cancelOnBuildFailing), command("idle", cancelOnBuildFailing), command("keep"), wait("w"), command("later", cancelOnBuildFailing))
	s.start("slow", "a")
	s.on("a", exits(1))
	for key, state := range map[string]JobState{"slow": Canceling, "idle": Canceled, "keep": Scheduled, "later": Canceled} {
		s.wants(key, state)
	}
}

func TestCancelOnBuildFailing_AppliesToAPromise(t *testing.T) {
	s := begin(t, command("a"), command("slow", cancelOnBuildFailing))
	s.start("a", "slow")
	s.on("a", promises(2))
	s.wants("slow", Canceling)
}

func TestTrigger_FollowsItsChild(t *testing.T) {
	passed := func(r *Run, id string) error { return r.ChildFinished(id, true) }
	failed := func(r *Run, id string) error { return r.ChildFinished(id, false) }
	for _, test := range []struct {
		name   string
		with   func(*Spec)
		events []func(*Run, string) error
		want   JobState
		build  BuildState
	}{
		{"child runs", func(*Spec) {}, []func(*Run, string) error{(*Run).ChildCreated}, Running, BuildRunning},
		{"child passed", func(*Spec) {}, []func(*Run, string) error{(*Run).ChildCreated, passed}, APIPassed, BuildPassed},
		{"child failed", func(*Spec) {}, []func(*Run, string) error{(*Run).ChildCreated, failed}, APIFailed, BuildFailed},
		{"child failed softly", softFail(), []func(*Run, string) error{(*Run).ChildCreated, failed}, APIFailed, BuildPassed},
		{"child could not be created", func(*Spec) {}, []func(*Run, string) error{failed}, APIFailed, BuildFailed},
		{"child skipped for a newer one", func(*Spec) {}, []func(*Run, string) error{(*Run).ChildCreated, (*Run).ChildSkipped}, Skipped, BuildPassed},
		{"nobody waits", async, []func(*Run, string) error{(*Run).ChildCreated}, APIPassed, BuildPassed},
		{"child failed, and tried again", func(*Spec) {}, []func(*Run, string) error{(*Run).ChildCreated, failed, retry}, Scheduled, BuildRunning},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, trigger("child", test.with))
			for _, event := range test.events {
				s.on("child", event)
			}
			s.wants("child", test.want)
			s.wantsBuild(test.build)
		})
	}
}

func TestJobs_MoveOnlyAsTheTableSays(t *testing.T) {
	for from, moves := range jobMoves {
		for _, to := range moves {
			if !CanMove(from, to) || CanMove(to, to) {
				t.Errorf("%s to %s", from, to)
			}
		}
	}
	s := begin(t, command("a"), wait("w"), command("b"), block("ask"))
	for _, test := range []struct {
		key   string
		event func(*Run, string) error
		want  string
	}{
		{"a", starts, "is scheduled and cannot become running"},
		{"a", accept, "is scheduled and cannot become accepted"},
		{"a", exits(0), "is scheduled and cannot become finished"},
		{"a", (*Run).TimeOut, "is scheduled and cannot become timing_out"},
		{"b", assign, "is waiting and cannot become assigned"},
		{"b", returnJob, "is waiting and cannot become scheduled"},
		{"w", exits(0), "is waiting and cannot become finished"},
	} {
		err := s.try(test.key, test.event)
		if want := "job " + s.job(test.key).ID + " " + test.want; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestJobs_ShowTheStatesOfTheAPI(t *testing.T) {
	zero, one := 0, 1
	for _, test := range []struct {
		job  Job
		want JobState
	}{
		{Job{State: Finished, ExitStatus: &zero}, "passed"},
		{Job{State: Finished, ExitStatus: &one}, "failed"},
		{Job{State: Finished, ExitStatus: &one, SoftFailed: true}, "failed"},
		{Job{State: Finished, Type: Waiter}, "passed"},
		{Job{State: Limiting}, "limited"},
		{Job{State: Limited}, "limited"},
		{Job{State: PlatformLimiting}, "limited"},
		{Job{State: PlatformLimited}, "limited"},
		{Job{State: TimingOut}, "timing_out"},
	} {
		if got := test.job.APIState(); got != test.want {
			t.Errorf("%s shows as %s, want %s", test.job.State, got, test.want)
		}
	}
}

func TestTimeOut_CountsUnlessTheJobPassedInSpiteOfIt(t *testing.T) {
	for _, test := range []struct {
		status int
		want   JobState
		build  BuildState
	}{
		{143, TimedOut, BuildFailed},
		{0, APIPassed, BuildPassed},
	} {
		s := begin(t, command("a"))
		s.start("a")
		s.on("a", (*Run).TimeOut)
		s.wants("a", TimingOut)
		s.on("a", exits(test.status))
		s.wants("a", test.want)
		s.wantsBuild(test.build)
	}
}

func TestReturn_SchedulesAJobAgain(t *testing.T) {
	s := begin(t, command("a"))
	runnable := s.job("a").RunnableAt
	s.on("a", assign)
	s.on("a", returnJob)
	if j := s.job("a"); j.State != Scheduled || j.RunnableAt != runnable {
		t.Errorf("it is %s since %v", j.State, j.RunnableAt)
	}
}
