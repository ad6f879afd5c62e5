package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stackyard/internal/clients/cmdline"
)

// spy is a job that searches for tokens in the arguments and the environment of its agent and all ancestors,
// and in its own environment. The searched text must not be in its own command.
func spy(prefix, rest string) string {
	return `found=nothing
word=` + prefix + `; word=${word}` + rest + `
pid=$SERVICE_AGENT_PID
while [ "$pid" -gt 1 ]; do
  for part in environ cmdline; do
    if grep -q "$word" /proc/$pid/$part 2>/dev/null; then found="$part of $(tr '\0' ' ' </proc/$pid/comm)"; fi
  done
  pid=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$pid/status)
done
if env | grep -q "$word"; then found="own environment"; fi
echo "found $found"
`
}

func indent(script string) string {
	return "      " + strings.ReplaceAll(strings.TrimSpace(script), "\n", "\n      ")
}

func spying(script string) string {
	return "steps:\n  - env: {SERVICE_SKIP_CHECKOUT: \"true\"}\n    command: |\n" + indent(strings.ReplaceAll(script, "$", "$$"))
}

func TestAgent_HidesItsTokenFromJobs(t *testing.T) {
	t.Parallel()
	y := newYard(t, placeholder, spying(spy("svc", "ct_boot")))
	file := write(t, yardAgent+"\n")
	for name, give := range map[string]func(cmd *exec.Cmd){
		"in the environment":           func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN="+yardAgent) },
		"as an argument":               func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--token", yardAgent) },
		"in a file":                    func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--token-file", file) },
		"in a file of the environment": func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN_FILE="+file) },
		"in both": func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN=x", "BUILDKITE_AGENT_TOKEN="+yardAgent)
			cmd.Args = append(cmd.Args, "--token="+yardAgent)
		},
	} {
		cmd := command("agent", "--endpoint", y.URL+"/v3", "--build-path", t.TempDir(), "--disconnect-after-job", "--tags", "a=b", "--tags", "c=d")
		give(cmd)
		b := y.build()
		spawn(t, cmd).wait(t)
		b = y.await(b.Number, "passed")
		if log := y.log(b, 0); !strings.Contains(log, "\nfound nothing\n") {
			t.Errorf("%s: %s", name, log)
		}
	}
}

func TestStack_HidesItsTokenFromJobs(t *testing.T) {
	t.Parallel()
	y := newYard(t, placeholder, spying(spy("svc", "ct_boot")))
	cmd := command("stack", "--endpoint", y.URL+"/v3", "--token", yardAgent, "--max", "1")
	cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN="+yardAgent, "BUILDKITE_AGENT_TOKEN="+yardAgent)
	spawn(t, cmd)
	b := y.await(y.build().Number, "passed")
	if log := y.log(b, 0); !strings.Contains(log, "\nfound nothing\n") {
		t.Error(log)
	}
}

// An agent that a stack starts has only the token of its job.
func TestStack_GivesItsAgentsTheTokensOfTheirJobsAlone(t *testing.T) {
	t.Parallel()
	y := newYard(t, placeholder, spying("echo never"))
	out := filepath.Join(t.TempDir(), "environment")
	cmd := command("stack", "--endpoint", y.URL+"/v3", "--max", "1", "--command", "env >"+out+".part; mv "+out+".part "+out)
	cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN_FILE="+write(t, yardAgent), "BUILDKITE_AGENT_TOKEN="+yardAgent)
	spawn(t, cmd)
	y.await(y.build().Number, "failed")
	env, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(env); strings.Contains(text, yardAgent) || strings.Contains(text, "TOKEN_FILE") ||
		!strings.Contains(text, "SERVICE_AGENT_TOKEN=svcjat_") || !strings.Contains(text, "BUILDKITE_AGENT_TOKEN=svcjat_") {
		t.Errorf("the agent's environment is\n%s", text)
	}
}

