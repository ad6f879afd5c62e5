package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/runner"
)

// hooks creates a directory with hooks.
func hooks(t *testing.T, scripts map[string]string) func(*runner.Options) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return func(o *runner.Options) { o.HooksPath = dir }
}

// printed returns the lines of a log that start with "printed ".
func printed(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "printed "); ok {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, ", ")
}

// printHook returns a hook that prints text.
func printHook(text string) string { return "echo printed " + text + "\n" }

func TestHooks_RunAroundTheCommandThoseOfTheAgentFirst(t *testing.T) {
	t.Parallel()
	repo, _ := gitRepository(t, map[string]string{
		".stackyard/hooks/environment":   printHook("never: there is no checkout yet"),
		".stackyard/hooks/post-checkout": printHook("post-checkout of the repository"),
		".stackyard/hooks/pre-command":   printHook("pre-command of the repository"),
		".stackyard/hooks/post-command":  printHook("post-command of the repository"),
		".stackyard/hooks/pre-exit":      printHook("pre-exit of the repository"),
	})
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": repo, "SERVICE_COMMAND": printHook("command")})
	result := s.runJob(hooks(t, map[string]string{
		"environment": printHook("environment"), "pre-checkout": printHook("pre-checkout"), "post-checkout": printHook("post-checkout"),
		"pre-command": printHook("pre-command"), "post-command": printHook("post-command"), "pre-exit": printHook("pre-exit"),
	}))
	wantResult(t, result, "0", "", "")
	want := "environment, pre-checkout, post-checkout, post-checkout of the repository, pre-command, pre-command of the repository, command, " +
		"post-command, post-command of the repository, pre-exit, pre-exit of the repository"
	if got := printed(s.log()); got != want {
		t.Errorf("it printed %s; want %s", got, want)
	}
	if !strings.Contains(s.log(), "~~~ Running agent environment hook\n") {
		t.Errorf("log %s", s.log())
	}
}

func TestHooks_ChangeTheEnvironmentOfAllThatFollows(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"a script":              "export COLOR=blue\nunset SIZE\nexport MULTI=$'two\\nlines'\nHIDDEN=1\n",
		"one of sh":             "#!/bin/sh\nexport COLOR=blue; unset SIZE; MULTI='two\nlines'; export MULTI\n",
		"one that exits":        "#!/usr/bin/env bash\nset -euo pipefail\nexport COLOR=blue MULTI=$'two\\nlines'; unset SIZE\nexit 0\n",
		"one with its own trap": "trap 'true' EXIT\nexport COLOR=blue MULTI=$'two\\nlines'; unset SIZE\n",
	}
	for name, script := range tests {
		s := newFakeServer(t, map[string]string{"SIZE": "large", "SERVICE_COMMAND": `echo "printed $COLOR ${SIZE-none} ${#MULTI} ${HIDDEN-none}"`})
		wantResult(t, s.runJob(hooks(t, map[string]string{"environment": script})), "0", "", "")
		if got := printed(s.log()); got != "blue none 9 none" {
			t.Errorf("%s: it printed %s; log %s", name, got, s.log())
		}
	}
}

func TestHooks_MayChangeWhatTheAgentDoes(t *testing.T) {
	t.Parallel()
	repo, _ := gitRepository(t, map[string]string{"file": "x"})
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": "/nowhere", "SERVICE_COMMAND": "false"})
	result := s.runJob(hooks(t, map[string]string{
		"environment": "export BUILDKITE_REPO=" + repo + " SERVICE_COMMAND='cat file; echo; echo printed $DEPLOY_TOKEN' DEPLOY_TOKEN=hunter2-hunter2\n",
	}))
	wantResult(t, result, "0", "", "")
	if got := printed(s.log()); got != "[REDACTED]" {
		t.Errorf("it printed %s; log %s", got, s.log())
	}
}

func TestHooks_ThatAreNoScriptsAreRunAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command("true"))
	result := s.runJob(hooks(t, map[string]string{"pre-command": "#!/usr/bin/env python3\nimport sys\nprint('printed python')\nsys.exit(5)\n"}))
	wantResult(t, result, "5", "", "")
	if got := printed(s.log()); got != "python" {
		t.Errorf("it printed %s; log %s", got, s.log())
	}
}

func TestHooks_OfTheCommandStandInForIt(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command(printHook("never")))
	result := s.runJob(hooks(t, map[string]string{"command": printHook("instead of $SERVICE_COMMAND") + "exit 6\n", "post-command": "echo printed $SERVICE_COMMAND_EXIT_STATUS\n"}))
	wantResult(t, result, "6", "", "")
	if got := printed(s.log()); !strings.HasPrefix(got, "instead of echo printed never") || !strings.HasSuffix(got, ", 6") {
		t.Errorf("it printed %s", got)
	}
}

func TestHooks_ThatFailEndTheJob(t *testing.T) {
	t.Parallel()
	all := []string{"environment", "pre-checkout", "post-checkout", "pre-command", "command", "post-command", "pre-exit"}
	want := map[string]string{
		"environment":   "environment, pre-exit",
		"pre-checkout":  "environment, pre-checkout, pre-exit",
		"post-checkout": "environment, pre-checkout, post-checkout, pre-exit",
		"pre-command":   "environment, pre-checkout, post-checkout, pre-command, pre-exit",
		"post-command":  "environment, pre-checkout, post-checkout, pre-command, command, post-command, pre-exit",
		"pre-exit":      "environment, pre-checkout, post-checkout, pre-command, command, post-command, pre-exit",
	}
	repo, _ := gitRepository(t, map[string]string{"file": "x"})
	for fails, words := range want {
		scripts := map[string]string{}
		for _, name := range all {
			scripts[name] = printHook(name)
		}
		scripts[fails] += "exit 9\n"
		s := newFakeServer(t, map[string]string{"SERVICE_REPO": repo})
		wantResult(t, s.runJob(hooks(t, scripts)), "9", "", "")
		if got := printed(s.log()); got != words {
			t.Errorf("%s fails: it printed %s; want %s", fails, got, words)
		}
	}
}

func TestHooks_CleanUpAfterACanceledJob(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "echo ready; echo x >left; sleep 1000", "SERVICE_ARTIFACT_PATHS": "left"})
	a := s.start(onlyOneJob, hooks(t, map[string]string{
		"post-command": "echo printed cancelled $SERVICE_JOB_CANCELLED timed out $SERVICE_JOB_TIMED_OUT\n", "pre-exit": printHook("pre-exit")}))
	s.awaitLog("ready")
	s.change(func() { s.state = "timing_out" })
	a.wait(t)
	wantResult(t, *s.result, "-1", "SIGTERM", "cancel")
	if got := printed(s.log()); got != "cancelled true timed out true, pre-exit" {
		t.Errorf("it printed %s", got)
	}
	if s.files["files/left"] != "x\n" {
		t.Errorf("files %q", s.files)
	}
}

func TestHooks_HaveToFitIntoTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, command("echo ready; sleep 1000"))
	a := s.start(onlyOneJob, func(o *runner.Options) { o.CancelGrace = time.Second }, hooks(t, map[string]string{"pre-exit": "sleep 1000\n"}))
	s.awaitLog("ready")
	s.change(func() { s.state = "canceling" })
	a.wait(t)
	wantResult(t, *s.result, "-1", "SIGKILL", "cancel")
}
