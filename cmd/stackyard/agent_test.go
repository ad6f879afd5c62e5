package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"stackyard/internal/clients/cmdline"
)

// A yard is a server with a pipeline.
type yard struct {
	*process
	t   *testing.T
	dir string
}

const (
	yardUser  = "svcua_ada"
	yardAgent = "svcct_boot"
	yardPath  = "/v2/organizations/acme/pipelines/hello"
)

// newYard starts a server with one pipeline.
func newYard(t *testing.T, repository, configuration string) *yard {
	t.Helper()
	file := `
organizations:
  - slug: acme
    name: Acme
    members:
      - {email: ada@acme.test, name: Ada, role: admin, access_tokens: [{description: all, token: svcua_ada, scopes: ["*"]}]}
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: boot, token: svcct_boot}]
    source_connections: [{host: github.com, token: admin-token, clone_token: token-to-clone-with}]
    pipelines:
      - slug: hello
        name: Hello
        repository: ` + repository + `
        cluster: Default
        configuration: |
          ` + strings.ReplaceAll(strings.TrimSpace(configuration), "\n", "\n          ") + "\n"
	dir := t.TempDir()
	return &yard{start(t, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--apply", write(t, file)), t, dir}
}

// placeholder is a repository that does not exist.
const placeholder = "https://git.example.test/acme/hello.git"

// agent starts an agent.
func (y *yard) agent(args ...string) *process {
	y.t.Helper()
	cmd := command(append([]string{"agent", "--endpoint", y.URL + "/v3", "--build-path", filepath.Join(y.dir, "builds")}, args...)...)
	cmd.Env = append(cmd.Env, "SERVICE_AGENT_TOKEN="+yardAgent)
	a := spawn(y.t, cmd)
	// A killed agent would leave directories behind.
	y.t.Cleanup(func() {
		a.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-a.ended:
		case <-time.After(waitLimit):
		}
	})
	return a
}

// stderrText returns what a program wrote to standard error.
func (p *process) stderrText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.cmd.Stderr.(*os.File).Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A built is a build as tests see it.
type built struct {
	ID     string
	Number int
	State  string
	Commit string
	Jobs   []struct {
		ID         string
		Type       string
		Name       string
		State      string
		ExitStatus *int `json:"exit_status"`
		Signal     string
		Reason     string `json:"signal_reason"`
	}
}

// build creates a build.
func (y *yard) build() built {
	y.t.Helper()
	return decode[built](y.t, y.ask(y.t, yardUser, "POST", yardPath+"/builds", `{"commit": "HEAD", "branch": "main", "message": "Try it"}`).want(y.t, 201))
}

func (y *yard) look(number int) built {
	y.t.Helper()
	return decode[built](y.t, y.get(y.t, yardUser, fmt.Sprintf("%s/builds/%d", yardPath, number)))
}

// await waits until a build is in a state.
func (y *yard) await(number int, state string) (b built) {
	y.t.Helper()
	eventually(y.t, waitLimit, "the build is "+state, func() bool {
		b = y.look(number)
		return b.State == state
	})
	return b
}

var logEscapes = regexp.MustCompile("\x1b_[^\a]*\a|\x1b\\[[0-9;]*m")

// log returns the log of a build's job without escape sequences.
func (y *yard) log(b built, job int) string {
	y.t.Helper()
	a := y.ask(y.t, yardUser, "GET", fmt.Sprintf("%s/builds/%d/jobs/%s/log", yardPath, b.Number, b.Jobs[job].ID), "").want(y.t, 200)
	text := decode[struct{ Content string }](y.t, a).Content
	return strings.ReplaceAll(logEscapes.ReplaceAllString(text, ""), "\r\n", "\n")
}

// awaitLog waits for a text in the log of a build's job.
func (y *yard) awaitLog(b built, job int, text string) {
	y.t.Helper()
	eventually(y.t, waitLimit, "the log has "+text, func() bool { return strings.Contains(y.log(b, job), text) })
}

// wantLines checks that a log contains lines.
func wantLines(t *testing.T, log string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(log, "\n"+line+"\n") {
			t.Errorf("no line %q in the log\n%s", line, log)
		}
	}
}

// repository creates a git repository with files.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	runGit(t, dir, "init", "--quiet", "--initial-branch=main")
	commitAll(t, dir)
	return dir
}

