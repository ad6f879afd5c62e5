package web_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// follow opens the stream of a page as its script does.
func (v *visitor) follow(path string) *events {
	v.t.Helper()
	p := v.get(path).want(200)
	return v.listen(strings.ReplaceAll(p.find(`data-live="([^"]*)"`), "&amp;", "&")+"&seen="+p.find(`data-seen="([^"]*)"`), "")
}

// await reads events until one contains a text.
func (e *events) await(what, text string) {
	e.t.Helper()
	for {
		_, name, data := e.next()
		if name == "" {
			e.t.Fatalf("%s: the stream ended before %q", what, text)
		}
		if strings.Contains(data, text) {
			return
		}
	}
}

// A page that one replica serves shows what happens on the other.
func TestLists_ShowWhatHappensOnAnotherReplica(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	s := servertest.Start(t, dbtest.Open(t, url), func(p *server.Parts) { p.Clock = core.SystemClock })
	s.Apply(servertest.World)
	prepare(t, s)
	s.Server.Start()
	t.Cleanup(s.Server.Stop)
	other := servertest.Start(t, dbtest.Open(t, url), func(p *server.Parts) { p.Key, p.Blobs, p.Clock = s.Key, s.Blobs, core.SystemClock })
	other.Server.Start()
	t.Cleanup(other.Server.Stop)
	showsLive(t, s, other)
}

func TestLists_ShowWhatHappens(t *testing.T) {
	s := onSQLite(t)
	showsLive(t, s, s)
}

// showsLive follows pages of one server while builds run on another.
func showsLive(t *testing.T, s, other *servertest.Server) {
	r := build(t, other, `steps: [{label: Thresh, command: make thresh}]`)
	ada := signIn(t, s, "ada@acme.test")
	queue := fmt.Sprintf("/organizations/acme/clusters/%s/queues/%s", servertest.AcmeClusterID, other.As(t, servertest.Ada).Get("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID).String("default_queue_id"))
	streams := map[string]*events{}
	for _, path := range []string{"/", "/acme", "/acme/hello", "/acme/hello?branch=main", "/acme/hello/commits/2f1c8a0e55d1b1f7c9a4e8d3b6f5a4c3d2e1f0a9", "/organizations/acme/builds", "/organizations/acme/agents", queue, r.Path + "/graph", r.Path + "/waterfall", r.Path + "/artifacts"} {
		streams[path] = ada.follow(path)
	}
	a := other.Register(t, map[string]any{"name": "harvester-7"})
	j := r.take(a, "Thresh")
	for path, text := range map[string]string{
		"/": "Running", "/acme": "Running", "/acme/hello": "Running", "/acme/hello?branch=main": "Running", "/acme/hello/commits/2f1c8a0e55d1b1f7c9a4e8d3b6f5a4c3d2e1f0a9": "Running", "/organizations/acme/builds": "Running",
		"/organizations/acme/agents": "harvester-7", queue: "harvester-7", r.Path + "/graph": "1 running", r.Path + "/waterfall": "Thresh", r.Path + "/artifacts": "Running",
	} {
		streams[path].await(path, text)
	}
	j.Finish("0")
	streams["/acme"].await("/acme", "Passed")
	streams["/acme/hello"].await("/acme/hello", "Passed")
	if s == other {
		return
	}
	// A pause of the queue, and a new pipeline.
	other.As(t, servertest.Ada).Post("/v2"+queue+"/pause_dispatch", map[string]any{"dispatch_paused_note": "moving machines"}).Want(200)
	streams[queue].await(queue, "moving machines")
}

// Viewers of a list with the same permissions share what is read, and those who lose access are not sent more.
func TestLists_AreReadOnceForAllViewers(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	bo := signIn(t, s, "bo@acme.test")
	const viewers = 40
	var streams []*events
	for range viewers {
		streams = append(streams, bo.follow("/acme/hello"))
	}
	home := bo.follow("/")
	var reads atomic.Int64
	s.DB.OnStatement(func(text string, _ []any) {
		if strings.Contains(text, "FROM builds") && strings.Contains(text, "LIMIT") {
			reads.Add(1)
		}
	})
	r.take(s.Register(t, nil), "Thresh").Finish("0")
	for _, e := range streams {
		e.await("the list", "Passed")
	}
	if n := reads.Load(); n >= viewers {
		t.Errorf("%d viewers needed %d reads of the list", viewers, n)
	}
	s.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
	if _, name, data := streams[0].next(); name != "" {
		t.Errorf("after losing access they got %s %s", name, data)
	}
	for { // the start page goes on with what they can see now
		if _, name, data := home.next(); name == "" || strings.Contains(data, "No pipelines yet") {
			if name == "" {
				t.Error("the stream of the start page has ended")
			}
			break
		}
	}
}
