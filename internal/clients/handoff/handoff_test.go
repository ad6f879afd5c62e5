package handoff

import (
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestReceive_ReturnsWhatWasAttached(t *testing.T) {
	want := map[string]string{"token": "svcct_x\n\"y\"", "empty": ""}
	cmd := exec.Command("true")
	release, err := Attach(cmd, want)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if len(cmd.Env) != 1 || cmd.Env[0] != Variable+"=3" || len(cmd.ExtraFiles) != 1 {
		t.Errorf("environment %q, %d files", cmd.Env, len(cmd.ExtraFiles))
	}

	pipe, err := fill(want)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	fd, err := syscall.Dup(int(pipe.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, strconv.Itoa(fd))
	got, err := Receive()
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, ok := os.LookupEnv(Variable); ok {
		t.Error("the variable is still there")
	}
	if again, err := Receive(); again != nil || err != nil {
		t.Errorf("once more: %q, %v", again, err)
	}
}

func TestReceive_RefusesWhatIsNoFileDescriptor(t *testing.T) {
	for _, number := range []string{"x", "-1", "0", "2", "9999"} {
		t.Setenv(Variable, number)
		if got, err := Receive(); err == nil {
			t.Errorf("%s: %q", number, got)
		}
	}
}

func TestFill_RefusesWhatAPipeMayHaveNoRoomFor(t *testing.T) {
	if _, err := fill(map[string]string{"token": strings.Repeat("x", maxSize)}); err == nil {
		t.Error("no error")
	}
}
