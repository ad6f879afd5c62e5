package definition

import "testing"

func TestPlugin_FullSource(t *testing.T) {
	for source, want := range map[string]string{
		"docker#v5.12.0":       "github.com/buildkite-plugins/docker-buildkite-plugin#v5.12.0",
		"docker":               "github.com/buildkite-plugins/docker-buildkite-plugin",
		"acme/thing#v1":        "github.com/acme/thing-buildkite-plugin#v1",
		"acme/thing":           "github.com/acme/thing-buildkite-plugin",
		"acme/thing#feature/x": "github.com/acme/thing-buildkite-plugin#feature/x",

		"github.com/buildkite-plugins/docker-buildkite-plugin#v5": "",
		"https://github.com/acme/thing-buildkite-plugin.git#v1":   "",
		"ssh://git@github.com/acme/thing-buildkite-plugin#v1":     "",
		"git@github.com:acme/thing-buildkite-plugin#v1":           "",
		"file:///srv/plugins/thing#v1":                            "",
		"./.buildkite/plugins/thing":                              "",
		"../thing":                                                "",
		"/srv/plugins/thing":                                      "",
		`C:\plugins\thing`:                                        "",
		"":                                                        "",
	} {
		if want == "" { // unchanged
			want = source
		}
		got := Plugin{Source: source}.FullSource()
		if got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
		if again := (Plugin{Source: got}).FullSource(); again != got {
			t.Errorf("%q is expanded again to %q", got, again)
		}
	}
}