// commitAll commits all files of a repository.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	runGit(t, dir, "add", ".")
	runGit(t, dir, "-c", "user.name=Ada", "-c", "user.email=ada@acme.test", "commit", "--quiet", "-m", "Begin")
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func TestAgent_SkipsStepsWhoseFilesDidNotChange(t *testing.T) {
	repo := repository(t, map[string]string{
		"docs/a.md": "a", "src/a.go": "a",
		".stackyard/pipeline.yml": `
steps:
  - {label: Docs, command: "true", if_changed: docs/**}
  - {label: Source, command: "true", if_changed: [src/**, "**.go"]}
  - group: All
    if_changed: {include: "**", exclude: docs/**}
    steps: [{label: Inside, command: "true"}]
`,
	})
	if err := os.WriteFile(filepath.Join(repo, "docs/a.md"), []byte("b"), 0o666); err != nil {
		t.Fatal(err)
	}
	commitAll(t, repo)
	y := newYard(t, repo, `steps: [{label: Upload, command: stackyard agent pipeline upload}]`)
	y.agent()
	b := y.await(y.build().Number, "passed")
	var got []string
	for _, job := range b.Jobs {
		got = append(got, job.Name+" "+job.State)
	}
	if want := []string{"Upload passed", "Docs passed", "Source broken", "Inside broken"}; !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q\n%s", got, want, y.log(b, 0))
	}
	wantLines(t, y.log(b, 0), "The build is of origin/main itself, so if_changed compares with the commit before it.")
}

func TestAgent_RunsABuildThatUsesEverything(t *testing.T) {
	repo := repository(t, map[string]string{
		"ci/first": `#!/bin/bash
set -e
echo "--- Working in $(basename "$PWD")"
printf '\033[32mgreen\033[0m\n'
stackyard agent meta-data set greeting "hello from first"
echo piped | stackyard agent meta-data set second-value
stackyard agent meta-data set-batch a=1 b=2
echo "got $(stackyard agent meta-data get greeting)"
echo "got $(buildkite-agent meta-data get nothing --default otherwise)"
stackyard agent meta-data exists nothing || echo "exists says $?"
stackyard agent meta-data exists greeting && echo "greeting exists"
echo "keys $(stackyard agent meta-data keys | grep -v : | sort | tr '\n' ' ')"
mkdir -p out/deep; echo one >out/one.txt; echo two >out/deep/two.txt
stackyard agent artifact upload 'out/**/*.txt'
echo "sum $(stackyard agent artifact shasum out/one.txt --sha256 | cut -c1-8)"
stackyard agent annotate --style success --context ci 'All is **well**'
stackyard agent annotate --context gone 'Never mind'
stackyard agent annotation remove --context gone
echo "label $(stackyard agent step get label)"
stackyard agent step update label 'First, changed'
stackyard agent pipeline upload
`,
		".stackyard/hooks/pre-command": "export FROM_HOOK=hooked\n",
		".stackyard/pipeline.yml": `
env:
  COLOR: blue
steps:
  - label: Second
    key: second
    env: {OWN: mine}
    command: |
      echo "color $$COLOR, branch $SERVICE_BRANCH, own $$OWN, hook $$FROM_HOOK"
      echo "got $$(stackyard agent meta-data get greeting), $$(stackyard agent meta-data get second-value)"
      stackyard agent artifact download 'out/**/*.txt' got --step first
      cat got/out/one.txt got/out/deep/two.txt
      stackyard agent artifact search 'out/*.txt' --format '%p %z\n'
      exit 7
    soft_fail: true
    artifact_paths: "got/**/*"
`,
	})
	y := newYard(t, repo, `
steps:
  - label: First
    key: first
    command: ci/first
`)
	y.agent()
	b := y.await(y.build().Number, "passed")
	if len(b.Jobs) != 2 || b.Jobs[0].State != "passed" || *b.Jobs[1].ExitStatus != 7 {
		t.Fatalf("jobs %+v", b.Jobs)
	}
	if len(b.Commit) != 40 {
		t.Errorf("the build's commit is %s", b.Commit)
	}
	first := y.log(b, 0)
	wantLines(t, first, "--- Working in hello", "green", "got hello from first", "got otherwise", "exists says 100", "greeting exists",
		"keys a b greeting second-value ", "sum 2c8b08da", "label First", "Pipeline uploaded.")
	wantLines(t, y.log(b, 1), "color blue, branch main, own mine, hook hooked", "got hello from first, piped", "one", "two", "out/one.txt 4")

	type annotation struct {
		Body string `json:"body_html"`
	}
	annotations := decode[[]annotation](t, y.get(t, yardUser, fmt.Sprintf("%s/builds/%d/annotations", yardPath, b.Number)))
	if want := []annotation{{"<p>All is <strong>well</strong></p>\n"}}; !slices.Equal(annotations, want) {
		t.Errorf("annotations %q, want %q", annotations, want)
	}
	type artifact struct{ Path, State string }
	if artifacts := decode[[]artifact](t, y.get(t, yardUser, fmt.Sprintf("%s/builds/%d/artifacts", yardPath, b.Number))); len(artifacts) != 4 {
		t.Errorf("artifacts %+v", artifacts)
	}
}

