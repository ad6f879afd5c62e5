package runner_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/cgroup"
)

// command returns the environment of a job with a command.
func command(script string) map[string]string { return map[string]string{"SERVICE_COMMAND": script} }

func TestJob_EndsAsItsCommandDoes(t *testing.T) {
	t.Parallel()
	tests := []struct{ script, status string }{
		{"true", "0"},
		{"exit 7", "7"},
		{"false\necho not reached", "1"},
		{"kill -9 $$", "255"},
		{"no-such-program", "127"},
		{"", "1"},
	}
	for _, tt := range tests {
		s := newFakeServer(t, command(tt.script))
		wantResult(t, s.runJob(), tt.status, "", "")
		if strings.Contains(s.log(), "\nnot reached") {
			t.Errorf("%s: log %q", tt.script, s.log())
		}
	}
}

func TestJob_ShowsItsCommandAndOutput(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command("echo one\ntest -t 1 && echo on a terminal"))
	s.runJob()
	want := "~~~ Skipping the checkout: the pipeline's repository is a placeholder: there is no host git.example.test\n" +
		"+++ Running command\n$ echo one\ntest -t 1 && echo on a terminal\none\non a terminal\n"
	if got := s.log(); got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if raw := s.raw(); strings.Count(raw, "\x1b_bk;t=1") != strings.Count(raw, "\n") {
		t.Errorf("not every line has its time: %q", raw)
	}
}

func TestJob_HasItsEnvironmentOverThatOfTheAgent(t *testing.T) {
	t.Setenv("OF_THE_AGENT", "mine")
	t.Setenv("OF_BOTH", "mine")
	t.Setenv("SERVICE_AGENT_TOKEN", "agent-token")
	t.Setenv("BUILDKITE_AGENT_TOKEN", "agent-token")
	t.Setenv("SERVICE_AGENT_ACQUIRE_JOB", "x")
	s := newFakeServer(t, map[string]string{"OF_BOTH": "its", "OF_THE_JOB": "its", "SERVICE_AGENT_PID": "pretended",
		"SERVICE_COMMAND": `echo "$OF_THE_AGENT $OF_BOTH $OF_THE_JOB."
			echo "token [$SERVICE_AGENT_TOKEN$BUILDKITE_AGENT_TOKEN$SERVICE_AGENT_ACQUIRE_JOB]"
			echo "$SERVICE_JOB_ID $BUILDKITE_JOB_ID"
			echo "pid $SERVICE_AGENT_PID $BUILDKITE_AGENT_PID"
			echo "agent $SERVICE_AGENT_NAME $BUILDKITE_AGENT_ID at $SERVICE_AGENT_ENDPOINT"
			test "$SERVICE_AGENT_ACCESS_TOKEN" = job-token -a "$BUILDKITE_AGENT_ACCESS_TOKEN" = job-token && echo has its token
			test "$(pwd)" = "$SERVICE_BUILD_CHECKOUT_PATH" && echo in its folder
			command -v stackyard >/dev/null && echo has the program`})
	s.runJob()
	pid := strconv.Itoa(os.Getpid())
	for _, want := range []string{"mine its its.", "token []", jobID + " " + jobID, "pid " + pid + " " + pid, "agent worker agent-1 at " + s.URL + "/v3", "has its token", "in its folder", "has the program"} {
		if !strings.Contains(s.log(), "\n"+want+"\n") {
			t.Errorf("no line %q in %s", want, s.log())
		}
	}
}

// gitRepository creates a repository with files.
func gitRepository(t *testing.T, files map[string]string) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@acme.test"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--initial-branch=main")
	git("add", ".")
	git("commit", "--quiet", "-m", "Begin\n\nWith a body.")
	return dir, git("rev-parse", "HEAD")
}

func TestJob_RunsInACheckoutAndReportsItsCommit(t *testing.T) {
	t.Parallel()
	repo, commit := gitRepository(t, map[string]string{"hello.txt": "hello from git\n"})
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": repo, "SERVICE_COMMAND": `cat hello.txt; echo "commit $SERVICE_COMMIT $BUILDKITE_COMMIT in $(pwd)"`})
	path := t.TempDir()
	wantResult(t, s.runJob(func(o *runner.Options) { o.BuildPath = path }), "0", "", "")
	want := "hello from git\ncommit " + commit + " " + commit + " in " + filepath.Join(path, "acme", "hello") + "\n"
	if !strings.HasSuffix(s.log(), want) {
		t.Errorf("log %s, want it to end with %s", s.log(), want)
	}
	about := "commit " + commit + "\nabbrev-commit " + commit[:7] + "\nAuthor: Ada <ada@acme.test>\n\n    Begin\n    \n    With a body."
	if got := s.data["buildkite:git:commit"]; strings.TrimSpace(got) != about {
		t.Errorf("the server knows of the commit %q, want %q", got, about)
	}
}

