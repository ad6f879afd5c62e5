package joblog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/db"
	"stackyard/internal/joblog"
	"stackyard/internal/server/servertest"
)

// An event is a server-sent one.
type event struct{ id, kind, data string }

// follower reads the events of a stream.
type follower struct {
	t      testing.TB
	resp   *http.Response
	events chan event // closed at the end of the stream
	cancel context.CancelFunc
}

// follow opens the stream of a log; more are headers.
func (w *world) follow(path string, more ...string) *follower {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", w.URL+path, nil)
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+servertest.Ada)
	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	w.ok(err)
	f := &follower{t: w.t, resp: resp, events: make(chan event), cancel: cancel}
	w.t.Cleanup(func() {
		cancel()
		resp.Body.Close()
	})
	go f.read(ctx)
	return f
}

func (f *follower) read(ctx context.Context) {
	defer close(f.events)
	var e event
	lines := bufio.NewScanner(f.resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" {
				select {
				case f.events <- e:
				case <-ctx.Done():
					return
				}
			}
			e = event{}
		}
	}
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// next returns the next event; ok is false at the end.
func (f *follower) next() (e event, ok bool) {
	f.t.Helper()
	select {
	case e, ok = <-f.events:
		return e, ok
	case <-time.After(patience):
		f.t.Fatal("nothing comes")
		return e, false
	}
}

// until collects the content of events until there is as much as wanted, and returns the last id.
func (f *follower) until(want string) (id string) {
	f.t.Helper()
	var got strings.Builder
	for got.Len() < len(want) {
		e, ok := f.next()
		if !ok || e.kind != "log" {
			f.t.Fatalf("after %q there is %v", got.String(), e)
		}
		var data struct {
			Offset  int
			Content string
		}
		if err := json.Unmarshal([]byte(e.data), &data); err != nil {
			f.t.Fatal(err)
		}
		got.WriteString(data.Content)
		id = e.id
	}
	if got.String() != want {
		f.t.Errorf("got %q, want %q", got.String(), want)
	}
	return id
}

// wantEnd fails the test unless the log ends now.
func (f *follower) wantEnd(size int) {
	f.t.Helper()
	e, _ := f.next()
	if want := fmt.Sprintf(`{"size":%d}`, size); e.kind != "end" || e.data != want {
		f.t.Errorf("the end is %v, want %s", e, want)
	}
	if e, ok := f.next(); ok {
		f.t.Errorf("after the end there is %v", e)
	}
}

// replicas has the world and the server hear of each other's chunks, as replicas do.
func (w *world) replicas() {
	w.t.Helper()
	w.Start()
	w.t.Cleanup(w.Stop)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	connected, unsubscribe := w.bus.Subscribe("connected")
	defer unsubscribe()
	running.Go(func() { w.bus.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if w.DB.Shared() {
		<-connected // everybody is woken then
	}
}

// told has the server hear of a chunk. On PostgreSQL it does by itself; on SQLite all chunks go to the same
// process, but here there are two buses.
func (w *world) told(job joblog.Job) {
	w.t.Helper()
	if !w.DB.Shared() {
		w.ok(w.DB.Write(context.Background(), func(q *db.Q) error {
			q.Announce("log:" + job.ID)
			return nil
		}))
	}
}

func TestStream_FollowsALogToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.replicas()
		for i := range 2 {
			job := w.run()
			path := strings.Replace(w.paths(job)[i], "builds/1/", "builds/"+fmt.Sprint(i+1)+"/", 1) + "/stream"
			w.add(job, 0, "one, ")
			f := w.follow(path)
			if f.resp.StatusCode != 200 || f.resp.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("%d %v", f.resp.StatusCode, f.resp.Header)
			}
			if id := f.until("one, "); id != "5" {
				t.Errorf("the id is %s", id)
			}
			w.add(job, 8, "three")
			w.add(job, 5, "tö"[:2])
			w.add(job, 7, "tö"[2:])
			w.told(job)
			f.until("töthree")
			w.end(job)
			f.wantEnd(13)
		}
	})
}

func TestStream_ResumesWhereItWasCut(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.run()
		w.add(job, 0, "one, two, three")
		w.end(job)
		for range 2 {
			for _, path := range w.paths(job) {
				f := w.follow(path+"/stream", "Last-Event-ID", "5")
				f.until("two, three")
				f.wantEnd(15)
				f = w.follow(path + "/stream?offset=10")
				f.until("three")
				f.wantEnd(15)
				f = w.follow(path+"/stream?offset=3", "Last-Event-ID", "15")
				f.wantEnd(15)
				w.follow(path + "/stream?offset=1000").wantEnd(15)
				for _, bad := range []string{"-1", "x", "1.5", "99999999999999999999"} {
					w.As(t, servertest.Ada).Get(path + "/stream?offset=" + bad).Want(http.StatusBadRequest)
				}
			}
			w.runDue() // and then the same of a log that is sealed
		}
	})
}

func TestStream_GoesOnWithWhatFollowsADeletion(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.run()
		w.add(job, 0, "secret")
		f := w.follow(w.paths(job)[0] + "/stream")
		f.until("secret")
		w.As(t, servertest.Ada).Delete(w.paths(job)[0]).Want(http.StatusNoContent)
		w.add(job, 6, "later")
		f.until("later")
		w.end(job)
		f.wantEnd(5)
	})
}

// An event's id means nothing in another generation of the log, whose beginning would be skipped.
func TestStream_ResumedAfterADeletionBeginsWithWhatFollows(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.run()
		w.add(job, 0, "secret")
		w.ok(w.logs.Delete(t.Context(), job))
		w.add(job, 6, "later, and more")
		w.end(job)
		for id, want := range map[string]string{"6": "later, and more", "1.5": ", and more", "2.5": "later, and more"} {
			var got strings.Builder
			p, _ := joblog.ParsePosition(id)
			_, err := w.logs.Tail(t.Context(), job, p, func(_ joblog.Position, content []byte) error {
				got.Write(content)
				return nil
			}, func() error { return nil })
			w.ok(err)
			if got.String() != want {
				t.Errorf("after %s comes %q, want %q", id, got.String(), want)
			}
		}
	})
}

// A stream that ends without an event that says so is resumed by its reader, which is told when.
func TestStream_EndsWhenTheServerDrains(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.run()
		w.add(job, 0, "one, ")
		f := w.follow(w.paths(job)[0] + "/stream")
		f.until("one, ")
		w.Server.Drain()
		if e, ok := f.next(); ok {
			t.Errorf("there is %v", e)
		}
	})
}

func TestStream_OfALargeLogComesInBoundedEvents(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		job := w.run()
		content := strings.Repeat("日本語\n", 100_000)
		for at := 0; at < len(content); at += 99_999 {
			w.add(job, int64(at), content[at:min(at+99_999, len(content))])
		}
		w.end(job)
		f := w.follow(w.paths(job)[0] + "/stream")
		var got strings.Builder
		for {
			e, _ := f.next()
			if e.kind == "end" {
				break
			}
			var data struct{ Content string }
			if err := json.Unmarshal([]byte(e.data), &data); err != nil || len(data.Content) > 64<<10 {
				t.Fatalf("%d bytes, %v", len(data.Content), err)
			}
			got.WriteString(data.Content)
		}
		if got.String() != content {
			t.Errorf("%d bytes came, want %d", got.Len(), len(content))
		}
	})
}
