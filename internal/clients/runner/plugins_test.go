package runner_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/plugin"
)

// plugins returns the variable with the plugins of a step.
func plugins(t *testing.T, list ...any) string {
	t.Helper()
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPlugins_RunTheirHooksAfterThoseOfTheRepository(t *testing.T) {
	t.Parallel()
	fetched, commit := gitRepository(t, map[string]string{
		"hooks/environment":  "export FROM_PLUGIN=yes\n" + printHook("environment of $BUILDKITE_PLUGIN_NAME"),
		"hooks/pre-command":  printHook("pre-command with $SERVICE_PLUGIN_" + "FETCHED_LIST_1 in $BUILDKITE_PLUGIN_CONFIGURATION"),
		"hooks/post-command": printHook("post-command"),
		"hooks/pre-exit":     printHook("pre-exit"),
	})
	named := filepath.Join(filepath.Dir(fetched), "fetched-buildkite-plugin")
	if err := os.Rename(fetched, named); err != nil {
		t.Fatal(err)
	}
	repo, _ := gitRepository(t, map[string]string{
		".stackyard/hooks/pre-command":         printHook("pre-command of the repository"),
		".stackyard/plugins/own/hooks/command": printHook("command of the vendored plugin for $BUILDKITE_COMMAND: ${FROM_PLUGIN} ${BUILDKITE_PLUGIN_FETCHED_LIST_1-none}"),
	})
	for _, version := range []string{"", "#main", "#" + commit} {
		s := newFakeServer(t, map[string]string{"SERVICE_REPO": repo, "SERVICE_COMMAND": "make", "SERVICE_PLUGINS": plugins(t,
			map[string]any{"file://" + named + version: map[string]any{"list": []string{"a", "b"}}}, "./.stackyard/plugins/own")})
		wantResult(t, s.runJob(), "0", "", "")
		want := `environment of FETCHED, pre-command of the repository, pre-command with b in {"list":["a","b"]}, command of the vendored plugin for make: yes none, post-command, pre-exit`
		if got := printed(s.log()); got != want {
			t.Errorf("%s: it printed %s; want %s; log %s", version, got, want, s.log())
		}
	}
}

func TestPlugins_ReplaceTheCheckout(t *testing.T) {
	t.Parallel()
	dir, _ := gitRepository(t, map[string]string{"hooks/checkout": "echo content > made.txt\n" + printHook("checkout")})
	s := newFakeServer(t, map[string]string{"SERVICE_REPO": dir, "SERVICE_COMMAND": "echo printed $(cat made.txt)", "SERVICE_PLUGINS": plugins(t, dir)})
	wantResult(t, s.runJob(), "0", "", "")
	if got := printed(s.log()); got != "checkout, content" {
		t.Errorf("it printed %s; log %s", got, s.log())
	}
}

// A kept checkout is used without the network, also when the source is gone.
func TestPlugins_AreKeptInAFolder(t *testing.T) {
	t.Parallel()
	dir, _ := gitRepository(t, map[string]string{"hooks/pre-command": printHook("plugin")})
	if out, err := exec.Command("git", "-C", dir, "tag", "v1").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	keep := t.TempDir()
	for range 2 {
		s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true", "SERVICE_PLUGINS": plugins(t, "file://"+dir+"#v1")})
		wantResult(t, s.runJob(func(o *runner.Options) { o.PluginsPath = keep }), "0", "", "")
		if got := printed(s.log()); got != "plugin" {
			t.Errorf("it printed %s; log %s", got, s.log())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlugins_ThatCannotBeUsedFailTheJob(t *testing.T) {
	t.Parallel()
	repo, _ := gitRepository(t, map[string]string{"file": ""})
	for text, want := range map[string]string{
		plugins(t, "ext::sh -c true#v1"):              "transport helper",
		plugins(t, "file:///no/such/repository#v1"):   "get the plugin file:///no/such/repository#v1",
		plugins(t, "./missing"):                       "the plugin ./missing is not a folder of the repository",
		plugins(t, "../outside"):                      "the plugin ../outside is outside of the repository",
		`[{"a": 1, "b": 2}]`:                          "a plugin is its source",
		`nonsense`:                                    "read plugins",
		plugins(t, "file://"+repo+"#--upload-pack=x"): "is not the source of a plugin",
	} {
		s := newFakeServer(t, map[string]string{"SERVICE_REPO": repo, "SERVICE_COMMAND": "echo not reached", "SERVICE_PLUGINS": text})
		s.runJob()
		if log := s.log(); !strings.Contains(log, want) || strings.Contains(log, "$ echo not reached") {
			t.Errorf("%s: log %s, want %q", text, log, want)
		}
	}
}

func TestPlugins_ArePinnedByALockFile(t *testing.T) {
	t.Parallel()
	dir, _ := gitRepository(t, map[string]string{"hooks/pre-command": printHook("plugin")})
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@acme.test"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	git("tag", "v1")
	source := "file://" + dir + "#v1"
	parsed, err := plugin.Parse(plugins(t, source))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := plugin.Sum(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := plugin.ParseLock(parsed[0].Line(sum))
	if err != nil {
		t.Fatal(err)
	}
	try := func(source string, with ...func(*runner.Options)) (api.Result, string) {
		s := newFakeServer(t, map[string]string{"SERVICE_COMMAND": "true", "SERVICE_PLUGINS": plugins(t, source)})
		result := s.runJob(append(with, func(o *runner.Options) { o.PluginsLock = lock })...)
		return result, s.log()
	}
	if result, log := try(source); result.ExitStatus != "0" || printed(log) != "plugin" {
		t.Errorf("%+v, log %s", result, log)
	}
	if result, log := try("file://" + dir + "#main"); result.SignalReason != "agent_refused" || !strings.Contains(log, "the agent's lock file has no file://") || printed(log) != "" {
		t.Errorf("%+v, log %s", result, log)
	}
	if result, log := try(source, func(o *runner.Options) { o.PluginsOffline = true }); result.ExitStatus != "1" || !strings.Contains(log, "the agent fetches no plugins") {
		t.Errorf("%+v, log %s", result, log)
	}
	// Whoever owns the repository moves the tag.
	if err := os.WriteFile(filepath.Join(dir, "hooks/pre-command"), []byte(printHook("evil")), 0o755); err != nil {
		t.Fatal(err)
	}
	git("commit", "--quiet", "-am", "evil")
	git("tag", "--force", "v1")
	if result, log := try(source); result.SignalReason != "agent_refused" || !strings.Contains(log, "its version was moved") || printed(log) != "" {
		t.Errorf("%+v, log %s", result, log)
	}
}
