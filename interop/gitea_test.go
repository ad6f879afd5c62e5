package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGitea_BuildsPushes runs a real Gitea: pushes start builds, agents run them, and Gitea shows their states at the
// commits. Pull requests from forks are not built unless allowed, and then get no secrets.
//
// It runs only if STACKYARD_TEST_GITEA is the path of a Gitea binary, or "build" to build one, which takes some minutes
// and needs network access and a C compiler.
func TestGitea_BuildsPushes(t *testing.T) {
	given := os.Getenv("STACKYARD_TEST_GITEA")
	if given == "" {
		t.Skip("STACKYARD_TEST_GITEA is not set")
	}
	g := startGitea(t, given)
	each(t, func(t *testing.T, s *server) { pushAndPull(t, g, s) })
}

func pushAndPull(t *testing.T, g *giteaServer, s *server) {
	repo := strings.ToLower(filepath.Base(t.Name())) // the engine
	w := &giteaWorld{t: t, gitea: g, server: s, repo: repo, folder: t.TempDir()}
	w.startOurAgent()

	w.comment("Ada has a repository with a pipeline, and connects the organization to Gitea.")
	g.call(t, "ada", "POST", "/user/repos", map[string]any{"name": repo, "default_branch": "main"}, nil)
	w.write("token", g.token(t, "ada"))
	w.stackyard("connection", "create", "127.0.0.1", "--provider", "gitea", "--api-url", g.url+"/api/v1", "--token-file", "token")
	w.stackyard("connection", "test", "127.0.0.1")
	w.rest("POST", "/clusters/"+clusterID+"/secrets", map[string]any{"key": "DEPLOY", "value": "hunter2-hunter2"}, nil)
	w.git("", "clone", "-q", g.as("ada")+"/ada/"+repo+".git", "app")
	w.write("app/.stackyard/pipeline.yml", useSecret)
	w.commit("app", "Add a pipeline")
	w.git("app", "push", "-q", "origin", "HEAD:main")
	w.stackyardIn("app", "pipeline", "create")

	w.comment("She pushes. The agent runs the build, and Gitea shows it at the commit.")
	w.write("app/README.md", "Tea\n")
	pushed := w.commit("app", "Describe the project")
	w.git("app", "push", "-q", "origin", "HEAD:main")
	n := w.wantBuild("passed", pushed, "main")
	w.wantStatus(pushed, "success")
	w.wantLog(n, "secret: 15 characters", "hunter2")

	w.comment("A push that fails.")
	w.write("app/.stackyard/pipeline.yml", "steps: [{label: Test, command: exit 3}]\n")
	failed := w.commit("app", "Break it")
	w.git("app", "push", "-q", "origin", "HEAD:main")
	w.wantBuild("failed", failed, "main")
	w.wantStatus(failed, "failure")

	w.comment("Eve forks the repository, prints the secret, and opens a pull request. It is not built.")
	g.call(t, "eve", "POST", "/repos/ada/"+repo+"/forks", map[string]any{}, nil)
	w.git("", "clone", "-q", g.as("eve")+"/eve/"+repo+".git", "fork")
	w.write("fork/.stackyard/pipeline.yml", useSecret)
	w.commit("fork", "Print the secret")
	w.git("fork", "push", "-q", "origin", "HEAD:steal")
	g.call(t, "eve", "POST", "/repos/ada/"+repo+"/pulls", map[string]any{"title": "Improve the build", "head": "eve:steal", "base": "main"}, nil)
	w.wantDelivery("pull_request", "ignored", "fork")

	w.comment("Ada allows builds of forks, and Eve pushes again. The build runs, but gets no secret.")
	w.rest("PATCH", "/pipelines/"+repo, map[string]any{"provider_settings": map[string]any{"build_pull_request_forks": true}}, nil)
	w.write("fork/again", "again\n")
	again := w.commit("fork", "Print it again")
	w.git("fork", "push", "-q", "origin", "HEAD:steal")
	n = w.wantBuild("failed", again, "eve:steal")
	w.wantLog(n, "403", "hunter2")
	w.wantStatus(again, "failure")
	w.wantDelivery("pull_request", "built", "")
	w.stackyard("build", "list", repo)
}

// useSecret reads a secret and prints how long it is, so that the log does not redact it.
const useSecret = `steps:
  - label: Test
    command: |
      value=$$(stackyard agent secret get DEPLOY) || exit 1
      echo "secret: $${#value} characters"
`

// A giteaWorld is a repository at Gitea, its pipeline, and an agent. What it does is printed like a session in a shell.
type giteaWorld struct {
	t            *testing.T
	gitea        *giteaServer
	server       *server
	repo, folder string
}

func (w *giteaWorld) comment(text string) { w.t.Log("# " + text) }

