package flow

import (
	"testing"
)

// These are the ways in which a step can end.
func passes(s *scenario, key string) { s.finish(key, 0) }
func fails(s *scenario, key string)  { s.finish(key, 1) }
func cancels(s *scenario, key string) {
	s.on(key, (*Run).CancelJob)
}
func expires(s *scenario, key string) { s.on(key, (*Run).Expire) }
func timesOut(s *scenario, key string) {
	s.start(key)
	s.on(key, (*Run).TimeOut)
	s.on(key, exits(143))
}
func nothing(*scenario, string) {}

func TestDependencies_LetRunOrNotByHowTheyEnded(t *testing.T) {
	for _, test := range []struct {
		name      string
		on        Spec
		end       func(*scenario, string)
		dependent func(*Spec)
		want      JobState
	}{
		{"passed", command("a"), passes, dependsOn("a"), Scheduled},
		{"soft failed", command("a", softFail(1)), fails, dependsOn("a"), Scheduled},
		{"soft failed in any way", command("a", softFail()), timesOut, dependsOn("a"), Scheduled},
		{"broken by a condition", command("a", broken("conditional_failed")), nothing, dependsOn("a"), Scheduled},
		{"skipped", command("a", broken("not today")), nothing, dependsOn("a"), Scheduled},
		{"failed", command("a"), fails, dependsOn("a"), WaitingFailed},
		{"failed, but allowed for this one", command("a"), fails, dependsOnFailing("a"), Scheduled},
		{"timed out", command("a"), timesOut, dependsOn("a"), WaitingFailed},
		{"expired", command("a"), expires, dependsOn("a"), WaitingFailed},
		{"expired, but allowed", command("a"), expires, dependsOnFailing("a"), Scheduled},
		{"canceled", command("a"), cancels, dependsOn("a"), WaitingFailed},
		{"canceled, and failure allowed", command("a"), cancels, dependsOnFailing("a"), WaitingFailed},
		{"canceled, and failure soft", command("a", softFail()), cancels, dependsOn("a"), WaitingFailed},
		{"blocked", input("a"), nothing, dependsOn("a"), Waiting},
		{"unblocked", input("a"), func(s *scenario, key string) { s.on(key, (*Run).Unblock) }, dependsOn("a"), Scheduled},
		{"running", command("a"), func(s *scenario, key string) { s.start(key) }, dependsOn("a"), Waiting},
		{"no dependencies at all", block("a"), nothing, dependsOn(), Scheduled},
		{"barrier, and no depends_on", block("a"), nothing, func(*Spec) {}, Waiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, test.on, command("b", test.dependent))
			test.end(s, "a")
			s.wants("b", test.want)
		})
	}
}

func TestDependencies_AllowDependencyFailureCoversFailedAndWaitingFailedButNotCanceled(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*scenario, string)
		want JobState
	}{
		{"failed", fails, Scheduled},
		{"expired", expires, Scheduled},
		{"canceled", cancels, WaitingFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t,
				command("a"),
				command("b", dependsOn("a"), allowDependencyFailure),
				command("never", dependsOn("a")),
				command("c", dependsOn("never"), allowDependencyFailure))
			test.end(s, "a")
			s.wants("b", test.want)
			s.wants("never", WaitingFailed)
			s.wants("c", Scheduled)
		})
	}
}

func TestDependencies_OnAKeyThatNeverComesFailTheBuild(t *testing.T) {
	s := begin(t, command("a"), command("b", dependsOn("nobody", "a")), command("c", dependsOn("b")))
	s.wants("b", Waiting)
	s.finish("a", 0)
	s.wants("b", Broken)
	s.wants("c", WaitingFailed)
	s.wantsBuild(BuildFailed)
	if got := s.job("b").BrokenReason; got != "dependency_missing" {
		t.Errorf("the reason is %q", got)
	}
}

func TestDependencies_OnAMissingKeyFailABuildThatHasNothingElse(t *testing.T) {
	s := begin(t, command("a", dependsOn("nobody")))
	s.wants("a", Broken)
	s.wantsBuild(BuildFailed)
}

func TestDependencies_OfAGroupOnAMissingKeyBreakItsMembers(t *testing.T) {
	s := begin(t, command("a"), group("g", steps(command("b"), command("c", dependsOn("a"))), dependsOn("nobody")), command("d", dependsOn("g")))
	s.finish("a", 0)
	s.wants("b", Broken)
	s.wants("c", Broken)
	s.wants("d", WaitingFailed)
	s.wantsBuild(BuildFailed)
}

func TestDependencies_OnAMissingKeyWaitForAnUpload(t *testing.T) {
	s := begin(t, command("a"), command("b", dependsOn("late")))
	s.start("a")
	s.upload("a", command("late", dependsOn()))
	s.finish("a", 0)
	s.wants("b", Waiting)
	s.finish("late", 0)
	s.wants("b", Scheduled)
}

