package cgroup

import (
	"errors"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestGroup_CountsAndKillsWhatLeftItsSession(t *testing.T) {
	g, err := New("stackyard-test-"+strconv.Itoa(int(time.Now().UnixNano())), Limits{})
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "env -i setsid sleep 1000 & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.Attach(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		g.Remove()
		t.Fatal(err)
	}
	for g.Count() < 2 {
		time.Sleep(time.Millisecond)
	}
	if u := g.Usage(); u.UserMicros < 0 || u.SystemMicros < 0 {
		t.Errorf("usage %+v", u)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := g.Remove(); err != nil {
		t.Errorf("%v; %d processes are left", err, g.Count())
	}
	var none *Group
	none.Attach(nil)
	if none.Kill() != nil || none.Remove() != nil || none.Count() != 0 {
		t.Error("a nil group does something")
	}
}
