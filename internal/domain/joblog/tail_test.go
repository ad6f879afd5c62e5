package joblog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// An event is a server-sent event.
type event struct{ id, kind, data string }

// follower reads the events of a stream.
type follower struct {
	t      testing.TB
	resp   *http.Response
	events chan event // closed at the end of the stream
	cancel context.CancelFunc
}

// follow opens the stream of a log; more are headers.
func (w *fixture) follow(path string, more ...string) *follower {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", w.URL+path, nil)
	w.WantNoError(err)
	req.Header.Set("Authorization", "Bearer "+servertest.Ada)
	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	w.WantNoError(err)
	f := &follower{t: w.T, resp: resp, events: make(chan event), cancel: cancel}
	w.T.Cleanup(func() {
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

// waitTimeout limits how long a test waits for an event.
const waitTimeout = 20 * time.Second

// next returns the next event; ok is false at the end.
func (f *follower) next() (e event, ok bool) {
	f.t.Helper()
	select {
	case e, ok = <-f.events:
		return e, ok
	case <-time.After(waitTimeout):
		f.t.Fatal("nothing comes")
		return e, false
	}
}

// until reads events until their content is want, and returns the last id.
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

// wantEnd fails the test unless the next event is the end of the log.
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

// replicas connects the bus of the fixture with the bus of the server, as between replicas.
func (w *fixture) replicas() {
	w.T.Helper()
	w.Start()
	w.T.Cleanup(w.Stop)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	connected, unsubscribe := w.bus.Subscribe("connected")
	defer unsubscribe()
	running.Go(func() { w.bus.Run(ctx) })
	w.T.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if w.DB.Shared() {
		<-connected // subscribers are woken then
	}
}

// notifyServer tells the server about a chunk. PostgreSQL does that by itself. With SQLite all chunks go to the
// same process, but this test has two buses.
func (w *fixture) notifyServer(job joblog.Job) {
	w.T.Helper()
	if !w.DB.Shared() {
		w.WantNoError(w.DB.Write(context.Background(), func(q *db.Q) error {
			q.Announce("log:" + job.ID)
			return nil
		}))
	}
}

func TestStream_FollowsALogToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
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
			w.notifyServer(job)
			f.until("töthree")
			w.end(job)
			f.wantEnd(13)
		}
	})
}

func TestStream_ResumesWhereItWasCut(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
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
			w.runDue() // and the same with a sealed log
		}
	})
}

func TestStream_GoesOnWithWhatFollowsADeletion(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
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

// The id of an event has no meaning in another generation of the log: its beginning would be skipped.
func TestStream_ResumedAfterADeletionBeginsWithWhatFollows(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "secret")
		w.WantNoError(w.logs.Delete(t.Context(), job))
		w.add(job, 6, "later, and more")
		w.end(job)
		for id, want := range map[string]string{"6": "later, and more", "1.5": ", and more", "2.5": "later, and more"} {
			var got strings.Builder
			p, _ := joblog.ParsePosition(id)
			_, err := w.logs.Tail(t.Context(), job, p, func(_ joblog.Position, content []byte) error {
				got.Write(content)
				return nil
			}, func() error { return nil })
			w.WantNoError(err)
			if got.String() != want {
				t.Errorf("after %s comes %q, want %q", id, got.String(), want)
			}
		}
	})
}

