package gitremote_test

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stackyard/internal/platform/gitremote"
	"stackyard/internal/platform/gitremote/gitremotetest"
	"stackyard/internal/platform/outbound"
)

func TestResolve_ReadsTheCommitOfABranch(t *testing.T) {
	for name, configure := range map[string]func(*gitremotetest.Repository){
		"filters":       func(r *gitremotetest.Repository) { r.Git("config", "uploadpack.allowFilter", "true") },
		"whole commits": func(*gitremotetest.Repository) {},
	} {
		t.Run(name, func(t *testing.T) {
			repo := gitremotetest.New(t)
			first := repo.Commit("README", "one", "Boil water\n\nSlowly.")
			repo.Git("tag", "-a", "v1", "-m", "First")
			repo.Git("branch", "main2")
			second := repo.Commit("README", "two", "Pour tea")
			configure(repo)
			remote := &gitremote.Remote{Client: http.DefaultClient, URL: repo.URL}
			for ref, want := range map[string]gitremote.Commit{
				"refs/heads/main":  {second, "Grace", "grace@acme.test", "Pour tea"},
				"refs/heads/main2": {first, "Grace", "grace@acme.test", "Boil water\n\nSlowly."},
				"refs/tags/v1":     {first, "Grace", "grace@acme.test", "Boil water\n\nSlowly."},
			} {
				got, err := remote.Resolve(t.Context(), "refs/heads/none", ref)
				if err != nil || got != want {
					t.Errorf("%s: %+v, %v", ref, got, err)
				}
			}
			for _, ref := range []string{"refs/heads/mai", "refs/heads/main\n0000"} {
				if got, err := remote.Resolve(t.Context(), ref); !errors.Is(err, gitremote.ErrNotFound) {
					t.Errorf("%q: %+v, %v", ref, got, err)
				}
			}
		})
	}
}

func TestResolve_ReadsTheNameFromOldServers(t *testing.T) {
	repo := gitremotetest.New(t)
	sha := repo.Commit("README", "one", "Boil water")
	repo.Git("tag", "-a", "v1", "-m", "First")
	repo.Version1 = true
	for _, ref := range []string{"refs/heads/main", "refs/tags/v1"} {
		got, err := (&gitremote.Remote{Client: http.DefaultClient, URL: repo.URL}).Resolve(t.Context(), ref)
		if err != nil || got != (gitremote.Commit{SHA: sha}) {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
}

func TestResolve_SendsCredentials(t *testing.T) {
	repo := gitremotetest.New(t)
	sha := repo.Commit("README", "one", "Boil water")
	repo.User, repo.Password = "token", "hunter2"
	remote := &gitremote.Remote{Client: http.DefaultClient, URL: repo.URL}
	if _, err := remote.Resolve(t.Context(), "refs/heads/main"); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("without credentials: %v", err)
	}
	remote.User, remote.Password = "token", "hunter2"
	if got, err := remote.Resolve(t.Context(), "refs/heads/main"); err != nil || got.SHA != sha {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestResolve_RefusesPrivateAddressesAndNonsense(t *testing.T) {
	repo := gitremotetest.New(t)
	repo.Commit("README", "one", "Boil water")
	_, err := (&gitremote.Remote{Client: outbound.New(nil), URL: repo.URL}).Resolve(t.Context(), "refs/heads/main")
	if _, refused := errors.AsType[*outbound.RefusedError](err); !refused {
		t.Errorf("a private address: %v", err)
	}
	for _, body := range []string{"", "hello", "<html>", "ffff", "0005", "zzzz", "000eversion 2\n0000", strings.Repeat("0000", 1<<22)} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) }))
		if got, err := (&gitremote.Remote{Client: http.DefaultClient, URL: server.URL}).Resolve(t.Context(), "refs/heads/main"); err == nil {
			t.Errorf("%.20q: %+v", body, got)
		}
		server.Close()
	}
}

func FuzzFirstCommit(f *testing.F) {
	f.Add("000dpackfile\n0011\x01PACK\x00\x00\x00\x02\x00\x00\x00\x01")
	f.Add("0000")
	f.Fuzz(func(t *testing.T, body string) {
		if text, err := gitremote.FirstCommit(bufio.NewReader(strings.NewReader(body)), strings.Repeat("0", 40)); err == nil {
			t.Errorf("a commit without a name: %q", text)
		}
	})
}