func (w *giteaWorld) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a program in a folder, prints it, and returns its output.
func (w *giteaWorld) run(shown, folder, program string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = filepath.Join(w.folder, folder)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STACKYARD_") || strings.HasPrefix(v, "GIT_") }),
		"STACKYARD_SERVER="+w.server.url, "STACKYARD_TOKEN="+ada, "STACKYARD_ORG=acme", "STACKYARD_CONFIG_DIR="+filepath.Join(w.folder, "config"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if shown != "" {
		w.t.Logf("$ %s %s\n%s", shown, strings.Join(args, " "), strings.TrimSpace(string(out)))
	}
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *giteaWorld) stackyard(args ...string) { w.t.Helper(); w.stackyardIn("", args...) }

func (w *giteaWorld) stackyardIn(folder string, args ...string) {
	w.t.Helper()
	w.run("stackyard", folder, binary, args...)
}

func (w *giteaWorld) git(folder string, args ...string) {
	w.t.Helper()
	w.run("git", folder, "git", args...)
}

// commit commits everything in a checkout and returns the commit.
func (w *giteaWorld) commit(folder, message string) string {
	w.t.Helper()
	w.run("", folder, "git", "add", ".")
	w.run("", folder, "git", "-c", "user.name=Ada", "-c", "user.email=ada@acme.test", "commit", "-q", "-m", message)
	return w.run("", folder, "git", "rev-parse", "HEAD")
}

// startOurAgent starts the product's own agent.
func (w *giteaWorld) startOurAgent() {
	w.t.Helper()
	home := w.t.TempDir()
	cmd := exec.Command(binary, "agent", "--endpoint", w.server.url+"/v3", "--build-path", filepath.Join(home, "builds"), "--name", "ours")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STACKYARD_") }),
		"SERVICE_AGENT_TOKEN=svcct_acme", "HOME="+home, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "GIT_TERMINAL_PROMPT=0")
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("the agent printed:\n%s", log)
		}
	})
}

// rest calls our API below the organization.
func (w *giteaWorld) rest(method, path string, body, into any) {
	w.t.Helper()
	callJSON(w.t, method, w.server.url+"/v2/organizations/acme"+path, "Bearer "+ada, body, into)
}

// wantBuild waits until the only build of a commit has ended, and returns its number.
func (w *giteaWorld) wantBuild(state, commit, branch string) int {
	w.t.Helper()
	var found []struct {
		Number                         int
		State, Branch, Message, Source string
		FinishedAt                     *time.Time `json:"finished_at"`
	}
	until(w.t, "the build of "+commit, func() bool {
		w.rest("GET", "/pipelines/"+w.repo+"/builds?commit="+commit, nil, &found)
		return len(found) > 0 && found[0].FinishedAt != nil
	})
	b := found[0]
	w.t.Logf("build #%d of %s, branch %s, %q: %s, started by a %s", b.Number, commit[:8], b.Branch, b.Message, b.State, b.Source)
	if len(found) != 1 || b.State != state || b.Branch != branch || b.Source != "webhook" || b.Message != strings.TrimSpace(b.Message) {
		w.t.Errorf("the builds are %+v, want one that %s on %s", found, state, branch)
	}
	return b.Number
}

// wantStatus waits until Gitea shows a state at a commit.
func (w *giteaWorld) wantStatus(commit, state string) {
	w.t.Helper()
	var at struct {
		State    string
		Statuses []struct {
			Context, Status, Description string
			TargetURL                    string `json:"target_url"`
		}
	}
	until(w.t, "the status "+state, func() bool {
		w.gitea.call(w.t, "ada", "GET", "/repos/ada/"+w.repo+"/commits/"+commit+"/status", nil, &at)
		return at.State == state
	})
	for _, s := range at.Statuses {
		w.t.Logf("Gitea shows at %s: %s %s: %s, %s", commit[:8], s.Context, s.Status, s.Description, s.TargetURL)
	}
	if len(at.Statuses) != 1 || at.Statuses[0].Context != "stackyard/"+w.repo || !strings.HasPrefix(at.Statuses[0].TargetURL, w.server.url+"/acme/"+w.repo+"/builds/") {
		w.t.Errorf("the statuses are %+v", at.Statuses)
	}
}

// wantLog checks what the logs of a build contain.
func (w *giteaWorld) wantLog(number int, contains, lacks string) {
	w.t.Helper()
	var b struct{ Jobs []struct{ ID, Name string } }
	w.rest("GET", fmt.Sprintf("/pipelines/%s/builds/%d", w.repo, number), nil, &b)
	var all strings.Builder
	for _, j := range b.Jobs {
		var log struct{ Content string }
		w.rest("GET", fmt.Sprintf("/pipelines/%s/builds/%d/jobs/%s/log", w.repo, number, j.ID), nil, &log)
		all.WriteString(log.Content)
	}
	if !strings.Contains(all.String(), contains) || strings.Contains(all.String(), lacks) {
		w.t.Errorf("the log of build %d has not %q, or %q:\n%s", number, contains, lacks, all.String())
	}
	for line := range strings.Lines(all.String()) {
		if strings.Contains(line, contains) {
			w.t.Logf("log of build #%d: %s", number, strings.TrimSpace(line))
		}
	}
}

// wantDelivery waits for the newest delivery of an event with an outcome.
func (w *giteaWorld) wantDelivery(event, state, reason string) {
	w.t.Helper()
	var list struct {
		Items []struct{ Event, State, Reason string }
	}
	until(w.t, "the delivery "+event, func() bool {
		w.rest("GET", "/pipelines/"+w.repo+"/webhook-deliveries", nil, &list)
		return slices.ContainsFunc(list.Items, func(d struct{ Event, State, Reason string }) bool {
			return strings.HasPrefix(d.Event, event) && d.State == state && strings.Contains(d.Reason, reason)
		})
	})
	for _, d := range list.Items {
		w.t.Logf("webhook %s: %s", d.Event, strings.TrimSpace(d.State+" "+d.Reason))
	}
}
