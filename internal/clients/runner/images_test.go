package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/container"
)

// testImage is the name of the image that [podman] creates.
const testImage = "stackyard.test/busybox:1"

// podman returns a real runtime with a store of its own that has testImage. It skips the test where podman does not work.
func podman(t *testing.T) *container.Runtime {
	t.Helper()
	program, err := exec.LookPath("podman")
	busybox, noBusybox := exec.LookPath("busybox")
	if err != nil || noBusybox != nil {
		t.Skip("podman or busybox is not installed")
	}
	store, err := os.MkdirTemp("", "podman") // paths of its sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	command := []string{program, "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"}
	if runc, err := exec.LookPath("runc"); err == nil {
		command = append(command, "--runtime", runc)
	}
	podman := func(args ...string) *exec.Cmd { return exec.Command(command[0], append(command[1:], args...)...) }
	t.Cleanup(func() {
		podman("system", "reset", "--force").Run()
		os.RemoveAll(store)
	})
	files := filepath.Join(store, "files")
	for _, folder := range []string{"bin", "tmp", "etc", "proc", "dev"} {
		if err := os.MkdirAll(filepath.Join(files, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "bin/busybox"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "id", "cat", "sleep", "echo", "ls", "touch", "kill", "test", "env"} {
		if err := os.Symlink("busybox", filepath.Join(files, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	pack := exec.Command("tar", "-C", files, "-c", ".")
	archive, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	load := podman("import", "-", testImage)
	load.Stdin = strings.NewReader(string(archive))
	if out, err := load.CombinedOutput(); err != nil {
		t.Skipf("podman does not work here: %v\n%s", err, out)
	}
	r := &container.Runtime{Command: command, RunArgs: []string{"--pull=never", "--network=none", "--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096"}}
	if out, err := podman(append(append([]string{"run", "--rm"}, r.RunArgs...), testImage, "/bin/sh", "-c", "true")...).CombinedOutput(); err != nil {
		t.Skipf("podman runs no containers here: %v\n%s", err, out)
	}
	return r
}

func TestImages_RunTheCommandAsAnUnprivilegedUser(t *testing.T) {
	t.Parallel()
	runtime := podman(t)
	with := func(o *runner.Options) { o.Containers = runtime }

	s := newFakeServer(t, command(`id -u; echo "quotes '\" $MIXED"; cat /etc/passwd 2>/dev/null || echo no passwd; echo result >made-inside; exit 7`))
	s.job["env"].(map[string]string)["MIXED"] = "it's\n$HOME `x`"
	s.job["env"].(map[string]string)["PATH"] = "/nonsense"
	s.job["env"].(map[string]string)["CONTAINERS_CONF"] = "/nonsense"
	s.job["env"].(map[string]string)["SERVICE_ARTIFACT_PATHS"] = "made-inside"
	s.job["step"] = map[string]any{"image": testImage}
	wantResult(t, s.runJob(with), "7", "", "")
	log := s.log()
	for _, want := range []string{"In a container of " + testImage, "quotes '\" it's\n$HOME `x`", "no passwd"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log %s", want, log)
		}
	}
	if os.Getuid() == 0 && !strings.Contains(log, "\n65534\n") {
		t.Errorf("the user is another: %s", log)
	}
	if s.files["files/made-inside"] != "result\n" {
		t.Errorf("files %q", s.files)
	}

	// A container that does not stop is removed.
	s = newFakeServer(t, command("trap '' TERM; echo begun; while :; do sleep 1; done"))
	s.job["step"] = map[string]any{"image": testImage}
	a := s.start(with, onlyOneJob, func(o *runner.Options) { o.CancelGrace = time.Second })
	s.awaitLog("begun")
	s.change(func() { s.state = "canceling" })
	if err := a.wait(t); err != nil {
		t.Fatal(err)
	}
	if s.result.ExitStatus != "-1" || s.result.SignalReason != "cancel" {
		t.Errorf("result %+v", s.result)
	}
	left, err := exec.Command(runtime.Command[0], append(runtime.Command[1:], "ps", "--all", "--quiet")...).Output()
	if err != nil || len(left) > 0 {
		t.Errorf("containers are left: %s, %v", left, err)
	}
}

func TestImages_AreRefusedClearly(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*fakeServer, *runner.Options){
		"this machine has no container runtime. Install podman, docker, nerdctl": func(*fakeServer, *runner.Options) {},
		"this agent runs no containers (--step-images refuse)":                   func(_ *fakeServer, o *runner.Options) { o.Images = runner.RefuseImages },
		`"--privileged" is not the name of an image`: func(s *fakeServer, o *runner.Options) {
			s.job["step"] = map[string]any{"image": "--privileged"}
			o.Containers = &container.Runtime{Command: []string{"/bin/false"}}
		},
	} {
		s := newFakeServer(t, command("echo reached"))
		s.job["step"] = map[string]any{"image": "alpine"}
		wantResult(t, s.runJob(func(o *runner.Options) { change(s, o) }), "-1", "", "agent_refused")
		if log := s.log(); !strings.Contains(log, want) || strings.Contains(log, "Running command") {
			t.Errorf("no %q in the log %s", want, log)
		}
	}
	s := newFakeServer(t, command("echo reached"))
	s.job["step"] = map[string]any{"image": "alpine"}
	wantResult(t, s.runJob(func(o *runner.Options) { o.Images = runner.IgnoreImages }), "0", "", "")
}
