package plugin

import (
	"maps"
	"strings"
	"testing"
)

func TestParse_ReadsSourcesAndConfigurations(t *testing.T) {
	plugins, err := Parse(`["./vendored", {"github.com/buildkite-plugins/docker-compose-buildkite-plugin#v5.4.1": {
		"run": "app", "push": ["a:b", {"service": "x"}], "env-file": {"nested key": 1.50}, "pull": true, "none": null}}, {"acme/thing#v1": null}]`)
	if err != nil {
		t.Fatal(err)
	}
	if !plugins[0].Vendored() || plugins[0].Name() != "vendored" {
		t.Errorf("%+v", plugins[0])
	}
	docker := plugins[1]
	if docker.Name() != "docker-compose" || docker.Version != "v5.4.1" || docker.Repository() != "https://github.com/buildkite-plugins/docker-compose-buildkite-plugin" {
		t.Errorf("%+v %s %s", docker, docker.Name(), docker.Repository())
	}
	got, err := docker.Variables()
	if err != nil {
		t.Fatal(err)
	}
	configuration := got["PLUGIN_CONFIGURATION"]
	delete(got, "PLUGIN_CONFIGURATION")
	want := map[string]string{
		"PLUGIN_NAME": "DOCKER_COMPOSE", "PLUGIN_DOCKER_COMPOSE_RUN": "app", "PLUGIN_DOCKER_COMPOSE_PUSH_0": "a:b", "PLUGIN_DOCKER_COMPOSE_PUSH_1_SERVICE": "x",
		"PLUGIN_DOCKER_COMPOSE_ENV_FILE_NESTED_KEY": "1.50", "PLUGIN_DOCKER_COMPOSE_PULL": "true", "PLUGIN_DOCKER_COMPOSE_NONE": "",
	}
	if !maps.Equal(got, want) || !strings.Contains(configuration, `"run":"app"`) {
		t.Errorf("%v %s", got, configuration)
	}
	if plugins[2].Repository() != "https://github.com/acme/thing-buildkite-plugin" || plugins[2].Dir() == docker.Dir() {
		t.Errorf("%+v", plugins[2])
	}
}

func TestRepository_IsWhatGitClones(t *testing.T) {
	for source, want := range map[string]string{
		"docker": "https://github.com/buildkite-plugins/docker-buildkite-plugin", "git.acme.test/a/b": "https://git.acme.test/a/b",
		"ssh://git@acme.test/a/b.git": "ssh://git@acme.test/a/b.git", "git@acme.test:a/b.git": "git@acme.test:a/b.git", "/srv/plugins/x": "/srv/plugins/x", "file:///srv/x": "file:///srv/x",
	} {
		if got := (Plugin{Source: source}).Repository(); got != want {
			t.Errorf("%s is at %s, want %s", source, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`[]`, `["a#b"]`, `[{"a": {"b": [1, {"c": null}]}}]`, `[{}]`, `[1]`, `{`, `["#"]`, `["a#-x"]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plugins, err := Parse(text)
		if err != nil {
			return
		}
		for _, p := range plugins {
			if strings.ContainsAny(p.Dir(), "/\\") || p.Dir() == "" {
				t.Errorf("%q has the folder %q", p, p.Dir())
			}
			p.Variables()
		}
	})
}