func TestUp_HidesItsSecretsFromJobs(t *testing.T) {
	t.Parallel()
	const key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	cmd := command("up", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	cmd.Env = append(cmd.Env, "STACKYARD_SECRET_KEY="+key)
	p := spawn(t, cmd)
	p.waitReady(t)
	var output strings.Builder
	for !strings.Contains(output.String(), "API reference") {
		output.WriteString(p.line(t) + "\n")
	}
	token := secrets(output.String())["Access token"]
	const hello = "/v2/organizations/demo/pipelines/hello"
	p.ask(t, token, "PATCH", hello, fmt.Sprintf(`{"configuration": %q}`, spying(spy(key[:32], key[32:])))).want(t, 200)
	build := decode[built](t, p.ask(t, token, "POST", hello+"/builds", `{"commit": "HEAD", "branch": "main"}`).want(t, 201))
	y := &yard{process: p, t: t}
	eventually(t, waitLimit, "the build passes", func() bool {
		return decode[built](t, p.get(t, token, fmt.Sprintf("%s/builds/%d", hello, build.Number))).State == "passed"
	})
	log := string(y.get(t, token, fmt.Sprintf("/v2/organizations/demo/jobs/%s/log.txt", build.Jobs[0].ID)).Body)
	if !strings.Contains(log, "found nothing") {
		t.Error(log)
	}
}

// shared returns a directory that every user can reach, and the program in it.
func shared(t *testing.T) (dir, program string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("stackyard")
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	program = filepath.Join(dir, "stackyard")
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// unprivilegedUser returns a user other than root, and makes it the owner of a directory.
func unprivilegedUser(t *testing.T) (uid, gid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	found, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ = strconv.Atoi(found.Uid)
	gid, _ = strconv.Atoi(found.Gid)
	return uid, gid
}

// The jobs of an agent without root cannot read the agent's memory, although they run as the same user.
func TestAgent_ClosesItsMemoryToJobs(t *testing.T) {
	t.Parallel()
	uid, gid := unprivilegedUser(t)
	dir, program := shared(t)
	y := newYard(t, placeholder, spying(`for part in environ mem maps fd/0; do
  if (: </proc/$SERVICE_AGENT_PID/$part) 2>/dev/null; then echo "opened $part"; fi
done
echo "user $(id -u)"
`))
	builds := filepath.Join(dir, "builds")
	if err := os.Mkdir(builds, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(builds, uid, gid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "agent", "--endpoint", y.URL+"/v3", "--build-path", builds, "--disconnect-after-job")
	cmd.Env = append(os.Environ(), "SERVICE_AGENT_TOKEN="+yardAgent)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	b := y.build()
	spawn(t, cmd).wait(t)
	b = y.await(b.Number, "passed")
	if log := y.log(b, 0); strings.Contains(log, "\nopened") || !strings.Contains(log, fmt.Sprintf("\nuser %d\n", uid)) {
		t.Error(log)
	}
}

func TestAgent_RunsJobsAsAnotherUser(t *testing.T) {
	t.Parallel()
	uid, gid := unprivilegedUser(t)
	dir, program := shared(t)
	repo := repository(t, map[string]string{
		".stackyard/hooks/pre-command": "export FROM_HOOK=hooked\n",
		"ci/run": `#!/bin/bash
set -e
echo "user $(id -u) $USER, hook $FROM_HOOK, home $HOME"
echo "on the terminal" >/dev/stderr
echo kept >kept.txt
ln -s "$SECRET_PLACE" leak.txt
cat "$SECRET_PLACE" || echo "cannot read the token"
(: </proc/$SERVICE_AGENT_PID/environ) || echo "cannot read the environment"
git log --oneline | wc -l
git status --porcelain
echo hunter2-hunter2 | stackyard agent redactor add
echo "output hunter2-hunter2"
touch "$SERVICE_BIN_PATH/x" "$(dirname "$SERVICE_BIN_PATH")/x" || echo "cannot write beside the program"
`})
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", uid, gid), repo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(filepath.Dir(repo), 0o755); err != nil {
		t.Fatal(err)
	}
	token := write(t, yardAgent)
	y := newYard(t, repo, "steps:\n  - command: ci/run\n    env: {SECRET_PLACE: "+token+"}\n    artifact_paths: \"*.txt\"\n")
	builds := filepath.Join(dir, "builds")
	for range 2 { // in a new directory and in a reused one
		cmd := exec.Command(program, "agent", "--endpoint", y.URL+"/v3", "--build-path", builds, "--disconnect-after-job", "--token-file", token, "--job-user", "nobody")
		cmd.Dir = dir
		b := y.build()
		spawn(t, cmd).wait(t)
		var log string
		eventually(t, waitLimit, "the job has ended", func() bool {
			b = y.look(b.Number)
			return b.Jobs[0].ExitStatus != nil
		})
		log = y.log(b, 0)
		wantLines(t, log, fmt.Sprintf("user %d nobody, hook hooked, home /nonexistent", uid), "on the terminal", "cannot read the token", "cannot read the environment",
			"output [REDACTED]", "cannot write beside the program")
		if strings.Contains(log, "fatal:") {
			t.Error(log)
		}
		artifacts := string(y.get(t, yardUser, fmt.Sprintf("%s/builds/%d/artifacts", yardPath, b.Number)).Body)
		if strings.Contains(artifacts, "leak.txt") {
			t.Errorf("the token was uploaded: %s", artifacts)
		}
	}
}

func TestJobUser_IsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	unprivilegedUser(t)
	for _, command := range [][]string{{"agent", "--token", "x"}, {"stack", "--token", "x"}, {"up", "--data", t.TempDir()}} {
		for name, want := range map[string]string{"root": "root is root", "no-such-user": `find the user "no-such-user"`} {
			status, _, stderr := stackyard(t, append(command, "--job-user", name)...)
			if status != cmdline.ExitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%s --job-user %s: exit status %d: %s", command[0], name, status, stderr)
			}
		}
	}
	status, _, stderr := stackyard(t, "stack", "--token", "x", "--job-user", "nobody", "--command", "true")
	if status != cmdline.ExitUsage || !strings.Contains(stderr, "remove it or --command") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}
