package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const killFile = `
organizations:
  - slug: acme
    name: Acme Inc
    limits: {rest_requests_per_second: 0}
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: ` + adaToken + `, scopes: ["*"]}]
    clusters: [{name: Default, default: true}]
`

// faults makes fault injection longer: go test ./cmd/stackyard -run 'Kill9|WhateverHappens|Compete' -faults 20 -timeout 2h
var faults = flag.Int("faults", 1, "factor for the number of kills in tests that inject faults")

// concurrentWrites is the number of requests in progress when the server is killed.
const concurrentWrites = 8

func TestServe_HasEveryAcknowledgedWriteAfterKill9(t *testing.T) {
	t.Parallel()
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		killRepeatedly(t, 25**faults, []string{"--data", t.TempDir()})
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		killRepeatedly(t, 5**faults, onPostgres(t, dbtest.URL(t, db.PostgreSQL)))
	})
}

// killRepeatedly kills a server during writes, and checks that the next one has everything that was
// acknowledged.
func killRepeatedly(t *testing.T, rounds int, installation []string) {
	apply(t, installation, killFile)
	acknowledged, unknown := make(map[string]bool), 0
	for round := range rounds {
		p := serveOn(t, installation)
		created := make(chan string, 10_000)
		var writers sync.WaitGroup
		for w := range concurrentWrites {
			writers.Go(func() {
				for i := 0; ; i++ {
					slug := fmt.Sprintf("written-%d-%d-%d", round, w, i)
					got, err := p.try(adaToken, "POST", pipelinesPath, fmt.Sprintf(
						`{"name": %q, "repository": "https://git.example.test/a.git", "configuration": "steps: [{command: make}]"}`, slug))
					if err != nil {
						return // killed
					}
					if got.Status != http.StatusCreated {
						t.Errorf("status %d\n%s", got.Status, got.Body)
						return
					}
					created <- slug
				}
			})
		}
		for range 1 + rand.IntN(40) {
			select {
			case slug := <-created:
				acknowledged[slug] = true
			case <-time.After(waitLimit):
				t.Fatal("nothing was written")
			}
		}
		p.kill()
		writers.Wait()
		close(created)
		for slug := range created {
			acknowledged[slug] = true
		}
		unknown += concurrentWrites
		wantPipelines(t, serveOn(t, installation), acknowledged, unknown)
	}
	t.Logf("killed %d times, %d writes were acknowledged", rounds, len(acknowledged))
}

// wantPipelines checks that pipelines exist. There may be others whose creation was not acknowledged.
func wantPipelines(t *testing.T, p *process, acknowledged map[string]bool, unknown int) {
	t.Helper()
	defer p.kill()
	found := make(map[string]bool)
	for page := 1; ; page++ {
		pipelines := decode[[]struct{ Slug string }](t, p.get(t, adaToken, fmt.Sprintf("%s?per_page=100&page=%d", pipelinesPath, page)))
		for _, one := range pipelines {
			found[one.Slug] = true
		}
		if len(pipelines) < 100 {
			break
		}
	}
	for slug := range acknowledged {
		if !found[slug] {
			t.Errorf("%s was acknowledged and is gone", slug)
		}
	}
	if extra := len(found) - len(acknowledged); extra > unknown {
		t.Errorf("%d unexpected pipelines", extra)
	}
}
