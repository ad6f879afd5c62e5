package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

// parity are the pipelines that both agents run. AGENT is the kind of agent, PLUGIN the path of a plugin. Lines of
// logs that begin with "result:" are compared, too.
var parity = []struct{ name, state, steps string }{
	{"checkout", "passed", `
  - command: "echo result: $$(cat data/hello.txt) $$(git rev-parse HEAD) $$BUILDKITE_BRANCH"`},
	{"exit status", "failed", `
  - command: exit 7`},
	{"soft fail", "passed", `
  - {command: exit 3, soft_fail: [{exit_status: 3}]}`},
	{"killed by a signal", "failed", `
  - command: kill -9 $$$$`},
	{"variables", "passed", `
  - {command: 'echo "result: $$ONE $$TWO $$BUILDKITE_LABEL $$CI"', label: Vars, env: {TWO: "two words"}}`},
	{"several commands", "failed", `
  - commands: ["echo result: first", "false", "echo result: not reached"]`},
	{"script of the repository", "passed", `
  - command: scripts/hello.sh`},
	{"artifacts of a failed job", "failed", `
  - {command: "mkdir -p out/deep; echo one >out/one.txt; echo two >out/deep/two.txt; exit 1", artifact_paths: "out/**/*.txt"}`},
	{"artifacts between jobs", "passed", `
  - {command: "echo built >app.bin; buildkite-agent artifact upload app.bin", key: make}
  - wait
  - command: "buildkite-agent artifact download app.bin . --step make; echo result: $$(cat app.bin)"`},
	{"meta-data", "passed", `
  - command: "buildkite-agent meta-data set color red; buildkite-agent meta-data exists color; echo result: $$(buildkite-agent meta-data get color) $$(buildkite-agent meta-data get none --default blue)"`},
	{"annotations", "passed", `
  - command: "buildkite-agent annotate 'found **it**' --style warning --context a; buildkite-agent annotate ' and more' --append --context a"`},
	{"dynamic upload", "passed", `
  - command: "buildkite-agent pipeline upload more.yml"
    env: {TARGET: "prod"}`},
	{"invalid upload", "failed", `
  - command: "echo 'steps: [{command: [}]' | buildkite-agent pipeline upload"`},
	{"matrix", "passed", `
  - {command: "echo result: {{matrix.os}} {{matrix.go}}", label: "{{matrix.os}}-{{matrix.go}}", matrix: {setup: {os: [linux, mac], go: ["1"]}}}`},
	{"parallelism", "passed", `
  - {command: "echo result: $$BUILDKITE_PARALLEL_JOB of $$BUILDKITE_PARALLEL_JOB_COUNT", parallelism: 2}`},
	{"plugin", "passed", `
  - {command: "echo result: $$FROM_PLUGIN", plugins: [{"file://PLUGIN#main": {greeting: "good day", list: [a, b]}}]}`},
	{"plugin with a failing hook", "failed", `
  - {command: "echo result: not reached", plugins: [{"file://PLUGIN#main": {run: "yes"}}]}`},
	{"plugin that does not exist", "failed", `
  - {command: "echo result: not reached", plugins: ["file:///nonexistent/thing#main"]}`},
	{"failing command with hooks", "failed", `
  - {command: "exit 4", env: {TELL: "yes"}}`},
	{"retries", "passed", `
  - {command: "echo result: try $$BUILDKITE_RETRY_COUNT; test $$BUILDKITE_RETRY_COUNT = 1", retry: {automatic: [{exit_status: 1, limit: 1}]}}`},
	{"redaction", "passed", `
  - {command: "echo result: $$DEPLOY_TOKEN", env: {DEPLOY_TOKEN: "hunter2-and-more"}}`},
	{"steps", "passed", `
  - {command: "buildkite-agent step update label Changed; echo result: $$(buildkite-agent step get label)", label: Plain, key: me}`},
	{"dependencies", "failed", `
  - {command: "false", key: first}
  - {command: "echo result: not reached", depends_on: first}
  - {command: "echo result: allowed", depends_on: [{step: first, allow_failure: true}]}`},
}

// parityFiles are the files of the repository.
var parityFiles = map[string]string{
	"data/hello.txt":                "hello",
	"scripts/hello.sh":              "#!/bin/sh\necho result: script $0 in $(basename \"$0\")\n",
	"more.yml":                      "steps:\n  - {label: \"Deploy $TARGET\", command: \"echo result: $TARGET $$TARGET\", agents: {kind: AGENT}}\n",
	".buildkite/hooks/pre-command":  "export FROM_HOOK=repository\n",
	".buildkite/hooks/post-command": "[ -z \"$TELL\" ] || echo \"result: hook $FROM_HOOK $FROM_AGENT $BUILDKITE_COMMAND_EXIT_STATUS\"\n",
}

// A parityResult is what must be the same with both agents.
type parityResult struct {
	State       string
	Jobs        []string
	MetaData    map[string]string
	Annotations []string
	Artifacts   []string
	Lines       []string
}

var timestamps = regexp.MustCompile("\x1b_bk;t=[0-9]+\a")

