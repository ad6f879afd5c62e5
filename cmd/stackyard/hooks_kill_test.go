package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The server is killed at random moments while a source host sends webhooks. Every delivery that was acknowledged is
// built exactly once, and those of a branch in the order in which they were sent. The host sends a delivery again when
// it got no answer.
func TestServe_BuildsEveryWebhookOnceAfterKill9(t *testing.T) {
	t.Parallel()
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		receiveDespiteKills(t, 10**faults, []string{"--data", t.TempDir()})
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		receiveDespiteKills(t, 2**faults, onPostgres(t, dbtest.URL(t, db.PostgreSQL)))
	})
}

func receiveDespiteKills(t *testing.T, kills int, installation []string) {
	apply(t, installation, notifyFile)
	p := serveOn(t, installation)
	h := &sourceHost{secret: decode[struct{ Secret string }](t, p.get(t, adaToken, pipelinesPath+"/hello/webhook")).Secret}
	for i := range h.branches {
		h.branches[i].name = fmt.Sprint("branch-", i)
	}
	for range kills {
		// The URL has the port of the server.
		url := decode[struct{ URL string }](t, p.get(t, adaToken, pipelinesPath+"/hello/webhook")).URL
		acknowledged := make(chan struct{}, 10_000)
		var senders sync.WaitGroup
		for i := range h.branches {
			senders.Go(func() { h.push(t, url, &h.branches[i], acknowledged) })
		}
		for range 1 + rand.IntN(60) {
			select {
			case <-acknowledged:
			case <-time.After(waitLimit):
				t.Fatal("nothing was received")
			}
		}
		p.kill()
		senders.Wait()
		p = serveOn(t, installation)
	}
	total := 0
	for _, b := range h.branches {
		total += b.acknowledged
	}
	// At most one delivery of each branch was stored without an answer. A lease of the killed process ends first.
	eventually(t, 4*waitLimit, "all deliveries are processed", func() bool {
		list := decode[struct{ Items []struct{ State string } }](t, p.get(t, adaToken, pipelinesPath+"/hello/webhook-deliveries?per_page=100"))
		return !slices.ContainsFunc(list.Items, func(d struct{ State string }) bool { return d.State == "pending" })
	})
	h.check(t, p)
	t.Logf("killed %d times: %d deliveries acknowledged, %d sent again", kills, total, h.repeated)
}

// A sourceHost pushes to several branches at the same time, to each one commit after the other.
type sourceHost struct {
	secret   string
	branches [concurrentWrites]pushedBranch
	mu       sync.Mutex
	repeated int
}

type pushedBranch struct {
	name         string
	acknowledged int
}

// commit returns the n-th commit of a branch.
func (h *sourceHost) commit(branch string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", branch, n))
	return hex.EncodeToString(sum[:20])
}

// push sends pushes of a branch until the server is killed.
func (h *sourceHost) push(t *testing.T, url string, b *pushedBranch, acknowledged chan<- struct{}) {
	for range buildsBetweenKills {
		sha := h.commit(b.name, b.acknowledged)
		body := fmt.Sprintf(`{"ref":"refs/heads/%s","after":%q,"repository":{"full_name":"a","clone_url":"https://git.example.test/a.git"},"head_commit":{"id":%q,"message":"Pour"}}`, b.name, sha, sha)
		mac := hmac.New(sha256.New, []byte(h.secret))
		mac.Write([]byte(body))
		req, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-GitHub-Event", "push")
		req.Header.Set("X-GitHub-Delivery", sha)
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		got, err := send(httpClient, req)
		if err != nil {
			return // killed
		}
		if got.Status != http.StatusAccepted {
			t.Errorf("status %d\n%s", got.Status, got.Body)
			return
		}
		if strings.Contains(string(got.Body), "received before") {
			h.mu.Lock()
			h.repeated++
			h.mu.Unlock()
		}
		b.acknowledged++
		acknowledged <- struct{}{}
	}
}

// check compares the builds with what was pushed.
func (h *sourceHost) check(t *testing.T, p *process) {
	t.Helper()
	built := map[string][]string{} // commits by branch, newest first
	for page := 1; ; page++ {
		builds := decode[[]struct{ Branch, Commit string }](t, p.get(t, adaToken, fmt.Sprintf("%s/hello/builds?per_page=100&exclude_jobs=true&exclude_pipeline=true&page=%d", pipelinesPath, page)))
		for _, b := range builds {
			built[b.Branch] = append(built[b.Branch], b.Commit)
		}
		if len(builds) < 100 {
			break
		}
	}
	for _, b := range h.branches {
		got := built[b.name]
		slices.Reverse(got)
		if n := len(got); n != b.acknowledged && n != b.acknowledged+1 {
			t.Errorf("%s: %d builds of %d acknowledged deliveries", b.name, n, b.acknowledged)
		}
		for i, commit := range got {
			if commit != h.commit(b.name, i) {
				t.Errorf("%s: build %d is not of push %d", b.name, i, i)
				break
			}
		}
	}
}
