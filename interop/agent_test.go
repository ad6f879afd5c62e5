package interop

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/buildkite/go-buildkite/v4"
)

// publishedAgent is the newest published agent whose dependencies all resolve.
const publishedAgent = "github.com/buildkite/agent/v3@v3.75.1"

// agentBinary builds the published agent and returns the path of its binary.
var agentBinary = sync.OnceValues(func() (string, error) {
	install := exec.Command("go", "install", publishedAgent)
	install.Dir = os.TempDir() // outside this module, so that the agent's own requirements apply
	install.Env = append(os.Environ(), "GOBIN="+filepath.Dir(binary), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install the published agent: %w\n%s", err, output)
	}
	// Jobs call it by this name.
	path := filepath.Join(filepath.Dir(binary), "buildkite-agent")
	return path, os.Rename(filepath.Join(filepath.Dir(binary), "agent"), path)
})

// An agent is a running published agent.
type agent struct {
	cmd   *exec.Cmd
	ended chan struct{}
	quit  syscall.Signal // stops it
}

// startAgent starts the published agent and stops it at the end of the test.
func startAgent(t *testing.T, s *server, args ...string) *agent {
	t.Helper()
	program, err := agentBinary()
	if err != nil {
		t.Fatal(err)
	}
	// The agent creates sockets below its home, and their paths must be short.
	home, err := os.MkdirTemp("", "agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	cmd := exec.Command(program, append([]string{"start",
		"--endpoint", s.url + "/v3", "--token", "svcct_acme", "--name", "published-%spawn", "--no-color",
		"--build-path", filepath.Join(home, "builds"), "--hooks-path", filepath.Join(home, "hooks"), "--plugins-path", filepath.Join(home, "plugins"),
	}, args...)...)
	return runAgent(t, cmd, home, syscall.SIGQUIT) // stops at once, even while it runs a job
}

// startOurs starts our own agent like startAgent.
func startOurs(t *testing.T, s *server, args ...string) *agent {
	t.Helper()
	home, err := os.MkdirTemp("", "ours-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	cmd := exec.Command(binary, append([]string{"agent", "--endpoint", s.url + "/v3", "--token", "svcct_acme", "--name", "ours-%spawn",
		"--build-path", filepath.Join(home, "builds")}, args...)...)
	return runAgent(t, cmd, home, syscall.SIGTERM)
}

// runAgent runs an agent with a home of its own, and stops it at the end of the test.
func runAgent(t *testing.T, cmd *exec.Cmd, home string, quit syscall.Signal) *agent {
	t.Helper()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BUILDKITE") || strings.HasPrefix(v, "SERVICE_") || strings.HasPrefix(v, "CI=")
	}), "HOME="+home)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a := &agent{cmd: cmd, ended: make(chan struct{}), quit: quit}
	go func() {
		cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(a.stop)
	return a
}

// stop stops the agent.
func (a *agent) stop() {
	a.cmd.Process.Signal(a.quit)
	select {
	case <-a.ended:
	case <-time.After(20 * time.Second):
		a.cmd.Process.Kill()
		<-a.ended
	}
}

// exit waits for the agent to exit by itself and returns its exit status.
func (a *agent) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-a.ended:
	case <-time.After(waitLimit):
		t.Fatal("the agent does not end")
	}
	return a.cmd.ProcessState.ExitCode()
}

// waitLimit is how long a test waits for something that must happen soon.
const waitLimit = time.Minute

