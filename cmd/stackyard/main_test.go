package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The tests run the program in other processes: this test binary under other names.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"stackyard":        main,
		otherAgentName:     main,
		wrongClockName:     mainWithWrongClock,
		"curl-stand-in":    curl,
		"bare-server":      bareServer,
		"durable-server":   durableServer,
		"plain-log-server": plainLogServer,
	})
}

// TestScripts runs the scripts in testdata/script. Each has its own directory with an organizations.yaml that
// uses every attribute.
func TestScripts(t *testing.T) {
	whole, err := os.ReadFile(organizations)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			return os.WriteFile(filepath.Join(env.WorkDir, "organizations.yaml"), whole, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a command and expects an exit status: exits STATUS COMMAND ARGUMENTS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND ARGUMENTS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}
