package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"stackyard/internal/platform/buildah/buildahtest"
	"stackyard/internal/platform/rfb"
	"stackyard/internal/platform/rfb/rfbtest"
)

// An sshServer is Debian's sshd on a loopback address, for the user of the test.
type sshServer struct {
	t       *testing.T
	dir     string
	address string
	hostKey string
	cmd     *exec.Cmd
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	s := &sshServer{t: t, dir: t.TempDir()}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	key, err := os.ReadFile(filepath.Join(s.dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	s.hostKey = strings.TrimSpace(string(key))
	s.address = anAddress(t)
	return s
}

// start starts the server.
func (s *sshServer) start() {
	s.t.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd" // which is often not in PATH
	}
	if os.Geteuid() == 0 {
		os.MkdirAll("/run/sshd", 0o755) // sshd needs it, and a service would create it
	}
	host, port, _ := net.SplitHostPort(s.address)
	s.cmd = exec.Command(program, "-D", "-e", "-f", "/dev/null", "-o", "ListenAddress="+host, "-o", "Port="+port, "-o", "HostKey="+filepath.Join(s.dir, "host"),
		"-o", "AuthorizedKeysFile="+filepath.Join(s.dir, "user.pub"), "-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none", "-o", "PermitRootLogin=yes",
		"-o", "PasswordAuthentication=no", "-o", "MaxStartups=100")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("install openssh-server: %v", err)
	}
	s.t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	eventually(s.t, waitLimit, "sshd listens", func() bool {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// machines writes the file that lists this machine twice, once as a Mac, and returns its path and the folder of agents.
func (s *sshServer) machines(hostKey, vnc string) (path, folder string) {
	s.t.Helper()
	program, err := exec.LookPath("stackyard")
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := user.Current()
	if err != nil {
		s.t.Fatal(err)
	}
	folder = filepath.Join(s.t.TempDir(), "machines")
	if err := os.WriteFile(filepath.Join(s.dir, "vnc"), []byte("of-the-mac\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	entry := func(name, platform, vnc string) string {
		return fmt.Sprintf("  - {name: %s, platform: %s, address: '%s', user: %s, key_file: user, host_keys: ['%s'], program: %s, folder: %s%s}\n",
			name, platform, s.address, self.Username, hostKey, program, folder, vnc)
	}
	text := "machines:\n" + entry("box", "linux", "")
	if vnc != "" {
		text += entry("mac", "macos", fmt.Sprintf(", vnc: {address: '%s', password_file: vnc}", vnc))
	}
	path = filepath.Join(s.dir, "machines.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path, folder
}

const remoteFile = `
organizations:
  - slug: acme
    name: Acme Inc
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: ` + adaToken + `, scopes: ["*"]}]
    clusters:
      - {name: Cloud, default: true, queues: [{key: default, default: true, hosted: {platform: linux}}, {key: mac, hosted: {platform: macos}}]}
    pipelines:
      - {slug: hosted, name: Hosted, repository: "https://git.example.test/acme/hosted.git", cluster: Cloud, configuration: "steps: [{command: 'true'}]"}
`

// command sets the command and the queue of the hosted pipeline.
func (p *process) command(t *testing.T, queue, text string) {
	t.Helper()
	p.ask(t, adaToken, "PATCH", "/v2/organizations/acme/pipelines/hosted", fmt.Sprintf(`{"configuration": %q}`,
		fmt.Sprintf(`{"env": {"SERVICE_SKIP_CHECKOUT": "true", "GREETING": "hello"}, "agents": {"queue": %q}, "steps": [{"command": %q}]}`, queue, text))).want(t, http.StatusOK)
}

// newHosted creates a build of the hosted pipeline.
func (p *process) newHosted(t *testing.T) hostedBuild {
	t.Helper()
	return decode[hostedBuild](t, p.ask(t, adaToken, "POST", hostedBuilds, `{"commit": "HEAD", "branch": "main"}`).want(t, http.StatusCreated))
}

// awaitHosted waits until the job of a build has a state, and returns the log of the job.
func (p *process) awaitHosted(t *testing.T, b hostedBuild, state string) (log string) {
	t.Helper()
	at := fmt.Sprintf("%s/%d", hostedBuilds, b.Number)
	eventually(t, imageLimit, "the job is "+state, func() bool {
		b = decode[hostedBuild](t, p.get(t, adaToken, at))
		if now := b.Jobs[0].State; now != state && (now == "passed" || now == "failed" || now == "canceled") {
			t.Fatalf("the job is %s, want %s; its log is\n%s", now, state, p.get(t, adaToken, at+"/jobs/"+b.Jobs[0].ID+"/log.txt").Body)
		}
		return b.Jobs[0].State == state
	})
	return string(p.get(t, adaToken, at+"/jobs/"+b.Jobs[0].ID+"/log.txt").Body)
}

// wantNoMachines waits until nothing of any machine is left.
func wantNoMachines(t *testing.T, folder string) {
	t.Helper()
	eventually(t, waitLimit, "the folder of agents is empty", func() bool {
		entries, err := os.ReadDir(folder)
		return err != nil || len(entries) == 0
	})
	buildahtest.WantNoProcesses(t, folder)
}

func TestServe_RunsJobsOnMachinesOverSSH(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		desktop := rfbtest.Start(t, "of-the-mac")
		box := newSSHServer(t)
		box.start()
		list, folder := box.machines(box.hostKey, desktop.Address)
		p := serveOn(t, append(installation, "--apply", write(t, remoteFile), "--hosted-provider", "remote", "--hosted-machines", list))
		p.ask(t, adaToken, "PUT", "/v2/organizations/acme/pipeline-settings/hosted-agents-ssh", "").want(t, http.StatusOK)

		p.command(t, "default", `echo "in $PWD"; env; cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\\0' '\\n'; setsid sleep 877 & true`)
		build, log := p.runHosted(t)
		if build.State != "passed" || !strings.Contains(log, "Running on the machine box") || !strings.Contains(log, "in /tmp/stackyard-") {
			t.Errorf("the build is %+v, the log is\n%s", build, log)
		}
		if strings.Contains(log, "of-the-mac") || strings.Contains(log, "svcjat_") {
			t.Errorf("the job sees credentials:\n%s", log)
		}
		wantNoMachines(t, folder)
		buildahtest.WantNoProcesses(t, "sleep 877")

		p.command(t, "mac", "echo up; sleep 600")
		build = p.newHosted(t)
		p.awaitHosted(t, build, "running")
		job := "/v2/organizations/acme/jobs/" + build.Jobs[0].ID
		p.wantRemoteShell(t, build.Jobs[0].ID)
		p.wantRemoteDesktop(t, job)
		desktop.Stop()
		gone := p.ask(t, adaToken, "POST", job+"/vnc-session", "").want(t, http.StatusServiceUnavailable)
		if !strings.Contains(string(gone.Body), "The session could not be created: the agent of the job refused it: the VNC server of the agent cannot be reached") || gone.Header.Get("Retry-After") == "" {
			t.Errorf("without a VNC server the answer is %s, %v", gone.Body, gone.Header)
		}
		p.ask(t, adaToken, "PUT", job+"/cancel", "").want(t, http.StatusOK)
		p.awaitHosted(t, build, "canceled")
		wantNoMachines(t, folder)
	})
}

// wantRemoteShell opens a shell into a job on a Mac.
func (p *process) wantRemoteShell(t *testing.T, jobID string) {
	t.Helper()
	opened := decode[struct {
		Transport string
		SSH       struct {
			HostKeys []string `json:"host_keys"`
		}
	}](t, p.ask(t, adaToken, "POST", "/v2/organizations/acme/jobs/"+jobID+"/ssh-session", "").want(t, http.StatusOK))
	if opened.Transport != "namespace_ingress" || opened.SSH.HostKeys == nil || len(opened.SSH.HostKeys) != 0 {
		t.Errorf("the session is %+v", opened)
	}
	if out, status := p.shellInto(jobID, "echo $GREETING from $SERVICE_JOB_ID; exit 6"); out != "hello from "+jobID+"\n" || status != 6 {
		t.Errorf("the shell printed %q, exit status %d", out, status)
	}
}

// wantRemoteDesktop opens the desktop of a Mac and signs in as a VNC viewer does.
func (p *process) wantRemoteDesktop(t *testing.T, job string) {
	t.Helper()
	opened := decode[struct {
		Endpoint    string
		AccessToken string `json:"access_token"`
		VNC         struct{ Username, Password string }
	}](t, p.ask(t, adaToken, "POST", job+"/vnc-session", "").want(t, http.StatusOK))
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, opened.Endpoint, &websocket.DialOptions{Subprotocols: []string{"binary", "token." + opened.AccessToken}})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	viewer := websocket.NetConn(ctx, socket, websocket.MessageBinary)
	if err := (rfb.Server{Password: opened.VNC.Password}).SignIn(viewer); err != nil {
		t.Fatal(err)
	}
	if _, err := viewer.Write([]byte{1}); err != nil { // share the desktop
		t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(viewer, size[:]); err != nil {
		t.Fatal(err)
	}
	if width, height := binary.BigEndian.Uint16(size[:2]), binary.BigEndian.Uint16(size[2:]); width != 640 || height != 480 {
		t.Errorf("the desktop has %d × %d pixels", width, height)
	}
	if opened.VNC.Username == "" || opened.VNC.Password == "of-the-mac" {
		t.Errorf("the credentials are %+v", opened.VNC)
	}
}

func TestServe_AdoptsJobsOnMachines(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		box := newSSHServer(t)
		box.start()
		list, folder := box.machines(box.hostKey, "")
		args := append([]string{"serve", "--listen", anAddress(t), "--apply", write(t, remoteFile), "--hosted-provider", "remote", "--hosted-machines", list}, installation...)
		p := start(t, args...)
		for _, name := range []string{"killed", "stopped"} {
			gate := filepath.Join(t.TempDir(), "gate")
			p.command(t, "default", fmt.Sprintf("echo up; while [ ! -e %s ]; do sleep 0.1; done; echo the server was %s", gate, name))
			build := p.newHosted(t)
			p.awaitHosted(t, build, "running")
			if name == "killed" {
				p.kill()
			} else {
				p.stop(t)
			}
			if len(buildahtest.Processes(t, folder)) == 0 {
				t.Error("the agent ended with the server")
			}
			p = start(t, args...)
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if log := p.awaitHosted(t, build, "passed"); !strings.Contains(log, "the server was "+name) {
				t.Errorf("the log is\n%s", log)
			}
			wantNoMachines(t, folder)
		}
	})
}

func TestServe_LeavesJobsWaitingWhileMachinesCannotBeReached(t *testing.T) {
	t.Parallel()
	box := newSSHServer(t)
	other := newSSHServer(t)
	installation := []string{"--data", t.TempDir(), "--apply", write(t, remoteFile), "--hosted-provider", "remote", "--hosted-machines"}
	wrong, _ := box.machines(other.hostKey, "")
	p := serveOn(t, append(installation, wrong))
	p.command(t, "default", "echo at last")
	build := p.newHosted(t)
	logged := func(text string) {
		t.Helper()
		eventually(t, waitLimit, "the log has "+text, func() bool { return strings.Contains(p.stderrText(t), text) })
	}
	logged("connection refused")
	box.start()
	logged("is not one of the machine's host_keys")
	p.kill()
	list, folder := box.machines(box.hostKey, "")
	p = serveOn(t, append(installation, list))
	if log := p.awaitHosted(t, build, "passed"); !strings.Contains(log, "at last") {
		t.Errorf("the log is\n%s", log)
	}
	wantNoMachines(t, folder)
}