func TestAgent_SavesAndRestoresCaches(t *testing.T) {
	repo := repository(t, map[string]string{
		"lock": "1",
		"ci/deps": `#!/bin/bash
set -e
stackyard agent cache restore deps-v1 vendor/deps --checksum lock
if [ -e vendor/deps/lib ]; then
  echo "found $(cat vendor/deps/lib), link $(readlink vendor/deps/link)"
else
  mkdir -p vendor/deps; echo one >vendor/deps/lib; ln -s lib vendor/deps/link
fi
buildkite-agent cache save deps-v1 vendor/deps --checksum lock
stackyard agent cache restore other vendor/deps --required || echo "required says $?"
stackyard agent cache save bad . || echo "whole folder says $?"
`,
	})
	y := newYard(t, repo, `steps: [{command: ci/deps}]`)
	y.agent()
	run := func() string {
		t.Helper()
		b := y.await(y.build().Number, "passed")
		return y.log(b, 0)
	}
	first := run()
	wantLines(t, first, "required says 1", "whole folder says 1")
	for _, want := range []string{"There is no cache deps-v1 ", "Saving the cache deps-v1 ", "The cache was saved"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	second := run()
	wantLines(t, second, "found one, link lib")
	if !strings.Contains(second, " exists already") {
		t.Errorf("it was saved again\n%s", second)
	}
	if err := os.WriteFile(filepath.Join(repo, "lock"), []byte("2"), 0o666); err != nil {
		t.Fatal(err)
	}
	commitAll(t, repo)
	third := run()
	wantLines(t, third, "found one, link lib")
	if !strings.Contains(third, " instead of deps-v1 ") || !strings.Contains(third, "The cache was saved") {
		t.Errorf("there is no fallback in\n%s", third)
	}
}

func TestAgent_IsCanceledWhileItRuns(t *testing.T) {
	y := newYard(t, placeholder, `
steps:
  - command: "trap 'echo cleaned up; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
`)
	y.agent()
	b := y.build()
	y.await(b.Number, "running")
	y.awaitLog(b, 0, "ready\n")
	y.ask(t, yardUser, "PUT", fmt.Sprintf("%s/builds/%d/cancel", yardPath, b.Number), "").want(t, 200)
	b = y.await(b.Number, "canceled")
	if job := b.Jobs[0]; job.State != "canceled" || *job.ExitStatus != -1 || job.Signal != "SIGTERM" || job.Reason != "cancel" {
		t.Errorf("job %+v", job)
	}
	wantLines(t, y.log(b, 0), "cleaned up", "✗ The job was canceled")
}

func TestAgent_KeepsSecretsOutOfTheLog(t *testing.T) {
	y := newYard(t, placeholder, `
steps:
  - command: |
      value=$(stackyard agent secret get DEPLOY_KEY)
      echo "the value is $value"
      echo -n "$value" | base64
      echo hunter-token | stackyard agent redactor add
      echo "hunter-token too; step secret $OTHER"
    secrets:
      OTHER: OTHER_KEY
`)
	clusters := decode[[]struct{ ID string }](t, y.get(t, yardUser, "/v2/organizations/acme/clusters"))
	for key, value := range map[string]string{"DEPLOY_KEY": "correct horse battery", "OTHER_KEY": "staple of the step"} {
		y.ask(t, yardUser, "POST", "/v2/organizations/acme/clusters/"+clusters[0].ID+"/secrets", fmt.Sprintf(`{"key": %q, "value": %q}`, key, value)).want(t, 201)
	}
	y.agent()
	b := y.await(y.build().Number, "passed")
	wantLines(t, y.log(b, 0), "the value is [REDACTED]", "[REDACTED]", "[REDACTED] too; step secret [REDACTED]")
}

func TestAgent_GivesGitThePasswordOfItsRepository(t *testing.T) {
	y := newYard(t, "https://github.com/acme/hello.git", `
steps:
  - env: {SERVICE_SKIP_CHECKOUT: "true"}
    command: |
      stackyard agent git-credentials-helper https://github.com/acme/hello.git get
      stackyard agent git-credentials-helper https://github.com/acme/hello.git erase
      stackyard agent git-credentials-helper https://github.com/acme/other.git get || echo not for others
`)
	y.agent()
	b := y.await(y.build().Number, "passed")
	wantLines(t, y.log(b, 0), "username=token\npassword=[REDACTED]", "not for others")
}

func TestAgent_RunsTheOneJobItWasStartedFor(t *testing.T) {
	y := newYard(t, placeholder, `
steps:
  - command: exit 5
`)
	b := y.build()
	a := y.agent("--acquire-job", b.Jobs[0].ID)
	a.wait(t)
	if b = y.await(b.Number, "failed"); *b.Jobs[0].ExitStatus != 5 {
		t.Errorf("job %+v", b.Jobs[0])
	}
	again := y.agent("--acquire-job", b.Jobs[0].ID)
	<-again.ended
	if status := again.cmd.ProcessState.ExitCode(); status != 27 {
		t.Errorf("it exited with %d when the job was over, want 27", status)
	}
}

func TestAgent_WithAJobAcquisitionTokenNeedsAJob(t *testing.T) {
	t.Parallel()
	status, _, stderr := stackyard(t, "agent", "--token", "svcjat_x", "--endpoint", "http://127.0.0.1:1/v3")
	if status != cmdline.ExitUsage || !strings.Contains(stderr, "name that job with --acquire-job [SERVICE_AGENT_ACQUIRE_JOB]") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

func TestAgent_DrainsOnTheFirstSignalAndStopsOnTheSecond(t *testing.T) {
	signal := filepath.Join(t.TempDir(), "go")
	y := newYard(t, placeholder, `
steps:
  - command: "echo ready; while [ ! -e `+signal+` ]; do sleep 0.01; done; echo done"
`)
	running := func() (*process, built) {
		b := y.build()
		a := y.agent()
		y.await(b.Number, "running")
		y.awaitLog(b, 0, "ready\n")
		a.terminate(t)
		eventually(t, waitLimit, "it says that it drains", func() bool { return strings.Contains(a.stderrText(t), "finishing running jobs") })
		return a, b
	}
	a, b := running()
	a.terminate(t)
	a.wait(t)
	if b = y.await(b.Number, "failed"); b.Jobs[0].Reason != "agent_stop" || *b.Jobs[0].ExitStatus != -1 {
		t.Errorf("job %+v", b.Jobs[0])
	}

	a, b = running()
	if err := os.WriteFile(signal, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	a.wait(t)
	b = y.await(b.Number, "passed")
	wantLines(t, y.log(b, 0), "done")
}

func TestAgent_IsPausedResumedAndStoppedByPeople(t *testing.T) {
	y := newYard(t, placeholder, `
steps:
  - command: echo hello
`)
	a := y.agent("--name", "robot", "--tags", "os=debian", "--tags", "docker")
	type shown struct {
		ID       string
		Name     string
		MetaData []string `json:"meta_data"`
	}
	var agents []shown
	eventually(t, waitLimit, "the agent is there", func() bool {
		agents = decode[[]shown](t, y.get(t, yardUser, "/v2/organizations/acme/agents"))
		return len(agents) == 1
	})
	if got := agents[0]; got.Name != "robot" || !slices.Contains(got.MetaData, "os=debian") || !slices.Contains(got.MetaData, "docker=true") {
		t.Errorf("agent %+v", got)
	}
	steer := func(how, body string) {
		y.ask(t, yardUser, "PUT", "/v2/organizations/acme/agents/"+agents[0].ID+"/"+how, body).want(t, 204)
	}
	steer("pause", `{"note": "lunch"}`)
	b := y.build()
	eventually(t, waitLimit, "it says that it is paused", func() bool { return strings.Contains(a.stderrText(t), "lunch") })
	if b = y.look(b.Number); b.State != "scheduled" {
		t.Errorf("the build is %s while the agent is paused", b.State)
	}
	steer("resume", "")
	y.await(b.Number, "passed")
	steer("stop", `{"force": false}`)
	a.wait(t)
}

func TestAgent_OutlivesItsServer(t *testing.T) {
	y := newYard(t, placeholder, `
steps:
  - command: "for i in $(seq 1 40); do echo line $i; sleep 0.1; done"
`)
	y.agent()
	b := y.build()
	y.await(b.Number, "running")
	y.awaitLog(b, 0, "line 2\n")
	address := strings.TrimPrefix(y.URL, "http://")
	y.kill()
	y.process = start(t, "serve", "--listen", address, "--data", filepath.Join(y.dir, "data"))
	b = y.await(b.Number, "passed")
	log := y.log(b, 0)
	for i := 1; i <= 40; i++ {
		wantLines(t, log, fmt.Sprintf("line %d", i))
	}
}
