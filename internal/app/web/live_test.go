package web_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// events reads server-sent events.
type events struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (v *visitor) listen(path, last string) *events {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), "GET", v.url+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		v.t.Fatalf("%s: %s %v", path, resp.Status, resp.Header)
	}
	e := &events{v.t, bufio.NewScanner(resp.Body)}
	e.lines.Buffer(nil, 8<<20)
	return e
}

// next returns the next event: its id, name and data. They are empty at the end.
func (e *events) next() (id, name, data string) {
	e.t.Helper()
	for e.lines.Scan() {
		field, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		case "":
			if name != "" {
				return id, name, data
			}
		}
	}
	return "", "", ""
}

func TestLive_ReportsWhatThePageDoesNotKnow(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {label: Bake, command: make bake}]`)
		thresh, bake := r.jobs("Thresh")[0].ID, r.jobs("Bake")[0].ID
		ada := signIn(t, s, "ada@acme.test")
		page := ada.get(r.Path).want(200)
		live := strings.TrimPrefix(page.find(`data-live="([^"]*)"`), s.URL) + "&seen=" + page.find(`data-seen="([^"]*)"`)
		e := ada.listen(live, "")
		j := s.Register(t, nil).Acquire(thresh)
		id, name, data := e.next()
		if name != "parts" || !strings.Contains(data, `{"id":"`+thresh) || strings.Contains(data, `{"id":"`+bake) || strings.Contains(data, `{"id":"build-jobs"`) || !strings.Contains(data, `{"id":"build-head"`) {
			t.Fatalf("the page got %s %s", name, data)
		}
		// A page that reconnects gets only what it missed.
		j.Start().Finish("0")
		if _, _, data := ada.listen(live, id).next(); !strings.Contains(data, "Passed") {
			t.Errorf("a page that comes back got %s", data)
		}
		s.Drain()
		for {
			if _, name, _ := e.next(); name == "" {
				break
			}
		}
	})
}

func TestLive_EndsForThoseWhoMayNotLookAnyMore(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	bo := signIn(t, s, "bo@acme.test")
	e := bo.listen(r.Path+"/live?page=1", "")
	if _, name, _ := e.next(); name != "parts" {
		t.Fatalf("a page of which nothing is known got %s", name)
	}
	s.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
	if _, name, data := e.next(); name != "" {
		t.Errorf("they got %s %s", name, data)
	}
}

// Nothing happens to the build meanwhile.
func TestLive_EndsWithTheSession(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		for why, end := range map[string]func(bo *visitor){
			"signing out": func(bo *visitor) { bo.post("/logout").wantRedirect("/login") },
			"signing out elsewhere": func(bo *visitor) {
				other := signIn(t, s, "bo@acme.test")
				other.post("/settings/sessions/end-others").wantRedirect("/settings/sessions")
			},
		} {
			bo := signIn(t, s, "bo@acme.test")
			e := bo.listen(r.Path+"/live?page=1", "")
			e.next()
			end(bo)
			if _, name, data := e.next(); name != "" {
				t.Errorf("after %s they got %s %s", why, name, data)
			}
		}
	})
}

func TestLive_EndsWhenTheTeamLosesAccess(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		share(t, s, "read_only")
		e := signIn(t, s, "bo@acme.test").listen(r.Path+"/live?page=1", "")
		e.next()
		s.As(t, servertest.Ada).Delete("/v2/organizations/acme/teams/bakers/pipelines/" + servertest.AcmePipelineID).Want(204)
		if _, name, data := e.next(); name != "" {
			t.Errorf("they got %s %s", name, data)
		}
	})
}

// A viewer who sees a public build only as a visitor continues with the reduced view.
func TestLive_OfAPublicBuildGoesOnForVisitors(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {command: make secret}]`)
	s.As(t, servertest.Ada).Patch("/v2/organizations/acme/pipelines/hello", map[string]any{"visibility": "public"}).Want(200)
	ada := signIn(t, s, "ada@acme.test")
	e := ada.listen(r.Path+"/live?page=1", "")
	if _, _, data := e.next(); !strings.Contains(data, "make secret") {
		t.Fatalf("a member got %s", data)
	}
	ada.post("/logout").wantRedirect("/login")
	if _, name, data := e.next(); name != "parts" || strings.Contains(data, "make secret") || strings.Contains(data, "Rebuild") {
		t.Errorf("a visitor got %s %s", name, data)
	}
}

func TestLive_IsBoundedForEachPerson(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	ada := signIn(t, s, "ada@acme.test")
	for range 100 {
		ada.listen(r.Path+"/live?page=1", "")
	}
	ada.get(r.Path+"/live?page=1").want(429, "Too many live pages open")
	signIn(t, s, "bo@acme.test").listen(r.Path+"/live?page=1", "")
}

// An open stream costs nothing while its build does not change.
func TestLive_LooksOnlyWhenSomethingHappened(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		var looks atomic.Int64
		s.DB.OnStatement(func(text string, _ []any) {
			if strings.Contains(text, "SUM(updated_at") {
				looks.Add(1)
			}
		})
		annotate := func(number int) {
			s.As(t, servertest.Ada).Post(fmt.Sprintf("%s/%d/annotations", helloPath, number), map[string]any{"body": "a note"}).Want(201)
		}
		e := signIn(t, s, "ada@acme.test").listen(r.Path+"/live?page=1", "")
		e.next()
		annotate(build(t, s, `steps: [{label: Thresh, command: make thresh}]`).Number)
		annotate(r.Number)
		if _, name, data := e.next(); name != "parts" || !strings.Contains(data, "a note") || looks.Load() != 2 {
			t.Errorf("after %d looks the page got %s %s", looks.Load(), name, data)
		}
	})
}

// Another replica changes the build and dies before it notifies this one.
func TestLive_ReportsWhatAnotherReplicaDidNotNotifyOf(t *testing.T) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			s := servertest.Start(t, dbtest.Open(t, url))
			s.Apply(servertest.World)
			prepare(t, s)
			r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
			apart := servertest.Start(t, dbtest.Open(t, url), func(p *server.Parts) { p.Key, p.Blobs, p.Clock = s.Key, s.Blobs, s.Clock.Now })
			ada := signIn(t, s, "ada@acme.test")
			page := ada.get(r.Path).want(200)
			live := strings.TrimPrefix(page.find(`data-live="([^"]*)"`), s.URL) + "&seen=" + page.find(`data-seen="([^"]*)"`)
			e := ada.listen(live, "")
			if err := s.RunDue(t.Context()); err != nil { // knows the open page from now on
				t.Fatal(err)
			}
			apart.Register(t, nil).Acquire(r.jobs("Thresh")[0].ID).Start()
			if err := s.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, name, data := e.next(); name != "parts" || !strings.Contains(data, "Running") {
				t.Errorf("the page got %s %s", name, data)
			}
		})
	}
}

