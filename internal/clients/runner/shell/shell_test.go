package shell

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/clients/runner/environ"
)

func newShell(t *testing.T) (*Shell, *bytes.Buffer) {
	var log bytes.Buffer
	return &Shell{Log: &log, Dir: t.TempDir(), Env: environ.Environment{"PATH": os.Getenv("PATH")}}, &log
}

func TestRun_ShowsTheCommandAndWhatItWrites(t *testing.T) {
	sh, log := newShell(t)
	if err := sh.Run("echo", "it's", "two words"); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[90m$\x1b[0m echo 'it'\\''s' 'two words'\r\nit's two words\r\n"; log.String() != want {
		t.Errorf("got %q, want %q", log, want)
	}
}

func TestRun_ReportsHowTheCommandFailed(t *testing.T) {
	sh, _ := newShell(t)
	err := sh.Run("sh", "-c", "exit 7")
	if exit, ok := errors.AsType[*ExitError](err); !ok || exit.ExitStatus != 7 || err.Error() != "sh exited with status 7" {
		t.Errorf("got %v", err)
	}
	if err := sh.Run("sh", "-c", "kill -9 $$"); err == nil || err.Error() != "sh was ended by the signal killed" {
		t.Errorf("got %v", err)
	}
	if err := sh.Run("no-such-program"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestRun_FindsProgramsAlongThePathOfTheJob(t *testing.T) {
	sh, log := newShell(t)
	bin := t.TempDir()
	for dir, text := range map[string]string{bin: "echo mine", sh.Dir: "echo of the repository"} {
		if err := os.WriteFile(filepath.Join(dir, "greet"), []byte("#!/bin/sh\n"+text+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	sh.Env["PATH"] = ".:" + bin
	if err := sh.RunQuietly("greet"); err != nil || log.String() != "mine\r\n" {
		t.Errorf("%q, %v", log, err)
	}
}

func TestRun_BeginsNothingWhenTheJobHasToStop(t *testing.T) {
	sh, log := newShell(t)
	stopped := make(chan struct{})
	close(stopped)
	sh.Stop.Term = stopped
	if err := sh.RunQuietly("echo", "hello"); !errors.Is(err, ErrStopped) || log.Len() > 0 {
		t.Errorf("%v, %q", err, log)
	}
}

func TestOutput_ReturnsWhatACommandWrites(t *testing.T) {
	sh, log := newShell(t)
	if out, err := sh.Output("sh", "-c", "echo one; echo two"); out != "one\ntwo" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := sh.Output("sh", "-c", "echo why >&2; exit 1"); err == nil || !strings.HasSuffix(err.Error(), "exit status 1: why") {
		t.Errorf("got %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("it shows %q", log)
	}
}
