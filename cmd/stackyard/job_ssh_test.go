package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// sessionsFile allows sessions into jobs of acme on its own agents.
const sessionsFile = `
organizations:
  - slug: acme
    name: Acme
    features: {self_hosted_sessions: true}
    members:
      - {email: ada@acme.test, name: Ada, role: admin, access_tokens: [{description: all, token: svcua_ada, scopes: ["*"]}]}
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: boot, token: svcct_boot}]
    pipelines:
      - slug: hello
        name: Hello
        repository: ` + placeholder + `
        cluster: Default
        configuration: "steps: [{command: 'echo up; sleep 600', env: {SERVICE_SKIP_CHECKOUT: 'true', GREETING: hello}}]"
`

// runningJob starts an agent and a build, and returns its job once it runs.
func (y *yard) runningJob(args ...string) string {
	y.t.Helper()
	y.ask(y.t, yardUser, "PUT", "/v2/organizations/acme/pipeline-settings/hosted-agents-ssh", "").want(y.t, 200)
	a := y.agent(append(args, "--disconnect-after-job")...)
	y.t.Cleanup(func() { // the job would run for long; the next signal cancels it
		a.cmd.Process.Signal(syscall.SIGTERM)
		eventually(y.t, waitLimit, "the agent drains", func() bool {
			text := a.stderrText(y.t)
			return strings.Contains(text, "finishing running jobs") || strings.Contains(text, `"disconnected"`)
		})
	})
	b := y.build()
	y.awaitLog(b, 0, "up")
	return b.Jobs[0].ID
}

// endJob cancels a job, whose agent then exits. An agent whose server is gone would try to report for long.
func (y *yard) endJob(job string) {
	y.t.Helper()
	y.ask(y.t, yardUser, "PUT", "/v2/organizations/acme/jobs/"+job+"/cancel", "").want(y.t, 200)
	eventually(y.t, waitLimit, "the job is canceled", func() bool {
		return strings.Contains(string(y.get(y.t, yardUser, "/v2/organizations/acme/jobs/"+job).Body), `"state":"canceled"`)
	})
}

// anAddress returns a free address.
func anAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// An sshTerminal is a command at a terminal, as a person sees it.
type sshTerminal struct {
	*os.File
	t    *testing.T
	seen bytes.Buffer
}

func (y *yard) terminal(args ...string) (*sshTerminal, func() int) {
	y.t.Helper()
	cmd := command(args...)
	cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+y.URL, "STACKYARD_TOKEN="+yardUser, "TERM=xterm")
	file, err := pty.Start(cmd)
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() {
		file.Close()
		cmd.Process.Kill()
	})
	t := &sshTerminal{File: file, t: y.t}
	return t, func() int {
		go io.Copy(&t.seen, file)
		cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}

// await reads until the terminal shows a text.
func (t *sshTerminal) await(text string) {
	t.t.Helper()
	buffer := make([]byte, 4096)
	for !strings.Contains(t.seen.String(), text) {
		n, err := t.Read(buffer)
		t.seen.Write(buffer[:n])
		if err != nil {
			t.t.Fatalf("the terminal ended before %q:\n%s", text, t.seen.String())
		}
	}
}

func TestJobSSH_OpensAShellInARunningJob(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		y := &yard{serveOn(t, append(installation, "--apply", write(t, sessionsFile))), t, t.TempDir()}
		job := y.runningJob()
		shell, end := y.terminal("job", "ssh", job)
		shell.WriteString("echo $GREETING-$SERVICE_JOB_ID; tty\n")
		shell.await("hello-" + job)
		shell.await("/dev/pts/")
		shell.WriteString("exit 9\n")
		if status := end(); status != 9 {
			t.Errorf("the exit status is %d, want 9\n%s", status, shell.seen.String())
		}
		// Without a terminal, and when the server says no.
		cmd := command("job", "ssh", job, "--", "cat; exit 4")
		cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+y.URL, "STACKYARD_TOKEN="+yardUser)
		cmd.Stdin = strings.NewReader("from here\n")
		out, _ := cmd.Output()
		if string(out) != "from here\n" || cmd.ProcessState.ExitCode() != 4 {
			t.Errorf("printed %q, exit status %d", out, cmd.ProcessState.ExitCode())
		}
		y.ask(t, yardUser, "DELETE", "/v2/organizations/acme/pipeline-settings/hosted-agents-ssh", "").want(t, 200)
		cmd = command("job", "ssh", job)
		cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+y.URL, "STACKYARD_TOKEN="+yardUser)
		text, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(text), "SSH access is unavailable") {
			t.Errorf("printed %q, error %v", text, err)
		}
	})
}