// All viewers of a page with the same permissions share one read of each change.
func TestLive_ViewersShareWhatIsRead(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		const viewers = 200 // a person can have 100 streams
		id := r.jobs("Thresh")[0].ID
		live := r.Path + "/live?job=" + id
		var streams []*events
		for _, email := range []string{"ada@acme.test", "bo@acme.test"} {
			v := signIn(t, s, email)
			for range viewers / 2 {
				e := v.listen(live, "")
				e.next() // the page
				e.next() // its log
				streams = append(streams, e)
			}
		}
		var statements atomic.Int64
		s.DB.OnStatement(func(text string, _ []any) {
			if strings.Contains(text, "MIN(j.position)") || strings.Contains(text, "log_pieces") && strings.HasPrefix(strings.TrimSpace(text), "SELECT") {
				statements.Add(1)
			}
		})
		j := s.Register(t, nil).Acquire(id).Start()
		appendLog(t, j, 1, 0, "a line for all\n")
		for _, e := range streams {
			for {
				_, name, data := e.next()
				if name == "" {
					t.Fatal("a stream has ended")
				}
				if name == "log" && strings.Contains(data, "a line for all") {
					break
				}
			}
		}
		if n := statements.Load(); n > viewers {
			t.Errorf("%d viewers needed %d reads of the build and its log", viewers, n)
		}
	})
}
