package delivery_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// advanceToNextAttempt moves the clock to the next attempt of the newest delivery of a service, and sends.
func (w *world) advanceToNextAttempt(service string) time.Duration {
	w.t.Helper()
	at, err := time.Parse(time.RFC3339, w.deliveries(service).String("items.0.next_attempt_at"))
	if err != nil {
		w.t.Fatal(err)
	}
	wait := at.Sub(w.Clock.Now()) + time.Millisecond // responses cut off microseconds
	w.Clock.Advance(wait)
	w.runDue()
	return wait
}

func TestSend_RetriesWithTheSameID(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respondWith(503)
		w.build(nil)
		w.runDue()
		first := w.receiver.take()
		if len(first) != 1 {
			t.Fatalf("%d requests, want 1", len(first))
		}
		w.runDue()
		w.receiver.wantEvents()
		servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "pending", "items.0.attempts": 1, "items.0.status": 503, "items.0.error": "the receiver answered with status 503"})
		var waits []time.Duration
		for range 5 {
			waits = append(waits, w.advanceToNextAttempt(id))
			again := w.receiver.take()
			if len(again) != 1 || again[0].Get("X-Service-Delivery") != first[0].Get("X-Service-Delivery") {
				t.Fatalf("%d requests, want 1 with the same id", len(again))
			}
		}
		if waits[0] > 6*time.Second || waits[4] < 4*waits[0] {
			t.Errorf("waits %v do not grow from 5s", waits)
		}
		w.receiver.respondWith(202)
		w.advanceToNextAttempt(id)
		servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "delivered", "items.0.attempts": 7, "items.0.status": 202, "items.0.error": nil, "items.0.next_attempt_at": nil})
	})
}

func TestSend_FailsAtOnceWhereAnotherAttemptWouldEndTheSame(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		for _, status := range []int{400, 401, 404, 410, 422} {
			w.receiver.respondWith(status)
			w.build(nil)
			w.runDue()
			w.receiver.wantEvents("build.scheduled")
			servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "failed", "items.0.attempts": 1, "items.0.status": status})
		}
		w.receiver.respond(func(*request) (int, http.Header) { return 302, http.Header{"Location": {w.receiver.URL + "/next"}} })
		w.build(nil)
		w.runDue()
		w.receiver.wantEvents("build.scheduled")
		servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "failed", "items.0.error": "the receiver answered with status 302; redirects are not followed"})
	})
}

func TestSend_KeepsTheOrderOfEachBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook("build.scheduled", "build.running", "build.finished")
		w.receiver.respond(func(r *request) (int, http.Header) {
			if r.at("build.number") == 1.0 {
				return 500, nil
			}
			return 200, nil
		})
		w.finish(w.build(nil), "0")
		w.finish(w.build(nil), "0")
		w.runDue()
		received := func() (got []string) {
			for _, r := range w.receiver.take() {
				got = append(got, fmt.Sprint(r.at("build.number"), " ", r.Get("X-Service-Event")))
			}
			return got
		}
		got := received()
		ofFirst := slices.DeleteFunc(slices.Clone(got), func(text string) bool { return text[0] != '1' })
		ofSecond := slices.DeleteFunc(slices.Clone(got), func(text string) bool { return text[0] != '2' })
		if want := []string{"1 build.scheduled"}; !slices.Equal(ofFirst, want) {
			t.Errorf("of the first build %q, want %q", ofFirst, want)
		}
		if want := []string{"2 build.scheduled", "2 build.running", "2 build.finished"}; !slices.Equal(ofSecond, want) {
			t.Errorf("of the second build %q, want %q", ofSecond, want)
		}
		w.receiver.respondWith(200)
		w.Clock.Advance(time.Minute)
		w.runDue()
		if got, want := received(), []string{"1 build.scheduled", "1 build.running", "1 build.finished"}; !slices.Equal(got, want) {
			t.Errorf("after the retry %q, want %q", got, want)
		}
	})
}

func TestSend_WaitsAsLongAsTheReceiverAsks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook("build.scheduled")
		w.receiver.respond(func(*request) (int, http.Header) { return 429, http.Header{"Retry-After": {"600"}} })
		w.build(nil)
		w.runDue()
		w.receiver.wantEvents("build.scheduled")
		w.receiver.respondWith(200)
		w.build(nil)
		w.Clock.Advance(9 * time.Minute)
		w.runDue()
		w.receiver.wantEvents() // neither of them
		w.Clock.Advance(time.Minute)
		w.runDue()
		w.receiver.wantEvents("build.scheduled", "build.scheduled")
	})
}

