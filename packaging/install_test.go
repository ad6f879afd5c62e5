package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cavaliergopher/rpm"
)

const organization = `organizations:
  - slug: acme
    members:
      - email: ada@acme.test
        name: Ada
        role: admin
        access_tokens: [{description: test, token: svcua_package-test, scopes: ["*"]}]
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: test, token: svcct_package-test}]
    pipelines:
      - slug: hello
        name: Hello
        repository: https://git.example.test/acme/hello.git
        configuration: |
          steps:
            - command: echo hello from a package
              env: {SERVICE_SKIP_CHECKOUT: "true"}
`

// The package is installed with dpkg, the command line of its unit is started in a sandbox like the unit's, runs a
// build, and the package is removed with everything that it made.
func TestDebianPackage_InstallsRunsAndLeavesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("installing a package needs root")
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("this is not a Debian system")
	}
	if _, err := os.Stat("/usr/bin/stackyard"); err == nil {
		t.Skip("stackyard is installed on this machine, and the test would replace it")
	}
	t.Cleanup(func() { exec.Command("dpkg", "--purge", "stackyard").Run() })
	command(t, "dpkg", "--install", releaseFile(t, "stackyard_"+testVersion+"_amd64.deb"))
	account, err := user.Lookup("stackyard")
	if err != nil {
		t.Fatal(err)
	}
	wantMode(t, "/var/lib/stackyard", 0o700|os.ModeDir, account.Username)
	wantMode(t, "/etc/stackyard/stackyard.env", 0o640, "root")

	unit := readUnit(t, "/usr/lib/systemd/system/stackyard.service")
	const organizations = "/etc/stackyard/organizations.yaml"
	if err := os.WriteFile(organizations, []byte(organization), 0o644); err != nil {
		t.Fatal(err)
	}
	base, stop := startUnit(t, unit, "STACKYARD_APPLY="+organizations, "STACKYARD_LISTEN=127.0.0.1:0")
	runBuild(t, base)
	stop()

	command(t, "dpkg", "--remove", "stackyard")
	if _, err := os.Stat("/var/lib/stackyard/stackyard.db"); err != nil {
		t.Errorf("removing the package lost the data: %v", err)
	}
	command(t, "dpkg", "--purge", "stackyard")
	for _, path := range []string{"/usr/bin/stackyard", "/etc/stackyard", "/var/lib/stackyard", "/usr/lib/systemd/system/stackyard.service"} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	if _, err := user.Lookup("stackyard"); err == nil {
		t.Error("the user is still there")
	}
}

func wantMode(t *testing.T, path string, mode os.FileMode, owner string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	uid := fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid)
	u, err := user.LookupId(uid)
	if err != nil || info.Mode() != mode || u.Username != owner {
		t.Errorf("%s has the mode %v and belongs to %s (%v)", path, info.Mode(), uid, err)
	}
}

// readUnit returns the settings of a unit; of several with one name, the last.
func readUnit(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	return settings
}

// environment returns what the unit's file of settings sets.
func environment(t *testing.T, unit map[string]string) []string {
	t.Helper()
	text, err := os.ReadFile(unit["EnvironmentFile"])
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"PATH=/usr/bin:/bin"}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// sandboxed returns a command that runs as the unit's user with what the unit allows: nothing of the machine can be
// written except its data, there are no other users' files or processes, and no privileges.
func sandboxed(t *testing.T, unit map[string]string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	for name, want := range map[string]string{
		"ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes", "NoNewPrivileges": "yes", "StateDirectory": "stackyard",
	} {
		if unit[name] != want {
			t.Fatalf("the unit has %s=%s, and the sandbox of this test is like %s", name, unit[name], want)
		}
	}
	state := "/var/lib/" + unit["StateDirectory"]
	cmd := exec.Command("bwrap", append([]string{
		"--ro-bind", "/", "/", "--bind", state, state, "--perms", "1777", "--tmpfs", "/tmp", "--tmpfs", "/home", "--tmpfs", "/root", "--dev", "/dev", "--proc", "/proc",
		"--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP",
		"setpriv", "--reuid", unit["User"], "--regid", unit["Group"], "--clear-groups", "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all",
	}, args...)...)
	cmd.Env = env
	return cmd
}

// startUnit starts the command line of the unit with more settings, and returns its URL and how to stop it.
func startUnit(t *testing.T, unit map[string]string, settings ...string) (base string, stop func()) {
	t.Helper()
	cmd := sandboxed(t, unit, append(environment(t, unit), settings...), strings.Fields(unit["ExecStart"])...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for base == "" {
		if !lines.Scan() {
			cmd.Wait()
			t.Fatalf("the server ended: %s", log.String())
		}
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			base = url
		}
	}
	go io.Copy(io.Discard, out)
	return base, func() {
		cmd.Process.Kill() // the sandbox ends with it, and the server with the sandbox
		cmd.Wait()
	}
}

// runBuild creates a build with the command line, and runs it with the agent of the package.
func runBuild(t *testing.T, base string) {
	t.Helper()
	agent := exec.Command("/usr/bin/stackyard", "agent", "--endpoint", base+"/v3", "--disconnect-after-job", "--build-path", filepath.Join(t.TempDir(), "builds"))
	agent.Env = append(os.Environ(), "SERVICE_AGENT_TOKEN=svcct_package-test")
	var log bytes.Buffer
	agent.Stdout, agent.Stderr = &log, &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("/usr/bin/stackyard", "build", "create", "hello", "--commit", "0123456789012345678901234567890123456789", "--branch", "main", "--watch")
	build.Env = append(os.Environ(), "STACKYARD_SERVER="+base, "STACKYARD_TOKEN=svcua_package-test")
	if text, err := build.CombinedOutput(); err != nil || !strings.Contains(string(text), "passed") {
		agent.Process.Kill()
		agent.Wait()
		t.Fatalf("build: %v\n%s\nagent: %s", err, text, log.String())
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("agent: %v\n%s", err, log.String())
	}
}

func TestRPMPackage_HasTheSameFiles(t *testing.T) {
	p, err := rpm.Open(releaseFile(t, "stackyard-"+testVersion+"-1.x86_64.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range p.Files() {
		got = append(got, fmt.Sprintf("%v %s:%s %s", f.Mode(), f.Owner(), f.Group(), f.Name()))
	}
	want := []string{
		"drwxr-x--- root:root /etc/stackyard",
		"-rw-r----- root:root /etc/stackyard/stackyard.env",
		"-rwxr-xr-x root:root /usr/bin/stackyard",
		"-rw-r--r-- root:root /usr/lib/systemd/system/stackyard.service",
		"-rw-r--r-- root:root /usr/share/doc/stackyard/copyright",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the files are\n%s", strings.Join(got, "\n"))
	}
	if p.Name() != "stackyard" || p.Version() != testVersion || p.Architecture() != "x86_64" {
		t.Errorf("it is %s", p)
	}
}
