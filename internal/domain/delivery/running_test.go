package delivery_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A receiver that does not answer delays no other: these tests wait until everything has arrived elsewhere while the
// requests of the others hang.
func TestSend_ToAReceiverThatHangsDelaysNoOther(t *testing.T) {
	eachRunning(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		defer close(release)
		hanging := make(chan struct{}, 1000)
		dead := newReceiver(t)
		dead.respond(func(*request) (int, http.Header) {
			hanging <- struct{}{}
			<-release
			return 200, nil
		})
		const deadServices, builds = 20, 10 // more than tasks of most kinds run at the same time
		for range deadServices {
			w.ada.Post(services, fields{"provider": "webhook", "settings": fields{"url": dead.URL, "events": []string{"build.scheduled"}}}).Want(201)
		}
		for range deadServices {
			<-hanging
		}
		arrived := make(chan string, 1000)
		w.receiver.respond(func(r *request) (int, http.Header) {
			arrived <- r.Get("X-Service-Event")
			return 200, nil
		})
		w.ada.Post(services, fields{"provider": "webhook", "settings": fields{"url": w.receiver.URL, "events": []string{"build.scheduled"}}}).Want(201)
		for range builds {
			w.build(nil)
		}
		for range 1 + builds { // the ping, too
			<-arrived
		}
	})
}

// Random failures of the receiver: every event is answered with success exactly once, in the order of its build.
func TestProperty_EveryEventArrivesOnceAndInOrder(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook("build.scheduled", "build.running", "build.finished", "job.scheduled", "job.started", "job.finished")
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		accepted := map[string]bool{}    // delivery ids
		byBuild := map[string][]string{} // events that were accepted, by build
		w.receiver.respond(func(r *request) (int, http.Header) {
			mu.Lock()
			defer mu.Unlock()
			switch random.IntN(8) {
			case 0:
				return 500, nil
			case 1:
				return 429, http.Header{"Retry-After": {"1"}}
			case 2:
				return 408, nil
			}
			id := r.Get("X-Service-Delivery")
			if accepted[id] {
				t.Errorf("delivery %s was sent again after it was accepted", id)
			}
			accepted[id] = true
			build := r.at("build.id").(string)
			byBuild[build] = append(byBuild[build], r.Get("X-Service-Event"))
			return 200, nil
		})
		agent := w.Register(t, nil)
		const builds = 12
		for range builds {
			build := w.build(nil, "{command: a}")
			agent.Acquire(build.String("jobs.0.id")).Start().Finish("0")
			if random.IntN(2) == 0 {
				w.runDue()
			}
		}
		for range 60 {
			w.runDue()
			w.Clock.Advance(15 * time.Minute)
		}
		want := []string{"build.scheduled", "job.scheduled", "build.running", "job.started", "job.finished", "build.finished"}
		if len(byBuild) != builds {
			t.Errorf("events of %d builds arrived, want %d", len(byBuild), builds)
		}
		for build, got := range byBuild {
			if !slices.Equal(got, want) {
				t.Errorf("build %s: %q, want %q", build, got, want)
			}
		}
	})
}

// Two servers share the work: each event is sent once.
func TestReplicas_SendEachEventOnce(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here := startRunning(t, dbtest.Open(t, url))
	there := startRunning(t, dbtest.Open(t, url), func(p *server.Parts) { p.Key = here.Key })
	const builds = 30
	arrived, agents := make(chan string, 10*builds), make(chan struct{}, 1000)
	here.receiver.respond(func(r *request) (int, http.Header) {
		switch r.Get("X-Service-Event") {
		case "build.scheduled":
			arrived <- fmt.Sprint(r.at("build.id"))
		case "agent.connected":
			agents <- struct{}{}
		}
		return 200, nil
	})
	here.ada.Post(services, fields{"provider": "webhook", "settings": fields{"url": here.receiver.URL, "events": []string{"build.scheduled", "agent.connected"}}}).Want(201)
	for known := false; !known; { // the other replica learns of the service a moment later
		there.Register(t, nil)
		select {
		case <-agents:
			known = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	var creating sync.WaitGroup
	for i := range builds {
		w := []*world{here, there}[i%2]
		creating.Go(func() { w.build(nil) })
	}
	creating.Wait()
	seen := map[string]bool{}
	for range builds {
		seen[<-arrived] = true
	}
	if len(seen) != builds {
		t.Errorf("events of %d builds arrived, want %d", len(seen), builds)
	}
	if n := len(arrived); n != 0 {
		t.Errorf("%d requests too many", n)
	}
}

// eachRunning runs a test on each engine against a server that works in the background, in real time.
func eachRunning(t *testing.T, fn func(t *testing.T, w *world)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { fn(t, startRunning(t, d)) })
}

func startRunning(t *testing.T, d *db.DB, change ...func(*server.Parts)) *world {
	t.Helper()
	s := servertest.Start(t, d, append(change, func(p *server.Parts) { p.Clock = core.SystemClock })...)
	s.Apply(servertest.World)
	s.Server.Start()
	t.Cleanup(s.Stop)
	return &world{Server: s, t: t, ada: s.As(t, servertest.Ada), receiver: newReceiver(t)}
}