func TestSend_CostsOneRequestForEachRestOfAReceiverThatDoesNotAnswer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respond(func(*request) (int, http.Header) { panic(http.ErrAbortHandler) }) // closes the connection
		for range 20 {
			w.build(nil)
		}
		w.runDue()
		if n := len(w.receiver.take()); n > 2*8 { // the client repeats a request when a kept connection ends under it
			t.Errorf("%d requests at first, want 8 at most at the same time", n)
		}
		for step := range 4 {
			w.build(nil)
			w.runDue()
			w.receiver.wantEvents() // new events do not wake it
			w.Clock.Advance(20 * time.Minute)
			w.runDue()
			if n := len(w.receiver.take()); n != 1 {
				t.Errorf("%d requests in step %d, want 1", n, step)
			}
		}
		w.receiver.respondWith(200)
		w.Clock.Advance(20 * time.Minute)
		w.runDue()
		if n := len(w.receiver.take()); n < 20 {
			t.Errorf("%d requests after it answers again, want all", n)
		}
		w.Clock.Advance(2 * time.Hour)
		w.runDue()
		list := w.ada.Get(services + "/" + id + "/deliveries?per_page=100").Want(200)
		for i := range list.Len("items") {
			servertest.WantAt(t, list, fields{fmt.Sprintf("items.%d.state", i): "delivered"})
		}
	})
}

func TestSend_BreaksAReceiverThatFailsForADay(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respondWith(500)
		w.build(nil)
		for range 30 {
			w.runDue()
			w.Clock.Advance(time.Hour)
		}
		service := w.ada.Get(services + "/" + id).Want(200)
		servertest.WantAt(t, service, fields{"enabled": false, "broken.reason": "the receiver answered with status 500"})
		servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "failed"})
		w.receiver.take()

		w.build(nil)
		w.runDue()
		w.receiver.wantEvents()
		if n := len(w.Events(t)); n != 1 {
			t.Errorf("%d events, want only the first: no service wants others", n)
		}
		w.receiver.respondWith(200)
		servertest.WantAt(t, w.ada.Put(services+"/"+id+"/enable", nil).Want(200), fields{"enabled": true})
		w.build(nil)
		w.runDue()
		w.receiver.wantEvents("build.scheduled")
	})
}

func TestSend_GivesUpAfterADayWithoutBreakingAReceiverThatAnswersOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respond(func(r *request) (int, http.Header) {
			if r.at("build.number") == 1.0 {
				return 500, nil
			}
			return 200, nil
		})
		w.build(nil)
		for range 26 {
			w.build(nil)
			w.runDue()
			w.Clock.Advance(time.Hour)
		}
		w.runDue()
		servertest.WantAt(t, w.ada.Get(services+"/"+id).Want(200), fields{"enabled": true})
		list := w.ada.Get(services + "/" + id + "/deliveries?per_page=100").Want(200)
		oldest := fmt.Sprintf("items.%d.", list.Len("items")-2) // the oldest is the ping
		servertest.WantAt(t, list, fields{oldest + "state": "failed", oldest + "status": 500})
	})
}

func TestSend_StopsWhenTheServiceIsDisabledOrDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respondWith(500)
		w.build(nil)
		w.runDue()
		w.receiver.take()
		w.receiver.respondWith(200)
		w.ada.Put(services+"/"+id+"/disable", nil).Want(200)
		w.build(nil)
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.receiver.wantEvents()
		servertest.WantAt(t, w.deliveries(id), fields{"items.0.state": "failed", "items.0.error": "the notification service was disabled"})
		w.ada.Put(services+"/"+id+"/enable", nil).Want(200)
		w.runDue()
		w.receiver.wantEvents()

		w.receiver.respondWith(500)
		w.build(nil)
		w.runDue()
		w.receiver.take()
		w.ada.Delete(services + "/" + id).Want(204)
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.receiver.wantEvents()
		for _, table := range []string{"deliveries", "delivery_failures"} {
			if n := w.count(table); n != 0 {
				t.Errorf("%d rows in %s, want none", n, table)
			}
		}
	})
}

func TestSend_KeepsTheLast100(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.webhook("job.scheduled")
		w.build(nil, "{command: a, parallelism: 130}")
		w.runDue()
		if n := len(w.receiver.take()); n != 130 {
			t.Errorf("%d requests, want 130", n)
		}
		if n := w.count("deliveries"); n != 100 {
			t.Errorf("%d deliveries are kept, want 100", n)
		}
	})
}

func TestSend_StartsOverWhenTheSettingsChange(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respond(func(r *request) (int, http.Header) {
			if r.Path == "/right" {
				return 200, nil
			}
			return 429, http.Header{"Retry-After": {"3600"}}
		})
		w.build(nil)
		w.runDue()
		w.receiver.wantEvents("build.scheduled")
		w.ada.Patch(services+"/"+id, fields{"settings": fields{"url": w.receiver.URL + "/right"}}).Want(200)
		w.runDue()
		got := w.receiver.events()
		slices.Sort(got)
		if want := []string{"build.scheduled", "ping"}; !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
	})
}