// until waits for a condition.
func until(t *testing.T, what string, there func() bool) {
	t.Helper()
	for begun := time.Now(); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > waitLimit {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// finished waits for a build to end and returns it.
func finished(t *testing.T, client *buildkite.Client, pipeline string, number int) (b buildkite.Build) {
	t.Helper()
	until(t, "the build to end", func() bool {
		b = getBuild(t, client, pipeline, number)
		return b.FinishedAt != nil
	})
	return b
}

func getBuild(t *testing.T, client *buildkite.Client, pipeline string, number int) buildkite.Build {
	t.Helper()
	return call(client.Builds.Get(t.Context(), "acme", pipeline, fmt.Sprint(number), nil)).ok(t)
}

// repository creates a git repository with one commit of the files on the branch main, and returns its path and
// the commit.
func repository(t *testing.T, files map[string]string) (path, commit string) {
	t.Helper()
	path = t.TempDir()
	for name, text := range files {
		file := filepath.Join(path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", path, "-c", "user.name=Grace", "-c", "user.email=grace@acme.test"}, args...)...)
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, output)
		}
		return strings.TrimSpace(string(output))
	}
	git("init", "--quiet", "--initial-branch", "main")
	git("add", ".")
	git("commit", "--quiet", "--message", "Say hello\n\nAs loud as can be.")
	return path, git("rev-parse", "HEAD")
}

// pipelineOf creates a pipeline for a repository and a first build of its branch main.
func pipelineOf(t *testing.T, client *buildkite.Client, name, repository, configuration string) (slug string) {
	t.Helper()
	p := call(client.Pipelines.Create(t.Context(), "acme", buildkite.CreatePipeline{
		Name: name, Repository: repository, ClusterID: clusterID, Configuration: configuration,
	})).created(t)
	call(client.Builds.Create(t.Context(), "acme", p.Slug, buildkite.CreateBuild{Commit: "HEAD", Branch: "main"})).created(t)
	return p.Slug
}

// logOf returns the raw log of a job.
func logOf(t *testing.T, s *server, jobID string) string {
	t.Helper()
	status, body := s.fetch(t, "/v2/organizations/acme/jobs/"+jobID+"/log.txt")
	if status != http.StatusOK {
		t.Fatalf("the log: %d %s", status, body)
	}
	return body
}

// fetch gets a path or a URL as Ada.
func (s *server) fetch(t *testing.T, path string) (status int, body string) {
	t.Helper()
	if strings.HasPrefix(path, "/") {
		path = s.url + path
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+ada)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// The script uses everything that the agent offers to a job.
const everything = `#!/bin/bash
set -euo pipefail
printf '\033[31mred as can be\033[0m\n'
test "$BUILDKITE_BRANCH" = main
test "$SERVICE_BRANCH" = main
buildkite-agent meta-data set colour red
test "$(buildkite-agent meta-data get colour)" = red
test "$(buildkite-agent meta-data get none --default blue)" = blue
buildkite-agent meta-data exists colour
! buildkite-agent meta-data exists none
buildkite-agent meta-data keys | grep -qx colour
echo 'a report' > report.txt
head -c 300000 /dev/urandom > noise.bin
buildkite-agent artifact upload 'report.txt;noise.bin'
sum="$(sha256sum < noise.bin)"
rm noise.bin report.txt
buildkite-agent artifact download 'noise.bin' .
test "$(sha256sum < noise.bin)" = "$sum"
buildkite-agent artifact search report.txt | grep -q report.txt
buildkite-agent artifact shasum report.txt
buildkite-agent annotate '# Found **three** things' --style warning --context found
buildkite-agent annotate ' and a fourth' --append --context found
test "$(buildkite-agent step get label)" = Everything
buildkite-agent pipeline upload <<'END'
steps:
  - label: Uploaded
    command: buildkite-agent meta-data get colour
END
`

func TestPublishedAgent_RunsABuildWithAllThatJobsUse(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		repo, commit := repository(t, map[string]string{"everything.sh": everything})
		slug := pipelineOf(t, client, "Everything", repo, "steps:\n  - label: Everything\n    command: ./everything.sh\n")
		startAgent(t, s)
		b := finished(t, client, slug, 1)
		if b.State != "passed" {
			for _, j := range b.Jobs {
				t.Logf("%s is %s:\n%s", j.Name, j.State, logOf(t, s, j.ID))
			}
			t.Fatalf("the build is %s", b.State)
		}
		if b.Commit != commit || b.MetaData["colour"] != "red" || !strings.HasPrefix(b.Message, "Say hello") {
			t.Errorf("the build has commit %s, message %q, meta-data %v", b.Commit, b.Message, b.MetaData)
		}
		if len(b.Jobs) != 2 || b.Jobs[1].Name != "Uploaded" || b.Jobs[1].State != "passed" {
			t.Fatalf("the jobs are %+v", b.Jobs)
		}
		if log := logOf(t, s, b.Jobs[0].ID); !strings.Contains(log, "\x1b[31mred as can be\x1b[0m") {
			t.Errorf("the log has no colours:\n%s", log)
		}
		if log := logOf(t, s, b.Jobs[1].ID); !strings.Contains(log, "red") {
			t.Errorf("the uploaded step's log:\n%s", log)
		}
		if a := b.Jobs[0].Agent; a.Name != "published-1" || a.ID == "" {
			t.Errorf("the job's agent is %+v", a)
		}
		annotations := call(client.Annotations.ListByBuild(t.Context(), "acme", slug, "1", nil)).ok(t)
		if len(annotations) != 1 || annotations[0].Style != "warning" || !strings.Contains(annotations[0].BodyHTML, "<strong>three</strong>") || !strings.Contains(annotations[0].BodyHTML, "and a fourth") {
			t.Errorf("the annotations are %+v", annotations)
		}
		artifacts := call(client.Artifacts.ListByBuild(t.Context(), "acme", slug, "1", nil)).ok(t)
		slices.SortFunc(artifacts, func(a, b buildkite.Artifact) int { return cmp.Compare(a.Path, b.Path) })
		if len(artifacts) != 2 || artifacts[1].Path != "report.txt" || artifacts[1].State != "finished" || artifacts[0].FileSize != 300000 {
			t.Fatalf("the artifacts are %+v", artifacts)
		}
		if status, body := s.fetch(t, artifacts[1].DownloadURL); status != http.StatusOK || body != "a report\n" {
			t.Errorf("downloaded: %d %q", status, body)
		}
	})
}