func TestJob_RunsAScriptOfTheRepository(t *testing.T) {
	t.Parallel()
	repo, _ := gitRepository(t, map[string]string{"ci/run tests": "#!/bin/sh\necho \"running as $0\"; exit 4\n"})
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": repo, "SERVICE_COMMAND": "ci/run tests"})
	wantResult(t, s.runJob(), "4", "", "")
	if !strings.Contains(s.log(), "running as ./ci/run tests") {
		t.Errorf("log %s", s.log())
	}
}

func TestJob_FailsWithTheStatusOfGit(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": filepath.Join(t.TempDir(), "nothing"), "SERVICE_COMMAND": "echo not reached"})
	wantResult(t, s.runJob(), "128", "", "")
	if strings.Contains(s.log(), "Running command") {
		t.Errorf("log %s", s.log())
	}
}

func TestJob_SkipsTheCheckoutOnRequest(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": "/nowhere", "BUILDKITE_SKIP_CHECKOUT": "true", "SERVICE_COMMAND": "ls -A | wc -l"})
	wantResult(t, s.runJob(), "0", "", "")
	if !strings.HasSuffix(s.log(), "\n0\n") {
		t.Errorf("its folder is not empty: %s", s.log())
	}
}

func TestJob_IsCanceledByTheServer(t *testing.T) {
	t.Parallel()
	tests := []struct{ state, script, signal, log string }{
		{"canceling", `trap 'echo cleaned up; exit 3' TERM; echo ready; while :; do sleep 0.01; done`, "SIGTERM", "cleaned up"},
		{"timing_out", `echo ready; sleep 1000`, "SIGTERM", ""},
		{"canceled", `trap '' TERM; echo ready; while :; do sleep 0.01; done`, "SIGKILL", ""},
	}
	for _, tt := range tests {
		s := newFakeServer(t, command(tt.script))
		a := s.start(onlyOneJob, func(o *runner.Options) { o.CancelGrace = time.Second })
		s.awaitLog("ready")
		s.change(func() { s.state = tt.state })
		a.wait(t)
		wantResult(t, *s.result, "-1", tt.signal, "cancel")
		if log := s.log(); !strings.Contains(log, tt.log) || !strings.Contains(log, "The job was canceled") {
			t.Errorf("%s: log %s", tt.state, log)
		}
	}
}

func TestJob_IsCanceledWhenAnotherAgentHoldsIt(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command("echo ready; sleep 1000"))
	a := s.start(onlyOneJob)
	s.awaitLog("ready")
	s.respondFirst("GET /J", respond{500, ""}, respond{404, ""}, respond{401, ""})
	a.wait(t)
	wantResult(t, *s.result, "-1", "SIGTERM", "cancel")
}

func TestJob_KillsAllProcessesAtTheEnd(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	s := newFakeServer(t, command(`for i in 1 2 3; do (trap '' TERM; echo $BASHPID >>`+pids+`; while :; do sleep 0.05; done) & done; while [ $(wc -l <`+pids+`) -lt 3 ]; do sleep 0.01; done; echo ready; wait`))
	a := s.start(onlyOneJob, func(o *runner.Options) { o.CancelGrace = 100 * time.Millisecond })
	s.awaitLog("ready")
	s.change(func() { s.state = "canceling" })
	a.wait(t)
	wantResult(t, *s.result, "-1", "SIGKILL", "cancel")
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(word)
		if stat, err := os.ReadFile("/proc/" + word + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") && syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is still there: %s", pid, stat)
		}
	}
}

func TestJob_RefusesWhatItCannotRun(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "echo not reached", "SERVICE_PLUGINS": `[{"docker#v5": null}]`})
	wantResult(t, s.runJob(func(o *runner.Options) { o.NoPlugins = true }), "-1", "", "agent_refused")
	if log := s.log(); !strings.Contains(log, "The step has plugins, which this agent does not run (--no-plugins).") || strings.Contains(log, "not reached") {
		t.Errorf("log %s", log)
	}
	s = newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true", "BUILDKITE_PLUGINS": "[]"})
	wantResult(t, s.runJob(), "0", "", "")
	s = newFakeServer(t, command("true"))
	s.job["step"] = map[string]any{"signature": map[string]string{"value": "x"}}
	wantResult(t, s.runJob(), "-1", "", "signature_rejected")
}

func TestJob_HasTheSecretsOfItsStepAndKeepsThemOutOfTheLog(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command(`echo "password $PASS."; echo -n "me:$PASS" | base64; printf '%s\n' "$KEY"; printf hun; sleep 0.1; echo ter2-two; echo "${#TINY}"`))
	s.secret = map[string]string{"deploy": "hunter2-two", "key": "first line\nsecond line\n", "tiny": "abc"}
	s.job["step"] = map[string]any{"secrets": []map[string]string{
		{"key": "deploy", "environment_variable": "PASS"}, {"key": "key", "environment_variable": "KEY"}, {"key": "tiny", "environment_variable": "TINY"}}}
	wantResult(t, s.runJob(), "0", "", "")
	log := s.log()
	for _, secret := range []string{"hunter2", "first line", "second line", base64.StdEncoding.EncodeToString([]byte("hunter2-two"))} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the log %s", secret, log)
		}
	}
	for _, want := range []string{"password [REDACTED].\n", "bWU6[REDACTED]", "\n[REDACTED]\n", "\n3\n", "The secret tiny is too short"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log %s", want, log)
		}
	}
}

