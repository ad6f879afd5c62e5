package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/runner"
)

func TestRun_TakesJobsUntilItDrains(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "echo hello"})
	s.offers = 2
	a := s.start()
	s.await("two jobs are finished", func() bool { return s.called("PUT /J/finish") == 2 })
	s.change(func() { s.action = "disconnect" })
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
	want := []string{"POST /register", "POST /connect", "POST /agentedge.v1.AgentEdgeService/StreamPings"}
	if got := s.calls[:3]; !slices.Equal(got, want) {
		t.Errorf("it began with %q, want %q", got, want)
	}
	if last := s.calls[len(s.calls)-1]; last != "POST /disconnect" {
		t.Errorf("its last call was %s", last)
	}
}

func TestRun_TakesJobsThatArePushed(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	s.push = make(chan []byte)
	a := s.start()
	s.push <- jobAssigned
	s.await("the job is finished", func() bool { return s.called("PUT /J/finish") == 1 })
	s.push <- jobAssigned // a repeated offer
	s.push <- pause
	s.push <- resume
	s.push <- goAway
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
	if s.called("GET /ping") != 0 || s.called("PUT /J/accept") != 1 || s.called("POST /disconnect") != 1 {
		t.Errorf("calls %q", s.calls)
	}
}

func TestRun_AsksWhileTheStreamIsBroken(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	s.push = make(chan []byte)
	a := s.start()
	s.push <- nil // broken
	s.await("it pings and runs the job", func() bool { return s.called("PUT /J/finish") == 1 })
	s.await("it opens the stream again", func() bool { return s.called("stream") == 2 })
	s.push <- goAway
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
}

func TestRun_DisconnectsAfterAJob(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "exit 7"})
	s.offers = 2
	result := s.runJob()
	wantResult(t, result, "7", "", "")
	if !result.LastJob {
		t.Error("it does not say that it wants no other job")
	}
	if s.called("PUT /J/finish") != 1 || s.called("POST /disconnect") != 1 {
		t.Errorf("calls %q", s.calls)
	}
}

func TestRun_DisconnectsAfterBeingIdle(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, nil)
	s.offers = 0
	began := time.Now()
	a := s.start(func(o *runner.Options) { o.DisconnectAfterIdle = 300 * time.Millisecond })
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
	if time.Since(began) < 300*time.Millisecond || s.called("POST /disconnect") != 1 {
		t.Errorf("after %s: calls %q", time.Since(began), s.calls)
	}
}

func TestRun_StaysWhilePaused(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	s.action = "pause"
	a := s.start(onlyOneJob, func(o *runner.Options) { o.DisconnectAfterIdle = time.Second })
	s.await("it pings while it is paused", func() bool { return s.called("GET /ping") >= 4 })
	if s.called("PUT /J/accept") != 0 {
		t.Error("it took a job while it was paused")
	}
	s.change(func() { s.action = "" })
	if err := a.wait(t); err != nil || s.called("PUT /J/finish") != 1 {
		t.Errorf("%v; calls %q", err, s.calls)
	}
}

func TestRun_EndsWhenItMayNotRegister(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, nil)
	s.respondFirst("POST /register", respond{401, `{"message": "The token has expired."}`})
	err := s.start().wait(t)
	if err == nil || !strings.Contains(err.Error(), "The token has expired.") || s.called("POST /register") != 1 {
		t.Errorf("%v; calls %q", err, s.calls)
	}
}

func TestRun_EndsWhenPingsAreRefused(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, nil)
	s.respondFirst("GET /ping", respond{401, `{"message": "No such session."}`})
	err := s.start().wait(t)
	if err == nil || !strings.Contains(err.Error(), "No such session.") || s.called("POST /disconnect") != 1 {
		t.Errorf("%v; calls %q", err, s.calls)
	}
}

func TestRun_WaitsOutAServerThatIsAway(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	for _, call := range []string{"POST /register", "POST /connect", "GET /ping", "PUT /J/accept", "PUT /J/start", "POST /J/chunks", "PUT /J/finish", "POST /disconnect"} {
		s.respondFirst(call, respond{})
	}
	s.respondFirst("GET /ping", respond{503, ""}, respond{429, ""}, respond{})
	wantResult(t, s.runJob(), "0", "", "")
	if s.result.FailedChunks != 0 {
		t.Errorf("%d chunks are lost", s.result.FailedChunks)
	}
}

func TestRun_ContinuesWhenAJobCannotBeAccepted(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	s.offers = 2
	s.respondFirst("PUT /J/accept", respond{422, ""})
	wantResult(t, s.runJob(), "0", "", "")
	if s.called("PUT /J/accept") != 2 {
		t.Errorf("calls %q", s.calls)
	}
}

// After a database restart, a server may respond to accept with 503 although it has assigned the job.
func TestRun_RetriesAnAcceptThatTheServerCouldNotAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{500, 503, 429} {
		s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
		s.offers = 1
		s.respondFirst("PUT /J/accept", respond{status, ""})
		wantResult(t, s.runJob(), "0", "", "")
		if s.called("PUT /J/accept") != 2 {
			t.Errorf("after %d: calls %q", status, s.calls)
		}
	}
}

func TestRun_DropsAJobThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	s.respondFirst("PUT /J/start", respond{422, ""})
	if err := s.start(onlyOneJob).wait(t); err != nil {
		t.Error(err)
	}
	if s.called("PUT /J/finish") != 0 {
		t.Errorf("calls %q", s.calls)
	}
}

func TestRun_CancelsItsJobWhenTheSessionHasEnded(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "echo ready; sleep 1000"})
	a := s.start()
	s.awaitLog("ready")
	s.respondFirst("POST /heartbeat", respond{404, `{"message": "No such agent."}`})
	err := a.wait(t)
	if err == nil || !strings.Contains(err.Error(), "No such agent.") {
		t.Errorf("got %v", err)
	}
	wantResult(t, *s.result, "-1", "SIGTERM", "agent_stop")
}

