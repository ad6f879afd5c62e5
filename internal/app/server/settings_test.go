package server

import (
	"strings"
	"testing"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

func TestParseSettings_ContentURLIsAnOriginOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		public, content string
		want            core.PublicURL
		wrong           string
	}{
		{"https://ci.example.com", "https://content.example.com/", "https://content.example.com", ""},
		{"https://ci.example.com/ci", "http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{"https://ci.example.com", "", "", ""},
		{"https://ci.example.com", "https://CI.example.com:8443", "", "is the host of --public-url"},
		{"https://ci.example.com", "https://content.example.com/files", "", "is not an origin"},
		{"https://ci.example.com", "content.example.com", "", "is not an origin"},
		{"", "https://content.example.com", "", "give --public-url too"},
	} {
		given := map[string]string{"listen": "127.0.0.1:8080", "data": t.TempDir(), "agent-lost-after": "3m", "deregister-stacks-after": "24h", "keep-events": "720h", "public-url": c.public, "content-url": c.content}
		s, err := ParseSettings(func(flag string) string { return given[flag] })
		switch {
		case c.wrong == "" && (err != nil || s.Content != c.want):
			t.Errorf("%q: %q, %v", c.content, s.Content, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), "--content-url: ") || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: %v, want %s", c.content, err, c.wrong)
		}
	}
}

func TestParseConnection(t *testing.T) {
	for _, c := range []struct {
		name  string
		given string // flags without their prefix, and values, in turn
		want  *notifications.Connection
		wrong string
	}{
		{"nothing", "", nil, ""},
		{"the usual chat", "client-id a client-secret b", &notifications.Connection{ClientID: "a", ClientSecret: "b",
			AuthorizeURL: slackEndpoints.AuthorizeURL, TokenURL: slackEndpoints.TokenURL, RevokeURL: slackEndpoints.RevokeURL, APIURL: "https://slack.com/api"}, ""},
		{"the usual chat through a proxy", "client-id a client-secret b api-url https://proxy.test", &notifications.Connection{ClientID: "a", ClientSecret: "b",
			AuthorizeURL: slackEndpoints.AuthorizeURL, TokenURL: slackEndpoints.TokenURL, RevokeURL: slackEndpoints.RevokeURL, APIURL: "https://proxy.test"}, ""},
		{"another chat", "client-id a client-secret b authorize-url https://c.test/x token-url https://c.test/y api-url https://c.test/api",
			&notifications.Connection{ClientID: "a", ClientSecret: "b", AuthorizeURL: "https://c.test/x", TokenURL: "https://c.test/y", APIURL: "https://c.test/api"}, ""},
		{"another chat without its API", "client-id a client-secret b authorize-url https://c.test/x token-url https://c.test/y", nil, "--chat-api-url is required with --chat-oauth-token-url"},
		{"no secret", "client-id a", nil, "--chat-oauth-client-id and --chat-oauth-client-secret go together"},
		{"no client", "token-url https://c.test/y", nil, "go together"},
		{"half of the endpoints", "client-id a client-secret b token-url https://c.test/y", nil, "--chat-oauth-authorize-url and --chat-oauth-token-url go together"},
		{"not a URL", "client-id a client-secret b authorize-url c.test token-url https://c.test/y api-url https://c.test", nil, `"c.test" is not a URL`},
		{"credentials in a URL", "client-id a client-secret b revoke-url https://u:p@c.test", nil, "is not a URL"},
	} {
		given := map[string]string{}
		words := strings.Fields(c.given)
		for i := 0; i < len(words); i += 2 {
			prefix := "chat-oauth-"
			if words[i] == "api-url" {
				prefix = "chat-"
			}
			given[prefix+words[i]] = words[i+1]
		}
		got, err := parseConnection(func(flag string) string { return given[flag] }, "chat", slackEndpoints)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)), c.wrong == "" && err != nil:
			t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
		case (got == nil) != (c.want == nil) || got != nil && *got != *c.want:
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestParseEndpoints_ReportsEveryProblem(t *testing.T) {
	given := map[string]string{"event-bus-endpoint": "localhost", "pipeline-visibility-url": "https://a.test?b", "event-bus-access-key-id": "a"}
	_, err := parseEndpoints(func(flag string) string { return given[flag] })
	const want = `--event-bus-endpoint: "localhost" is not a URL such as https://proxy.example.com
--pipeline-visibility-url: "https://a.test?b" is not a URL such as https://proxy.example.com
--event-bus-access-key-id and --event-bus-secret-access-key go together`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	given = map[string]string{"event-bus-endpoint": "http://localhost:4566"}
	if e, err := parseEndpoints(func(flag string) string { return given[flag] }); err != nil || e.EventBus.Endpoint != "http://localhost:4566" {
		t.Errorf("got %v, %v", e, err)
	}
}