// A reader resumes a stream that ends without an end event; the stream says after which time.
func TestStream_EndsWhenTheServerDrains(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
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

// grantBo adds a token of Bo and a team that gives him access to hello.
func (w *fixture) grantBo(token string) {
	w.T.Helper()
	w.Apply(`
organizations:
  - slug: acme
    features: {teams: true}
    members: [{email: bo@acme.test, access_tokens: [{description: stream, token: ` + token + `, scopes: ["*"]}]}]
    teams: [{name: Readers, slug: readers, members: [bo@acme.test]}]
    pipelines: [{slug: hello, teams: {readers: read_only}}]
`)
}

// wantCut fails the test unless the stream ends before the log does.
func (f *follower) wantCut(why string) {
	f.t.Helper()
	if e, ok := f.next(); ok {
		f.t.Errorf("after %s there is %v", why, e)
	}
}

// Nothing is printed while these streams end.
func TestStream_EndsWhenTheCallerLosesAccess(t *testing.T) {
	const token = "svcua_stream"
	for why, lose := range map[string]func(w *fixture){
		"revoking the token": func(w *fixture) {
			w.As(w.T, token).Delete("/v2/access-token").Want(http.StatusNoContent)
		},
		"removing the pipeline from the team": func(w *fixture) {
			w.As(w.T, servertest.Ada).Delete("/v2/organizations/acme/teams/readers/pipelines/" + servertest.AcmePipelineID).Want(http.StatusNoContent)
		},
		"removing the member from the team": func(w *fixture) {
			w.As(w.T, servertest.Ada).Delete("/v2/organizations/acme/teams/readers/members/" + servertest.BoID).Want(http.StatusNoContent)
		},
		"removing the member": func(w *fixture) {
			w.As(w.T, servertest.Ada).Delete("/v2/organizations/acme/members/" + servertest.BoID).Want(http.StatusNoContent)
		},
		"deleting the pipeline": func(w *fixture) {
			w.As(w.T, servertest.Ada).Delete("/v2/organizations/acme/pipelines/hello").Want(http.StatusNoContent)
		},
	} {
		t.Run(why, func(t *testing.T) {
			each(t, func(t *testing.T, w *fixture) {
				w.grantBo(token)
				job := w.run()
				w.add(job, 0, "one, ")
				f := w.follow(w.paths(job)[0]+"/stream", "Authorization", "Bearer "+token)
				f.until("one, ")
				lose(w)
				f.wantCut(why)
			})
		})
	}
}

func TestStream_OfAVisitorEndsWhenThePipelineIsPrivate(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		ada := w.As(t, servertest.Ada)
		ada.Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"visibility": "public"}).Want(http.StatusOK)
		job := w.run()
		w.add(job, 0, "one, ")
		f := w.follow(w.paths(job)[0]+"/stream", "Authorization", "Bearer "+servertest.Cy)
		f.until("one, ")
		ada.Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"visibility": "private"}).Want(http.StatusOK)
		f.wantCut("making the pipeline private")
	})
}

// Another program changes the server's database without waking anything in the server.
func TestStream_FindsOutByItselfThatAccessIsLost(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d, func(p *server.Parts) { p.CheckAccessEvery = 10 * time.Millisecond })
		s.Apply(servertest.World)
		w := newFixture(t, s, s.Blobs)
		w.grantBo("svcua_stream")
		job := w.run()
		w.add(job, 0, "one, ")
		f := w.follow(w.paths(job)[0]+"/stream", "Authorization", "Bearer svcua_stream")
		f.until("one, ")
		w.WantNoError(d.Write(t.Context(), func(q *db.Q) error {
			if _, err := q.Exec(`DELETE FROM access_tokens WHERE description = 'stream'`); err != nil {
				return err
			}
			_, err := q.Exec(`UPDATE identity_epoch SET epoch = epoch + 1`)
			return err
		}))
		s.Clock.Advance(time.Second)
		f.wantCut("deleting the token")
	})
}

// Idle streams share one small read.
func TestStream_ThatIsIdleReadsNothingButTheEpoch(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d, func(p *server.Parts) { p.CheckAccessEvery = time.Millisecond })
		s.Apply(servertest.World)
		w := newFixture(t, s, s.Blobs)
		job := w.run()
		w.add(job, 0, "one, ")
		for range 5 {
			f := w.follow(w.paths(job)[0] + "/stream")
			f.until("one, ")
		}
		looked := make(chan struct{}, 1000)
		var checks atomic.Int64
		d.OnStatement(func(text string, _ []any) {
			switch {
			case strings.Contains(text, "FROM identity_epoch"):
				looked <- struct{}{}
			case strings.Contains(text, "FROM pipelines") || strings.Contains(text, "FROM access_tokens"):
				checks.Add(1)
			}
		})
		for range 3 {
			s.Clock.Advance(time.Second)
			<-looked
		}
		if checks.Load() > 0 {
			t.Errorf("idle streams have checked access with %d reads", checks.Load())
		}
	})
}

func TestStream_OfALargeLogComesInBoundedEvents(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
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