func TestDrain_FinishesTheJobFirst(t *testing.T) {
	t.Parallel()
	drained := filepath.Join(t.TempDir(), "drained")
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "echo ready; until [ -e '" + drained + "' ]; do sleep 0.01; done; echo done"})
	s.offers = 2
	a := s.start()
	s.awaitLog("ready")
	a.drain()
	if err := os.WriteFile(drained, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
	wantResult(t, *s.result, "0", "", "")
	if !s.result.LastJob || s.called("PUT /J/finish") != 1 || s.called("POST /disconnect") != 1 || !strings.Contains(s.log(), "\ndone\n") {
		t.Errorf("result %+v, calls %q", s.result, s.calls)
	}
}

func TestDrain_EndsAnIdleAgentAtOnce(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, nil)
	s.offers = 0
	a := s.start()
	s.await("it pings", func() bool { return s.called("GET /ping") > 0 })
	a.drain()
	if err := a.wait(t); err != nil || s.called("POST /disconnect") != 1 {
		t.Errorf("%v; calls %q", err, s.calls)
	}
}

func TestStop_CancelsTheJob(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "trap 'echo stopping; exit 3' TERM; echo ready; while :; do sleep 0.01; done"})
	a := s.start()
	s.awaitLog("ready")
	a.drain()
	a.stop()
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
	wantResult(t, *s.result, "-1", "SIGTERM", "agent_stop")
	if !strings.Contains(s.log(), "stopping") || s.called("POST /disconnect") != 1 {
		t.Errorf("log %q, calls %q", s.log(), s.calls)
	}
}

func TestSpawn_RunsWorkersWithNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, nil)
	s.action = "disconnect"
	a := s.start(func(o *runner.Options) { o.Spawn = 3 })
	if err := a.wait(t); err != nil || s.called("POST /register") != 3 || s.called("POST /disconnect") != 3 {
		t.Errorf("%v; calls %q", err, s.calls)
	}
}

func TestAcquire_RunsOneJobAndPingsOnce(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "exit 7"})
	if err := s.start(acquiring).wait(t); err != nil {
		t.Errorf("got %v, whatever became of the job", err)
	}
	wantResult(t, *s.result, "7", "", "")
	calls := slices.DeleteFunc(s.calls, func(c string) bool { return c == "POST /J/chunks" || c == "GET /J" || c == "POST /heartbeat" })
	want := []string{"POST /register", "POST /connect", "PUT /J/acquire", "PUT /J/start", "PUT /J/usage", "PUT /J/finish", "GET /ping", "POST /disconnect"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

func TestAcquire_EndsAsThePublishedAgentDoes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answers map[string][]respond
		tries   int
		refused bool
		fails   bool
	}{
		{"refused", map[string][]respond{"PUT /J/acquire": {{422, `{"message": "Taken."}`}}}, 1, true, true},
		{"not found", map[string][]respond{"PUT /J/acquire": {{404, ""}}}, 1, false, false},
		{"locked for a while", map[string][]respond{"PUT /J/acquire": {{423, ""}}}, 2, false, false},
		{"ping refused", map[string][]respond{"GET /ping": {{401, ""}}}, 1, false, true},
		{"ping fails", map[string][]respond{"GET /ping": {{500, ""}}}, 1, false, false},
		{"register refused", map[string][]respond{"POST /register": {{401, ""}}}, 0, false, true},
	}
	for _, tt := range tests {
		s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
		s.answer = tt.answers
		err := s.start(acquiring).wait(t)
		if got := errors.Is(err, runner.ErrAcquisitionRefused); got != tt.refused || (err != nil) != tt.fails {
			t.Errorf("%s: %v; refused %t, want %t", tt.name, err, got, tt.refused)
		}
		if got := s.called("PUT /J/acquire"); got != tt.tries {
			t.Errorf("%s: %d tries to acquire, want %d", tt.name, got, tt.tries)
		}
		if tt.refused && s.called("GET /ping") > 0 {
			t.Errorf("%s: it pings", tt.name)
		}
	}
}

func TestAcquire_LingersWhilePaused(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true"})
	s.action = "pause"
	a := s.start(acquiring)
	s.await("it pings while it is paused", func() bool { return s.called("GET /ping") >= 2 })
	s.change(func() { s.action = "" })
	if err := a.wait(t); err != nil {
		t.Error(err)
	}
}

func TestParseTags_ReadsKeysAndValues(t *testing.T) {
	tests := map[string]string{
		"":                          "",
		"os=linux":                  "os=linux",
		" os = linux ,docker,a=b=c": "os=linux docker=true a=b=c",
		"empty=,":                   "empty=",
	}
	for text, want := range tests {
		got, err := runner.ParseTags(text)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %s", text, got, err, want)
		}
	}
	if _, err := runner.ParseTags("=linux"); err == nil {
		t.Error("a tag without a key was taken")
	}
}

func FuzzParseTags(f *testing.F) {
	f.Add("os=linux,docker")
	f.Add("=,a==,, b")
	f.Fuzz(func(t *testing.T, text string) {
		tags, err := runner.ParseTags(text)
		if err != nil {
			return
		}
		for _, tag := range tags {
			if key, _, ok := strings.Cut(tag, "="); !ok || key == "" || strings.Contains(tag, ",") {
				t.Errorf("%q has the tag %q", text, tag)
			}
		}
		again, err := runner.ParseTags(strings.Join(tags, ","))
		if err != nil || !slices.Equal(again, tags) {
			t.Errorf("%q: %q, read again %q, %v", text, tags, again, err)
		}
	})
}
