package sourcehost

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// listServer answers requests for a path with what pages returns for their query.
func listServer(t *testing.T, path string, page func(w http.ResponseWriter, query map[string]string) string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
			return
		}
		query := map[string]string{}
		for name := range r.URL.Query() {
			query[name] = r.URL.Query().Get(name)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, page(w, query))
	}))
	t.Cleanup(server.Close)
	return server
}

func TestListRepositories_ReadsWhatEachHostSends(t *testing.T) {
	want := ListedRepository{Path: "acme/app", Name: "app", Description: "The app", DefaultBranch: "trunk", Private: true, HTTPS: "https://host.test/acme/app.git", SSH: "git@host.test:acme/app.git"}
	const github = `{"id":1,"name":"app","full_name":"acme/app","private":true,"owner":{"login":"acme"},"description":"The app","default_branch":"trunk","clone_url":"https://host.test/acme/app.git","ssh_url":"git@host.test:acme/app.git"}`
	for name, c := range map[string]struct {
		provider     string
		installation bool
		path, body   string
		query        map[string]string
		branch       string
		searched     bool
	}{
		"GitHub":     {ProviderGitHub, false, "/user/repos", "[" + github + "]", map[string]string{"per_page": "100", "page": "1", "sort": "pushed"}, "trunk", false},
		"GitHub App": {ProviderGitHub, true, "/installation/repositories", `{"total_count":1,"repositories":[` + github + `]}`, map[string]string{"per_page": "100", "page": "1"}, "trunk", false},
		"Gitea":      {ProviderGitea, false, "/user/repos", "[" + github + "]", map[string]string{"limit": "50", "page": "1"}, "trunk", false},
		"GitLab": {ProviderGitLab, false, "/projects",
			`[{"id":7,"description":"The app","name":"app","path_with_namespace":"acme/app","default_branch":"trunk","ssh_url_to_repo":"git@host.test:acme/app.git","http_url_to_repo":"https://host.test/acme/app.git"}]`,
			map[string]string{"membership": "true", "simple": "true", "search": `a"p\p`, "search_namespaces": "true", "per_page": "100", "order_by": "last_activity_at", "archived": "false"}, "trunk", true},
		"Bitbucket": {ProviderBitbucket, false, "/repositories",
			`{"pagelen":100,"values":[{"full_name":"acme/app","name":"app","description":"The app","is_private":true,"mainbranch":{"type":"branch","name":"trunk"},"links":{"clone":[{"name":"https","href":"https://ada@host.test/acme/app.git"},{"name":"ssh","href":"git@host.test:acme/app.git"}]}}]}`,
			map[string]string{"role": "member", "pagelen": "100", "sort": "-updated_on", "q": `full_name ~ "app"`}, "trunk", true},
		"Bitbucket Server": {ProviderBitbucketServer, false, "/repos",
			`{"size":1,"limit":100,"isLastPage":true,"values":[{"slug":"app","name":"app","description":"The app","public":false,"project":{"key":"acme"},"links":{"clone":[{"href":"https://host.test/acme/app.git","name":"http"},{"href":"git@host.test:acme/app.git","name":"ssh"}]}}],"start":0}`,
			map[string]string{"limit": "100", "name": `a"p\p`}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			var query map[string]string
			server := listServer(t, c.path, func(_ http.ResponseWriter, q map[string]string) string { query = q; return c.body })
			host, err := New(c.provider, server.URL, Credentials{Token: "x", Installation: c.installation}, server.Client())
			if err != nil {
				t.Fatal(err)
			}
			got, err := host.ListRepositories(t.Context(), `a"p\p`)
			if err != nil {
				t.Fatal(err)
			}
			want := want
			want.DefaultBranch = c.branch
			if len(got.Repositories) != 1 || got.Repositories[0] != want || !got.Complete || got.Searched != c.searched {
				t.Errorf("got %+v", got)
			}
			if fmt.Sprint(query) != fmt.Sprint(c.query) {
				t.Errorf("asked for %v, want %v", query, c.query)
			}
		})
	}
}

func TestListRepositories_ReadsPagesUpToABound(t *testing.T) {
	for repositories, want := range map[int]struct {
		requests, found int
		complete        bool
	}{0: {1, 0, true}, 99: {1, 99, true}, 100: {2, 100, true}, 250: {3, 250, true}, 5000: {10, 1000, false}} {
		requests := 0
		server := listServer(t, "/user/repos", func(_ http.ResponseWriter, query map[string]string) string {
			requests++
			number, _ := strconv.Atoi(query["page"])
			count := max(0, min(100, repositories-100*(number-1)))
			return "[" + strings.TrimSuffix(strings.Repeat(`{"full_name":"a/b"},`, count), ",") + "]"
		})
		got, err := NewGitHub(server.URL, "x", server.Client()).ListRepositories(t.Context(), "")
		if err != nil || requests != want.requests || len(got.Repositories) != want.found || got.Complete != want.complete {
			t.Errorf("%d repositories: %d requests, %d found, complete %v, %v", repositories, requests, len(got.Repositories), got.Complete, err)
		}
	}
}

func TestListRepositories_ExplainsWhatTheHostRefuses(t *testing.T) {
	for want, c := range map[string]struct {
		status int
		body   string
		kind   error
	}{
		"it does not accept the token":                    {401, `{"message":"Bad credentials"}`, ErrRefused},
		"the token may not list repositories (No access)": {403, `{"message":"No access"}`, ErrRefused},
		"there is no list of repositories at":             {404, `{}`, ErrRefused},
		"status 502":                                      {502, `<html>`, ErrUnavailable},
		"is not what this kind of host sends":             {200, `<html>`, ErrUnavailable},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		_, err := NewGitHub(server.URL, "x", server.Client()).ListRepositories(t.Context(), "")
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", c.status, err, want)
		}
		server.Close()
	}
}