func TestJobSSH_WorksThroughALoadBalancer(t *testing.T) {
	t.Parallel()
	balancer := newBalancer(t, 2)
	public := balancer.URL()
	installation := append(onPostgres(t, dbtest.URL(t, db.PostgreSQL)), "--public-url", public)
	apply(t, installation[:len(installation)-2], sessionsFile)
	one, two := serveOn(t, installation), serveOn(t, installation)
	balancer.connect(0, one)
	balancer.connect(1, two)
	first := *one
	first.URL = public
	y := &yard{&first, t, t.TempDir()}
	job := y.runningJob()
	for range 4 { // the ends meet at the same replica, or not
		cmd := command("job", "ssh", job, "--", "echo $GREETING; head -c 1000000 /dev/zero | wc -c")
		cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+y.URL, "STACKYARD_TOKEN="+yardUser)
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "hello\n1000000\n" {
			t.Fatalf("printed %q, error %v", out, err)
		}
	}
}

// After SIGTERM the server waits for open shells, and no longer than it may.
func TestJobSSH_LastsUntilTheGracePeriodEnds(t *testing.T) {
	t.Parallel()
	for _, grace := range []string{"5m", "10ms"} {
		t.Run(grace, func(t *testing.T) {
			t.Parallel()
			server := []string{"serve", "--listen", anAddress(t), "--data", t.TempDir(), "--apply", write(t, sessionsFile), "--session-grace", grace}
			y := &yard{start(t, server...), t, t.TempDir()}
			job := y.runningJob()
			defer func() {
				y.process = start(t, server...)
				y.endJob(job)
			}()
			shell, end := y.terminal("job", "ssh", job)
			shell.WriteString("echo re''ady\n")
			shell.await("ready")
			y.terminate(t)
			if grace == "10ms" {
				if status := end(); status == 0 || !strings.Contains(shell.seen.String(), "Session closed: the server is about to stop") {
					t.Errorf("ssh ended with status %d:\n%s", status, shell.seen.String())
				}
				y.wait(t)
				return
			}
			eventually(t, waitLimit, "the server accepts no more connections", func() bool {
				_, err := y.try(yardUser, "GET", "/healthz", "")
				return err != nil
			})
			shell.WriteString("echo still-$GREETING; exit 3\n")
			shell.await("still-hello")
			if status := end(); status != 3 {
				t.Errorf("ssh ended with status %d", status)
			}
			y.wait(t)
		})
	}
}

// A shell ends when its server is killed, and a new one can be opened afterwards.
func TestJobSSH_LeavesNoProcessWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		address := anAddress(t)
		serve := func() *process {
			return start(t, append([]string{"serve", "--listen", address, "--apply", write(t, sessionsFile)}, installation...)...)
		}
		y := &yard{serve(), t, t.TempDir()}
		job := y.runningJob()
		// Killed between the credentials and the user's connection.
		y.ask(t, yardUser, "POST", "/v2/organizations/acme/jobs/"+job+"/ssh-session", "").want(t, 200)
		y.kill()
		y.process = serve()
		// Killed while a shell is open.
		pids := filepath.Join(t.TempDir(), "pids")
		shell, end := y.terminal("job", "ssh", job)
		shell.WriteString("setsid sleep 602 & echo $! $$ >" + pids + "; echo re''ady\n")
		shell.await("ready")
		y.kill()
		if status := end(); status == 0 {
			t.Errorf("ssh ended with status 0 when its server was killed")
		}
		text, err := os.ReadFile(pids)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range strings.Fields(string(text)) {
			eventually(t, waitLimit, "process "+pid+" ends", func() bool {
				stat, err := os.ReadFile("/proc/" + pid + "/stat")
				return err != nil || bytes.Contains(stat, []byte(") Z "))
			})
		}
		y.process = serve()
		eventually(t, waitLimit, "a new shell opens", func() bool {
			cmd := command("job", "ssh", job, "--", "echo $GREETING")
			cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+y.URL, "STACKYARD_TOKEN="+yardUser)
			out, _ := cmd.Output()
			return string(out) == "hello\n"
		})
		y.endJob(job)
	})
}
