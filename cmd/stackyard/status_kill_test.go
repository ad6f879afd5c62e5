package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The server is killed after a source host has got statuses of builds and before the server knows it. Afterwards the host
// gets the newest state of each build, and no older one.
func TestServe_CommitStatusesAreRightAfterKill9(t *testing.T) {
	t.Parallel()
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		statusesDespiteKills(t, []string{"--data", t.TempDir()})
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		statusesDespiteKills(t, onPostgres(t, dbtest.URL(t, db.PostgreSQL)))
	})
}

func statusesDespiteKills(t *testing.T, installation []string) {
	host := newStatusHost(t)
	apply(t, installation, notifyFile)
	apply(t, installation, "organizations: [{slug: acme, pipelines: [{slug: hello, name: Hello, repository: 'https://git.example.test/acme/hello.git', cluster: Default, configuration: 'steps: [{command: make}]'}]}]")
	apply(t, installation, "organizations: [{slug: acme, source_connections: [{host: git.example.test, provider: github_enterprise, api_url: '"+host.URL+"', token: ghp_1}]}]")
	installation = append(installation, "--outbound-allow", "127.0.0.0/8")

	// Each build is killed in another state: the host has got the status, and its response is held back.
	p := serveOn(t, installation)
	var jobs []*killedJob
	for i, moves := range [][]string{{}, {"start"}, {"start", "finish"}} {
		commit := fmt.Sprintf("%040d", i+1)
		job := &killedJob{commit: commit, left: []string{"start", "finish"}[len(moves):]}
		host.holdAt(commit, len(moves))
		b := decode[struct{ Jobs []struct{ ID string } }](t, p.ask(t, adaToken, "POST", pipelinesPath+"/hello/builds", `{"commit": "`+commit+`", "branch": "main"}`).want(t, http.StatusCreated))
		job.path = "/v3/jobs/" + b.Jobs[0].ID
		for i, move := range moves {
			host.waitFor(t, commit, i+1) // states that follow each other faster are sent once
			if move == "start" {
				job.acquire(t, p)
			}
			job.move(t, p, move)
		}
		host.waitFor(t, commit, len(moves)+1)
		jobs = append(jobs, job)
	}
	p.kill()
	host.release()

	// They end while the next server sends.
	p = serveOn(t, installation)
	for _, job := range jobs {
		if len(job.left) == 2 {
			job.acquire(t, p)
		}
		for _, move := range job.left {
			job.move(t, p, move)
		}
	}
	for _, job := range jobs {
		eventually(t, 2*waitLimit, "the status of the end", func() bool { return host.last(job.commit) == "success" })
	}
	p.stop(t)
	for _, job := range jobs {
		got := host.states(job.commit)
		t.Logf("the host got %q", got)
		if at := slices.Index(got, "success"); slices.ContainsFunc(got[at:], func(s string) bool { return s != "success" }) {
			t.Errorf("the host got %q", got)
		}
	}
}

// A killedJob is a job of a build that the server is killed in.
type killedJob struct {
	commit, path, token string
	left                []string // what happens after the kill
}

// agentRequest sends a request of an agent.
func agentRequest(t *testing.T, p *process, token, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequest(method, p.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+token)
	req.Header.Set("Content-Type", "application/json")
	got, err := send(httpClient, req)
	if err != nil {
		t.Fatal(err)
	}
	return got.want(t, http.StatusOK)
}

// registerAgent returns the session token of an agent that acquires jobs.
func registerAgent(t *testing.T, p *process) string {
	t.Helper()
	agent := decode[struct {
		Token string `json:"access_token"`
	}](t, agentRequest(t, p, "svcct_acme-notify", "POST", "/v3/register", `{"name": "a", "ignore_in_dispatches": true}`))
	agentRequest(t, p, agent.Token, "POST", "/v3/connect", "")
	return agent.Token
}

// acquire gives the job to a new agent.
func (j *killedJob) acquire(t *testing.T, p *process) {
	t.Helper()
	agent := registerAgent(t, p)
	j.token = decode[struct{ Token string }](t, agentRequest(t, p, agent, "PUT", j.path+"/acquire", "")).Token
}

func (j *killedJob) move(t *testing.T, p *process, move string) {
	t.Helper()
	body := map[string]string{"start": `{"started_at": "2026-01-02T03:04:05Z"}`, "finish": `{"exit_status": "0", "finished_at": "2026-01-02T03:04:06Z"}`}[move]
	agentRequest(t, p, j.token, "PUT", j.path+"/"+move, body)
}

// A statusHost takes commit statuses like GitHub.
type statusHost struct {
	*httptest.Server
	mu       sync.Mutex
	got      map[string][]string // states by commit
	hold     map[string]int      // the index of the status whose response is held back, by commit
	released chan struct{}
	once     sync.Once
}

func newStatusHost(t *testing.T) *statusHost {
	h := &statusHost{got: map[string][]string{}, hold: map[string]int{}, released: make(chan struct{})}
	h.Server = httptest.NewServer(h)
	t.Cleanup(func() {
		h.release()
		h.Close()
	})
	return h
}

func (h *statusHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var status struct{ State string }
	commit, ok := strings.CutPrefix(r.URL.Path, "/repos/acme/hello/statuses/")
	if !ok || json.NewDecoder(r.Body).Decode(&status) != nil {
		http.NotFound(w, r)
		return
	}
	h.mu.Lock()
	at, held := h.hold[commit]
	held = held && at == len(h.got[commit])
	h.got[commit] = append(h.got[commit], status.State)
	h.mu.Unlock()
	if held {
		<-h.released
	}
	w.WriteHeader(http.StatusCreated)
	w.Write([]byte("{}"))
}

func (h *statusHost) holdAt(commit string, index int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold[commit] = index
}

// release answers what is held back.
func (h *statusHost) release() { h.once.Do(func() { close(h.released) }) }

func (h *statusHost) states(commit string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got[commit])
}

func (h *statusHost) waitFor(t *testing.T, commit string, n int) {
	t.Helper()
	eventually(t, waitLimit, "the host gets a status", func() bool { return len(h.states(commit)) >= n })
}

func (h *statusHost) last(commit string) string {
	got := h.states(commit)
	if len(got) == 0 {
		return ""
	}
	return got[len(got)-1]
}