func TestDependencies_OnAMissingKeyWaitWhileAPersonMayBringIt(t *testing.T) {
	s := begin(t, input("ask"), command("a", dependsOn("ask")), command("b", dependsOn("late")))
	s.wants("b", Waiting)
	s.wantsBuild(BuildBlocked)
	s.on("ask", (*Run).Unblock)
	s.finish("a", 0)
	s.wants("b", Broken)
}

func TestDependencies_ExplicitOnesIgnoreBarriers(t *testing.T) {
	s := begin(t, command("a"), command("b"), wait("w"), command("c", dependsOn("a")), command("d"))
	s.finish("a", 0)
	s.wants("c", Scheduled)
	s.wants("d", Waiting)
}

func TestDependencies_OnAnUploadStepCoverAllItUploads(t *testing.T) {
	s := begin(t, command("up"), command("after", dependsOn("up")), command("later", dependsOn("after")))
	s.start("up")
	s.upload("up", command("x"), command("y"))
	s.finish("up", 0)
	s.wants("after", Waiting)
	s.finish("x", 0)
	s.start("y")
	s.upload("y", command("z"))
	s.finish("y", 0)
	s.wants("after", Waiting)
	s.finish("z", 0)
	s.wants("after", Scheduled)
	s.wants("later", Waiting)
}

func TestDependencies_OnAGroupCoverAllItsMembers(t *testing.T) {
	s := begin(t, group("g", steps(command("a"), command("b"))), command("c", dependsOn("g")))
	s.finish("a", 1)
	s.wants("c", Waiting)
	s.finish("b", 0)
	s.wants("c", WaitingFailed)
}

func TestDependencies_UploadedStepsDependOnTheUploadingStep(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		with   func(*Spec)
		want   JobState
	}{
		{"passed", 0, func(*Spec) {}, Scheduled},
		{"failed", 1, func(*Spec) {}, WaitingFailed},
		{"failed, and allowed", 1, allowDependencyFailure, Scheduled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := begin(t, command("up"))
			s.start("up")
			s.upload("up", command("x", test.with), command("free", dependsOn()))
			s.wants("x", Waiting)
			s.wants("free", Scheduled)
			s.finish("up", test.status)
			s.wants("x", test.want)
		})
	}
}

func TestDependencies_OnAMemberOfAConcurrencyGroupCoverTheEarlierMembers(t *testing.T) {
	s := begin(t,
		command("a", limit("deploy", 3)),
		command("b", limit("deploy", 3)),
		command("c", limit("deploy", 3)),
		command("after", dependsOn("b")))
	s.finish("b", 0)
	s.wants("after", Waiting)
	s.finish("a", 0)
	s.wants("after", Scheduled)
	s.wants("c", Scheduled)

	s.start("after")
	s.upload("after", command("d", dependsOn(), limit("deploy", 4)), command("last", dependsOn("d")))
	s.finish("d", 0)
	s.finish("after", 0)
	s.wants("last", Waiting)
	s.finish("c", 0)
	s.wants("last", Scheduled)
}

func TestDependencies_AmongMembersOfAConcurrencyGroupMayRunAgainstItsOrder(t *testing.T) {
	s := begin(t, command("a", limit("g", 1), dependsOn("b")), command("b", limit("g", 1)))
	s.finish("b", 0)
	s.finish("a", 0)
	s.wantsBuild(BuildPassed)
}

func TestSteps_ThatDependOnEachOtherAreRefused(t *testing.T) {
	m := newMemory()
	err := m.do(func(r *Run) error {
		return r.Begin(steps(command("a", dependsOn("c")), command("b", dependsOn("a")), command("c", dependsOn("b")), command("behind", dependsOn("c")), command("free")))
	})
	want := "These steps depend on each other, so none of them can run: a, b, c"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSteps_ThatDependOnEachOtherAcrossUploadsFailTheBuild(t *testing.T) {
	s := begin(t, command("up"), wait("w"), command("deploy"))
	s.start("up")
	s.upload("up", command("x", dependsOn("deploy")))
	s.finish("up", 0)
	s.wantsBuild(BuildFailed)
}

func TestSteps_WithAKeyThatIsTakenAreRefused(t *testing.T) {
	s := begin(t, command("up"), command("taken"))
	s.start("up")
	err := s.try("up", func(r *Run, id string) error { return r.AddSteps(id, steps(command("taken")), false) })
	want := `The key "taken" belongs to another step of the build; keys must be unique in a build`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// upload adds steps as a running job.
func (s *scenario) upload(key string, specs ...Spec) {
	s.t.Helper()
	s.on(key, func(r *Run, id string) error { return r.AddSteps(id, specs, false) })
}