func (s *server) parityOf(t *testing.T, client *buildkite.Client, slug string) (r parityResult) {
	t.Helper()
	b := finished(t, client, slug, 1)
	r.State, r.MetaData = b.State, map[string]string{}
	for key, value := range b.MetaData {
		if !strings.HasPrefix(key, "buildkite:git") {
			r.MetaData[key] = value
		}
	}
	for _, j := range b.Jobs {
		if j.Type != "script" {
			continue
		}
		status := "none"
		if j.ExitStatus != nil {
			status = fmt.Sprint(*j.ExitStatus)
		}
		r.Jobs = append(r.Jobs, strings.Join([]string{j.Name, j.State, status, fmt.Sprint(j.SoftFailed, j.Retried)}, " "))
		if j.StartedAt == nil {
			continue
		}
		for line := range strings.Lines(timestamps.ReplaceAllString(logOf(t, s, j.ID), "")) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "result:") {
				r.Lines = append(r.Lines, line)
			}
		}
	}
	for _, a := range call(client.Annotations.ListByBuild(t.Context(), "acme", slug, "1", nil)).ok(t) {
		r.Annotations = append(r.Annotations, a.Style+" "+a.BodyHTML)
	}
	for _, a := range call(client.Artifacts.ListByBuild(t.Context(), "acme", slug, "1", nil)).ok(t) {
		r.Artifacts = append(r.Artifacts, fmt.Sprint(a.Path, " ", a.FileSize, " ", a.SHA1, " ", a.State))
	}
	for _, list := range [][]string{r.Jobs, r.Lines, r.Annotations, r.Artifacts} {
		slices.Sort(list)
	}
	return r
}

// TestAgents_RunTheSamePipelinesWithTheSameResults runs each pipeline with our agent and with the published one.
func TestAgents_RunTheSamePipelinesWithTheSameResults(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, ada)
		plugin, _ := repository(t, map[string]string{
			"hooks/environment": "export FROM_PLUGIN=\"$BUILDKITE_PLUGIN_GREETER_GREETING $BUILDKITE_PLUGIN_GREETER_LIST_1 $BUILDKITE_PLUGIN_NAME\"\n" +
				"if [ -n \"$BUILDKITE_PLUGIN_GREETER_RUN\" ]; then export RUN_INSTEAD=yes; fi\n",
			"hooks/pre-command": "if [ -n \"$RUN_INSTEAD\" ]; then echo result: instead; exit 5; fi\n",
		})
		named := filepath.Join(t.TempDir(), "greeter-buildkite-plugin")
		if err := os.Rename(plugin, named); err != nil {
			t.Fatal(err)
		}
		hooks := t.TempDir()
		if err := os.WriteFile(filepath.Join(hooks, "environment"), []byte("export FROM_AGENT=agent\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		kinds := []string{"ours", "published"}
		slugs := map[string]string{} // by name and kind
		for _, kind := range kinds {
			files := map[string]string{}
			for name, text := range parityFiles {
				files[name] = strings.ReplaceAll(text, "AGENT}", kind+"}")
			}
			repo, _ := repository(t, files)
			slugs["cancel"+kind] = pipelineOf(t, client, "cancel "+kind, repo, "agents: {kind: "+kind+"}\nsteps:\n  - {command: \"echo begun; exec sleep 600\"}\n")
			for _, p := range parity {
				steps := "agents: {kind: " + kind + "}\nenv: {ONE: uno}\nsteps:" + strings.ReplaceAll(p.steps, "PLUGIN", named) + "\n"
				slugs[p.name+kind] = pipelineOf(t, client, p.name+" "+kind, repo, steps)
			}
		}
		startOurs(t, s, "--tags", "kind=ours", "--spawn", "2", "--hooks-path", hooks)
		startAgent(t, s, "--tags", "kind=published", "--spawn", "2", "--hooks-path", hooks)
		for _, kind := range kinds {
			slug := slugs["cancel"+kind]
			job := getBuild(t, client, slug, 1).Jobs[0].ID
			until(t, "the job to run", func() bool {
				return getBuild(t, client, slug, 1).Jobs[0].State == "running" && strings.Contains(logOf(t, s, job), "begun")
			})
			get(client.Builds.Cancel(t.Context(), "acme", slug, "1")).ok(t)
		}
		compare := func(name, state string) {
			ours, published := s.parityOf(t, client, slugs[name+"ours"]), s.parityOf(t, client, slugs[name+"published"])
			for _, r := range []*parityResult{&ours, &published} { // each has a repository of its own
				for i, job := range r.Jobs { // the published agent reports -1 or 255 for a canceled job
					r.Jobs[i] = strings.Replace(job, "canceled 255", "canceled -1", 1)
				}
				for i, line := range r.Lines {
					r.Lines[i] = regexp.MustCompile("[0-9a-f]{40}").ReplaceAllString(line, "COMMIT")
				}
			}
			if !reflect.DeepEqual(ours, published) || ours.State != state {
				t.Errorf("%s: want %s\nours      %+v\npublished %+v", name, state, ours, published)
			}
		}
		for _, p := range parity {
			compare(p.name, p.state)
		}
		compare("cancel", "canceled")
	})
}
