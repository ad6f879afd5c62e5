package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// From a checkout to a build: the command creates the pipeline and the webhook at a source host, which then sends a push.
func TestPipelineCreate_ConnectsTheRepositoryOfTheCheckout(t *testing.T) {
	t.Parallel()
	type webhook struct {
		Config struct{ URL, Secret string }
	}
	hooks := make(chan webhook, 1)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/repos/acme/tea/statuses/") {
			w.WriteHeader(http.StatusCreated)
			return
		}
		var hook webhook
		if r.URL.Path != "/repos/acme/tea/hooks" || json.NewDecoder(r.Body).Decode(&hook) != nil {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		hooks <- hook
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"id": 1}`))
	}))
	defer host.Close()
	installation := []string{"--data", t.TempDir()}
	apply(t, installation, notifyFile)
	apply(t, installation, "organizations: [{slug: acme, source_connections: [{host: code.example.test, provider: github_enterprise, api_url: '"+host.URL+"', token: ghp_1}]}]")
	p := serveOn(t, append(installation, "--outbound-allow", "127.0.0.0/8"))

	checkout := t.TempDir()
	runGit(t, checkout, "init", "-q")
	runGit(t, checkout, "remote", "add", "origin", "git@code.example.test:acme/tea.git")
	cmd := command("pipeline", "create", "--server", p.URL)
	cmd.Dir, cmd.Env = checkout, append(cmd.Env, "STACKYARD_TOKEN="+adaToken, "STACKYARD_CONFIG_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Created      tea\n") || !strings.Contains(string(out), "Webhook      created\n") {
		t.Fatalf("%v\n%s", err, out)
	}

	hook := (<-hooks).Config
	body := fmt.Sprintf(`{"ref":"refs/heads/main","after":"%040d","repository":{"full_name":"acme/tea","clone_url":"https://code.example.test/acme/tea.git"}}`, 1)
	mac := hmac.New(sha256.New, []byte(hook.Secret))
	mac.Write([]byte(body))
	req, err := http.NewRequest("POST", hook.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-GitHub-Delivery", "1")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	if got, err := send(httpClient, req); err != nil || got.Status != http.StatusAccepted {
		t.Fatal(got, err)
	}
	eventually(t, waitLimit, "the push is built", func() bool {
		builds := decode[[]struct{ Source, Branch string }](t, p.get(t, adaToken, pipelinesPath+"/tea/builds"))
		return len(builds) == 1 && builds[0].Source == "webhook" && builds[0].Branch == "main"
	})
}
