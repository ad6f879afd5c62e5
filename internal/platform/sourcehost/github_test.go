package sourcehost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	_     Host = (*GitHub)(nil)
	hello      = Repository{Host: "github.com", Owner: "acme", Name: "hello.js", Path: "acme/hello.js"}
	hook       = Webhook{URL: "https://ci.example.test/hooks/abc", Secret: "hook-secret"}
)

func TestCreateWebhook_SendsWhatGitHubAccepts(t *testing.T) {
	github := &fakeGitHub{token: "good-token", repositories: []string{"acme/hello.js"}}
	server := httptest.NewServer(github)
	defer server.Close()

	for _, apiURL := range []string{server.URL, server.URL + "/"} { // both are common
		github.hooks = nil
		if err := NewGitHub(apiURL, "good-token", server.Client()).CreateWebhook(t.Context(), hello, hook); err != nil {
			t.Fatal(err)
		}
		if len(github.hooks) != 1 {
			t.Fatalf("%d hooks were made", len(github.hooks))
		}
		made := github.hooks[0]
		if made.Config.URL != hook.URL || made.Config.Secret != hook.Secret || !slices.Contains(made.Events, "push") || !slices.Contains(made.Events, "pull_request") {
			t.Errorf("the hook is %+v", made)
		}
	}
}

func TestCreateWebhook_ReportsThatTheHookExists(t *testing.T) {
	server := httptest.NewServer(&fakeGitHub{token: "good-token", repositories: []string{"acme/hello.js"}})
	defer server.Close()
	github := NewGitHub(server.URL, "good-token", server.Client())
	if err := github.CreateWebhook(t.Context(), hello, hook); err != nil {
		t.Fatal(err)
	}
	if err := github.CreateWebhook(t.Context(), hello, hook); !errors.Is(err, ErrExists) {
		t.Fatalf("the second time: %v", err)
	}
}

func TestCreateWebhook_ReportsWhatGitHubChecked(t *testing.T) {
	server := httptest.NewServer(&fakeGitHub{token: "good-token", repositories: []string{"acme/hello.js"}})
	defer server.Close()
	for name, c := range map[string]struct {
		token string
		repo  Repository
		hook  Webhook
		want  string
	}{
		"wrong token":        {"bad-token", hello, hook, "does not accept the token"},
		"unknown repository": {"good-token", Repository{"github.com", "acme", "other", "acme/other"}, hook, "no repository acme/other"},
		"bad hook URL":       {"good-token", hello, Webhook{URL: "ci.example.test"}, "Validation Failed: url must be http or https"},
		"too long a path":    {"good-token", Repository{"github.com", "a/b", "c", "a/b/c"}, hook, `"a/b/c" is not the path of a repository on GitHub`},
		"a way out":          {"good-token", Repository{"github.com", "..", "c", "../c"}, hook, "is not the path of a repository"},
		"odd name":           {"good-token", Repository{"github.com", "a", "c?x", "a/c?x"}, hook, "is not the path of a repository"},
	} {
		err := NewGitHub(server.URL, c.token, server.Client()).CreateWebhook(t.Context(), c.repo, c.hook)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.want)
		}
	}
}

func TestCreateWebhook_ExplainsEveryAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header map[string]string
		body   string
		kind   error
		want   string
	}{
		"exists": {422, nil,
			`{"message":"Validation Failed","errors":[{"resource":"Hook","code":"custom","message":"Hook already exists on this repository"}],"documentation_url":"https://docs.github.com/rest/repos/webhooks#create-a-repository-webhook","status":"422"}`,
			ErrExists, "already exists on this repository"},
		"too many hooks": {422, nil,
			`{"message":"Validation Failed","errors":[{"resource":"Hook","code":"custom","message":"The \"push\" event cannot have more than 20 hooks"}]}`,
			ErrRefused, `Validation Failed: The "push" event cannot have more than 20 hooks`},
		"errors as strings": {422, nil, `{"message":"Validation Failed","errors":["odd"]}`,
			ErrRefused, "Validation Failed"},
		"bad credentials": {401, nil, `{"message":"Bad credentials"}`,
			ErrRefused, "does not accept the token"},
		"forbidden": {403, nil, `{"message":"Resource not accessible by personal access token"}`,
			ErrRefused, "may not manage webhooks of acme/hello.js (Resource not accessible by personal access token)"},
		"not found": {404, nil, `{"message":"Not Found"}`,
			ErrRefused, "no repository acme/hello.js, or the token may not manage its webhooks"},
		"moved": {307, map[string]string{"Location": "/repositories/1/hooks"}, `{"message":"Moved Permanently"}`,
			ErrRefused, "has moved; correct its URL"},
		"server error": {502, nil, `<html>Bad gateway</html>`,
			ErrUnavailable, "status 502 (without a reason)"},
		"not an answer to this": {200, nil, `[]`,
			ErrUnavailable, "status 200"},
		"primary rate limit": {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767323045"}, `{"message":"API rate limit exceeded"}`,
			ErrUnavailable, "rate limit is used up; try again after 03:04:05 UTC"},
		"primary rate limit without a time": {429, map[string]string{"X-RateLimit-Remaining": "0"}, `{}`,
			ErrUnavailable, "try again later"},
		"secondary rate limit": {403, map[string]string{"Retry-After": "42", "X-RateLimit-Remaining": "4000"}, `{"message":"You have exceeded a secondary rate limit"}`,
			ErrUnavailable, "try again in 42 seconds"},
		"too many requests": {429, nil, ``,
			ErrUnavailable, "try again later"},
		"endless talk": {500, nil, `{"message":"` + strings.Repeat("é", 1000) + `"}`,
			ErrUnavailable, "é…"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer server.Close()
			client := server.Client()
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			err := NewGitHub(server.URL, "top-secret", client).CreateWebhook(t.Context(), hello, hook)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %v that says %q", err, c.kind, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || len(err.Error()) > 500) {
				t.Errorf("the error contains too much: %v", err)
			}
		})
	}
}

