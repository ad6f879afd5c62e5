package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/db/dbtest"
)

// Two replicas serve agents when the PostgreSQL primary dies. Once its standby is promoted they continue without a restart,
// and every acknowledged write exists.
func TestServe_LosesNothingWhenPostgreSQLFailsOver(t *testing.T) {
	t.Parallel()
	pair, err := dbtest.StartPair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pair.Stop)
	r := &faultRun{}
	r.t, r.outages = t, true
	r.installation = onPostgres(t, pair.URL())
	apply(t, r.installation, chaosFile)
	r.serve()
	r.beside.Store(serveOn(t, r.installation))
	ctx, leave := context.WithCancel(t.Context())
	var agents, user sync.WaitGroup
	defer agents.Wait()
	defer leave()
	for i := range uint64(chaosAgents) {
		agents.Go(func() { (&wildAgent{chaos: &r.chaos, random: rand.New(rand.NewPCG(rand.Uint64(), i))}).live(ctx) })
	}
	user.Go(func() { r.create(ctx) })
	r.mode.Store(rude)
	r.waitAnswers(200)

	pair.Primary.Stop()
	for _, p := range []*process{r.server.Load(), r.beside.Load()} {
		eventually(t, waitLimit, "a replica says that it has no database", func() bool {
			got, err := p.try("", "GET", "/readyz", "")
			return err == nil && got.Status == http.StatusServiceUnavailable
		})
	}
	if err := pair.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	promoted := time.Now()
	before := r.history.endedJobs()
	eventually(t, waitLimit, "jobs end with the new primary", func() bool { return r.history.endedJobs() > before })
	recovered := time.Since(promoted)

	r.waitAnswers(200)
	r.stopped.Store(true)
	r.mode.Store(mild)
	user.Wait()
	eventually(t, enough, "all builds have ended", r.allEnded)
	leave()
	agents.Wait()
	r.checkAll()
	t.Logf("the first job ended %s after the standby accepted writes; %d builds, %s", recovered.Round(time.Millisecond), r.builds, r.history.summary())
}
