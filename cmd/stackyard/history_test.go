package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/db/dbtest"
)

// The long run: go test ./cmd/stackyard -run TestServe_HistoryIsConsistent -history 30m -timeout 2h -v
var historyTime = flag.Duration("history", 0, "how long TestServe_HistoryIsConsistentUnderFaults injects faults; each kind once at least")

// Agents, users and stacks use three replicas on PostgreSQL through a load balancer, while replicas are killed, stopped and
// cut off and PostgreSQL crashes; the clock of one replica is wrong. All record what they sent and got. In the end no
// acknowledged write is missing, every job had one holder at a time, no job was seen to go back to an earlier state, and no
// build is stuck.
func TestServe_HistoryIsConsistentUnderFaults(t *testing.T) {
	if *historyTime > 0 {
		waitLimit = 10 * time.Minute
	}
	t.Parallel()
	postgres, err := dbtest.StartServer(map[string]string{"autovacuum": "on"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(postgres.Stop)
	installation := onPostgres(t, postgres.Database(t))
	apply(t, installation, chaosFile)
	n := &nemesis{t: t, installation: append(installation, "--agent-lost-after", "20s", "--log-level", "error"), postgres: postgres}
	n.startReplicas(3)
	r := &historyRun{}
	r.t, r.outages = t, true
	r.server.Store(&process{URL: n.balancer.URL()})

	ctx, leave := context.WithCancel(t.Context())
	var agents, others sync.WaitGroup
	defer agents.Wait()
	defer leave()
	for i := range uint64(chaosAgents) {
		agents.Go(func() { (&wildAgent{chaos: &r.chaos, random: rand.New(rand.NewPCG(rand.Uint64(), i))}).live(ctx) })
	}
	r.mode.Store(rude)
	others.Go(func() { r.create(ctx) })
	for range 3 {
		others.Go(r.watch)
	}
	for _, key := range []string{"red", "blue"} {
		others.Go(func() { r.reserve(key) })
	}

	n.torment(t.Context(), *historyTime, func() { r.waitAnswers(30 + rand.IntN(60)) })
	r.stopped.Store(true)
	r.mode.Store(mild)
	others.Wait()
	eventually(t, waitLimit+enough, "all builds have ended", r.allEnded)
	leave()
	agents.Wait()
	jobs := r.checkAll()
	for _, problem := range r.sightings.problems() {
		t.Error(problem)
	}
	reservations := r.checkReservations()
	t.Logf("%s; %d jobs of %d builds; %s; %d states seen, %d reservations", n.summary(), len(jobs), r.builds, r.history.summary(), r.sightings.n, reservations)
	t.Logf("acknowledged: %d builds, %s", len(r.created), r.history.acknowledgedByVerb())
}

// A historyRun is a faultRun with users who watch, cancel and retry jobs, and stacks that reserve them.
type historyRun struct {
	faultRun
	sightings sightings

	reserving sync.Mutex
	reserved  map[string][]event // by job
}

// try sends a request, and reports whether the server had to respond: not when it was stopped or had no database.
func (r *historyRun) try(token, method, path, body string) (got answer, at moment, ok bool) {
	at.sent = time.Now()
	got, err := r.server.Load().try(token, method, path, body)
	at.answered = time.Now()
	if err != nil || got.Status == http.StatusServiceUnavailable {
		time.Sleep(50 * time.Millisecond)
		return answer{}, at, false
	}
	if got.Status >= 500 {
		r.t.Errorf("%s %s: %d %s", method, path, got.Status, got.Body)
	}
	return got, at, true
}

// watch reads jobs, cancels few of them, and retries some that have failed.
func (r *historyRun) watch() {
	for !r.stopped.Load() {
		jobs := r.history.recentJobs()
		if len(jobs) == 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		id := jobs[rand.IntN(len(jobs))]
		got, at, ok := r.try(adaToken, "GET", "/v2/organizations/acme/jobs/"+id, "")
		var job chaosJob
		if !ok || json.Unmarshal(got.Body, &job) != nil {
			continue
		}
		r.sightings.add(id, sighting{at, job.State})
		switch {
		case job.State == "failed" && !job.Retried && rand.IntN(4) == 0:
			r.act(retrying, id)
		case !job.ended() && rand.IntN(20) == 0:
			r.act(canceling, id)
		}
	}
}

// act cancels or retries a job, and records it.
func (r *historyRun) act(what verb, job string) {
	got, at, _ := r.try(adaToken, "PUT", "/v2/organizations/acme/jobs/"+job+"/"+string(what), "")
	var next struct{ ID string }
	if what == retrying && got.Status == http.StatusOK {
		if err := json.Unmarshal(got.Body, &next); err != nil {
			r.t.Error(err)
		}
	}
	r.history.add(exchange{agent: "a user", verb: what, job: job, text: next.ID, status: got.Status, sent: at.sent, answered: at.answered})
}

// reserve is a stack that reserves a few jobs at a time and leaves them to others when the reservation expires.
func (r *historyRun) reserve(key string) {
	const expiry = time.Second
	registered := false
	for !r.stopped.Load() {
		if !registered {
			got, _, ok := r.try(chaosAgentToken, "POST", "/v3/stacks/register", fmt.Sprintf(`{"key": %q, "type": "custom", "queue_key": "default", "metadata": {}}`, key))
			registered = ok && got.Status < 300
			continue
		}
		var page struct{ Jobs []struct{ ID string } }
		got, _, ok := r.try(chaosAgentToken, "GET", "/v3/stacks/"+key+"/scheduled-jobs?queue_key=default&limit=2&wait=1", "")
		if !ok || json.Unmarshal(got.Body, &page) != nil || len(page.Jobs) == 0 {
			continue
		}
		var ids []string
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		var reply struct{ Reserved []string }
		got, at, ok := r.try(chaosAgentToken, "PUT", "/v3/stacks/"+key+"/scheduled-jobs/batch-reserve",
			fmt.Sprintf(`{"job_uuids": %s, "reservation_expiry_seconds": %d}`, array(ids), int(expiry.Seconds())))
		if ok && json.Unmarshal(got.Body, &reply) == nil {
			r.noteReserved(reply.Reserved, event{who: key, moment: at, until: at.sent.Add(expiry)})
		}
		time.Sleep(expiry / 2)
	}
}

func (r *historyRun) noteReserved(jobs []string, e event) {
	r.reserving.Lock()
	defer r.reserving.Unlock()
	if r.reserved == nil {
		r.reserved = map[string][]event{}
	}
	for _, id := range jobs {
		r.reserved[id] = append(r.reserved[id], e)
	}
}

// checkReservations checks that no one else was given a reserved job, and returns how many reservations there were.
func (r *historyRun) checkReservations() (n int) {
	records := map[string]*jobRecord{}
	for id, reserved := range r.reserved {
		records[id] = &jobRecord{reserved: reserved}
		n += len(reserved)
	}
	for _, c := range r.history.after(0) {
		record := records[c.job]
		if record == nil || !c.acknowledged() {
			continue
		}
		e := event{who: c.agent, moment: moment{c.sent, c.answered}}
		switch {
		case c.verb == pinging:
			record.offered = append(record.offered, e)
		case c.takes():
			record.taken = append(record.taken, e)
		}
	}
	for id, record := range records {
		record.checkReservations(func(format string, args ...any) {
			r.t.Errorf("the job %s %s", id, fmt.Sprintf(format, args...))
		})
	}
	return n
}