func TestCreateWebhook_GivesUpOnAHostThatHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := NewGitHub(server.URL, "token", server.Client()).CreateWebhook(ctx, hello, hook)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestCreateWebhook_KeepsTheCauseWhenTheHostIsUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	err = NewGitHub("http://"+listener.Addr().String(), "token", http.DefaultClient).CreateWebhook(t.Context(), hello, hook)
	if _, ok := errors.AsType[*net.OpError](err); !ok || !errors.Is(err, ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	err = NewGitHub("http://bad host", "token", http.DefaultClient).CreateWebhook(t.Context(), hello, hook)
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("no URL: %v", err)
	}
}

func TestGitHubAPI(t *testing.T) {
	for host, want := range map[string]string{
		"github.com":          "https://api.github.com",
		"github.example.test": "https://github.example.test/api/v3",
	} {
		if got := GitHubAPI(host); got != want {
			t.Errorf("%s: %s", host, got)
		}
	}
}

// fakeGitHub creates webhooks, and checks requests as GitHub does.
type fakeGitHub struct {
	token        string
	repositories []string
	hooks        []fakeHook
}

type fakeHook struct {
	Name   string   `json:"name"`
	Active *bool    `json:"active"`
	Events []string `json:"events"`
	Config struct {
		URL         string `json:"url"`
		ContentType string `json:"content_type"`
		Secret      string `json:"secret"`
		InsecureSSL string `json:"insecure_ssl"`
	} `json:"config"`
}

// webhookEvents are the event names that a repository's webhook can have.
var webhookEvents = strings.Fields(`* branch_protection_configuration branch_protection_rule check_run check_suite
	code_scanning_alert commit_comment create custom_property_values delete dependabot_alert deploy_key deployment
	deployment_review deployment_status discussion discussion_comment fork gollum issue_comment issues label member
	merge_group meta milestone package page_build project project_card project_column public pull_request
	pull_request_review pull_request_review_comment pull_request_review_thread push registry_package release repository
	repository_advisory repository_import repository_ruleset repository_vulnerability_alert secret_scanning_alert
	secret_scanning_alert_location security_and_analysis star status team_add watch workflow_job workflow_run`)

func (g *fakeGitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repository, isHooks := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/repos/"), "/hooks")
	switch {
	case r.Header.Get("User-Agent") == "":
		g.refuse(w, http.StatusForbidden, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header")
	case r.Header.Get("Authorization") != "Bearer "+g.token:
		g.refuse(w, http.StatusUnauthorized, "Bad credentials")
	case r.Method != http.MethodPost || !isHooks || !slices.Contains(g.repositories, repository):
		g.refuse(w, http.StatusNotFound, "Not Found")
	case r.Header.Get("Accept") != "application/vnd.github+json":
		g.refuse(w, http.StatusUnsupportedMediaType, "Must accept 'application/json'")
	case r.Header.Get("X-GitHub-Api-Version") != "2022-11-28":
		g.refuse(w, http.StatusBadRequest, "The version is not supported")
	case r.Header.Get("Content-Type") != "application/json":
		g.refuse(w, http.StatusUnsupportedMediaType, "Unsupported Media Type")
	default:
		g.create(w, r)
	}
}

func (g *fakeGitHub) create(w http.ResponseWriter, r *http.Request) {
	var hook fakeHook
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&hook); err != nil {
		g.refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	target, err := url.Parse(hook.Config.URL)
	unknown := func(event string) bool { return !slices.Contains(webhookEvents, event) }
	same := func(other fakeHook) bool { return other.Config.URL == hook.Config.URL }
	switch {
	case err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https":
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "url must be http or https")
	case hook.Name != "web":
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "name must be web")
	case hook.Active == nil || !*hook.Active:
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "this test wants an active hook")
	case len(hook.Events) == 0 || slices.ContainsFunc(hook.Events, unknown):
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "events has an unknown event")
	case hook.Config.ContentType != "json" && hook.Config.ContentType != "form":
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "content_type must be json or form")
	case hook.Config.InsecureSSL != "0":
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "this test wants certificates checked")
	case slices.ContainsFunc(g.hooks, same):
		g.refuse(w, http.StatusUnprocessableEntity, "Validation Failed", "Hook already exists on this repository")
	default:
		g.hooks = append(g.hooks, hook)
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"type": "Repository", "id": len(g.hooks), "name": "web", "active": true, "events": hook.Events})
	}
}

func (g *fakeGitHub) refuse(w http.ResponseWriter, status int, message string, problems ...string) {
	w.WriteHeader(status)
	body := map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"}
	for _, p := range problems {
		body["errors"] = []map[string]string{{"resource": "Hook", "code": "custom", "message": p}}
	}
	json.NewEncoder(w).Encode(body)
}