func TestPublishedAgent_ReportsTheExitStatus(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		repo, _ := repository(t, map[string]string{"seven.sh": "#!/bin/sh\nexit 7\n"})
		slug := pipelineOf(t, client, "Seven", repo, "steps:\n  - command: ./seven.sh\n")
		startAgent(t, s)
		b := finished(t, client, slug, 1)
		if j := b.Jobs[0]; b.State != "failed" || j.State != "failed" || j.ExitStatus == nil || *j.ExitStatus != 7 {
			t.Errorf("the build is %s, the job %+v", b.State, j)
		}
	})
}

func TestPublishedAgent_StopsACanceledJob(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		repo, _ := repository(t, map[string]string{"long.sh": "#!/bin/sh\necho begun\nexec sleep 600\n"})
		slug := pipelineOf(t, client, "Long", repo, "steps:\n  - command: ./long.sh\n")
		job := getBuild(t, client, slug, 1).Jobs[0].ID
		startAgent(t, s)
		until(t, "the job to run", func() bool {
			return getBuild(t, client, slug, 1).Jobs[0].State == "running" && strings.Contains(logOf(t, s, job), "begun")
		})
		get(client.Builds.Cancel(t.Context(), "acme", slug, "1")).ok(t)
		b := finished(t, client, slug, 1)
		if j := b.Jobs[0]; b.State != "canceled" || j.State != "canceled" {
			t.Errorf("the build is %s, the job is %s", b.State, j.State)
		}
	})
}

func TestPublishedAgent_AcquiresOneJob(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		repo, _ := repository(t, map[string]string{"hello.sh": "#!/bin/sh\necho hello\n"})
		slug := pipelineOf(t, client, "Acquired", repo, "steps:\n  - command: ./hello.sh\n")
		job := getBuild(t, client, slug, 1).Jobs[0].ID
		if status := startAgent(t, s, "--acquire-job", job).exit(t); status != 0 {
			t.Errorf("the agent ended with status %d", status)
		}
		if b := getBuild(t, client, slug, 1); b.State != "passed" {
			t.Errorf("the build is %s", b.State)
		}
		const refused = 27
		if status := startAgent(t, s, "--acquire-job", job).exit(t); status != refused {
			t.Errorf("the second agent ended with status %d, want %d", status, refused)
		}
	})
}