func TestJob_FailsWhenASecretCannotBeHad(t *testing.T) {
	t.Parallel()
	for variable, key := range map[string]string{"PASS": "unknown", "SERVICE_REPO": "deploy"} {
		s := newFakeServer(t, command("echo not reached"))
		s.secret["deploy"] = "hunter2"
		s.job["step"] = map[string]any{"secrets": []map[string]string{{"key": key, "environment_variable": variable}}}
		wantResult(t, s.runJob(), "-1", "", "process_run_error")
		if strings.Contains(s.log(), "Running command") {
			t.Errorf("log %s", s.log())
		}
	}
}

func TestJob_RedactsVariablesWithSecretNames(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"DEPLOY_TOKEN": "a-token-of-mine", "HARMLESS": "plain value", "SERVICE_COMMAND": "echo $DEPLOY_TOKEN $HARMLESS $SERVICE_AGENT_ACCESS_TOKEN"})
	s.runJob()
	if !strings.HasSuffix(s.log(), "\n[REDACTED] plain value [REDACTED]\n") {
		t.Errorf("log %s", s.log())
	}
}

func TestJob_UploadsArtifactsWhateverBecameOfIt(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{
		"SERVICE_COMMAND":        "mkdir -p out/deep; echo one >out/one.txt; echo two >out/deep/two.txt; : >out/empty; exit 7",
		"SERVICE_ARTIFACT_PATHS": "out/**/*.txt; out/empty;nothing/*",
	})
	wantResult(t, s.runJob(), "7", "", "")
	want := map[string]string{"files/out/one.txt": "one\n", "files/out/deep/two.txt": "two\n", "files/out/empty": ""}
	for key, text := range want {
		if got, ok := s.files[key]; !ok || got != text {
			t.Errorf("%s: %q, %t", key, got, ok)
		}
	}
	if len(s.files) != len(want) || len(s.states) != len(want) {
		t.Errorf("files %q, states %v", s.files, s.states)
	}
	for _, state := range s.states {
		if state.State != "finished" {
			t.Errorf("state %+v", state)
		}
	}
}

func TestJob_FailsWhenArtifactsCannotBeUploaded(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "echo one >one.txt", "SERVICE_ARTIFACT_PATHS": "*.txt"})
	s.respondFirst("POST /upload", respond{403, ""})
	wantResult(t, s.runJob(), "1", "", "")
	if len(s.states) != 1 || s.states[0].State != "error" {
		t.Errorf("states %v", s.states)
	}
}

func TestJob_SendsALongLogInOrder(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command("seq 1 5000"))
	s.respondFirst("POST /J/chunks", respond{503, ""}, respond{}, respond{503, ""})
	result := s.runJob()
	if result.FailedChunks != 0 || !strings.HasSuffix(s.log(), "\n4999\n5000\n") || strings.Count(s.log(), "\n") != 5003 {
		t.Errorf("%d chunks failed, %d lines, end %q", result.FailedChunks, strings.Count(s.log(), "\n"), s.log()[max(0, len(s.log())-30):])
	}
}

func TestJob_ReportsFailedLogChunks(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command("seq 1 200"))
	s.respondFirst("POST /J/chunks", respond{413, ""}, respond{413, ""})
	if result := s.runJob(); result.FailedChunks != 2 || result.ExitStatus != "0" {
		t.Errorf("result %+v", result)
	}
}

func TestJob_LeavesNothingRunning(t *testing.T) {
	t.Parallel()
	marker := strconv.FormatInt(time.Now().UnixNano(), 10)
	script := "setsid sleep " + marker + " & setsid -f sleep " + marker + "; test -w \"$TMPDIR\"; echo $TMPDIR"
	if group, err := cgroup.New("stackyard-test-"+marker, cgroup.Limits{}); err == nil { // finds those without the job's variables, too
		group.Remove()
		script = "env -i setsid sleep " + marker + " & " + script
	}
	s := newFakeServer(t, command(script))
	wantResult(t, s.runJob(), "0", "", "")
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(10 * time.Millisecond) {
		out, _ := exec.Command("pgrep", "-f", "^sleep "+marker).Output()
		if len(out) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %s are left", out)
		}
	}
	if s.called("PUT /J/usage") != 1 || !strings.Contains(s.log(), "stackyard-job-") {
		t.Errorf("calls %q, log %s", s.calls, s.log())
	}
}
