package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
)

func TestRateLimit_CountsAUserInAnOrganizationOverASlidingSecond(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply("organizations: [{slug: acme, limits: {rest_requests_per_second: 3}}]")
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		for i := range 3 {
			resp := ada.Get("/v2/organizations/acme").Want(200)
			for name, want := range map[string]string{"RateLimit-Scope": "rest", "RateLimit-Limit": "3", "RateLimit-Remaining": fmt.Sprint(2 - i), "RateLimit-Reset": "1"} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("request %d: %s is %q, want %q", i, name, got, want)
				}
			}
		}
		refused := ada.Get("/v2/organizations/acme").Want(http.StatusTooManyRequests)
		for field, want := range map[string]string{"scope": "rest", "limit": "3", "current": "3", "reset": "1"} {
			if got := refused.String(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		if got := refused.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q", got)
		}
		bo.Get("/v2/organizations/acme").Want(200)
		s.Clock.Advance(time.Second)
		ada.Get("/v2/organizations/acme").Want(200)
		s.Apply("organizations: [{slug: acme, limits: {rest_requests_per_second: 0}}]")
		for range 5 {
			if resp := ada.Get("/v2/organizations/acme").Want(200); resp.Header.Get("RateLimit-Limit") != "" {
				t.Error("an organization without a limit tells one")
			}
		}
	})
}

func TestRateLimit_HoldsForAllReplicasTogether(t *testing.T) {
	for name, limit := range map[string]int{"small": 5, "large": 60} {
		t.Run(name, func(t *testing.T) {
			s := servertest.Start(t, dbtest.New(t, db.PostgreSQL))
			s.Apply(servertest.World)
			s.Apply(fmt.Sprintf("organizations: [{slug: acme, limits: {rest_requests_per_second: %d}}]", limit))
			ada, same := s.As(t, servertest.Ada), s.Replica(t).As(t, servertest.Ada)
			through := 0
			for i := range 2 * limit {
				if []*servertest.Client{ada, same}[i%2].Get("/v2/organizations/acme").Status == 200 {
					through++
				}
			}
			if through > limit || through < limit*9/10 {
				t.Errorf("%d requests in a second, and the limit is %d", through, limit)
			}
		})
	}
}

func TestRateLimit_IsToldWhateverTheRequestFailsFor(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for what, resp := range map[string]*servertest.Response{
			"no token":            s.As(t, "").Get("/v2/organizations/acme").Want(http.StatusUnauthorized),
			"no organization":     s.As(t, servertest.Cy).Get("/v2/organizations/acme").Want(http.StatusNotFound),
			"no permission":       s.As(t, servertest.Bo).Post("/v2/organizations/acme/clusters", map[string]any{"name": "x"}).Want(http.StatusForbidden),
			"nothing of a name":   s.As(t, servertest.Ada).Get("/v2/organizations/acme/pipelines/none").Want(http.StatusNotFound),
			"nothing in a body":   s.As(t, servertest.Ada).Post("/v2/organizations/acme/clusters", "{}").Want(http.StatusUnprocessableEntity),
			"nothing to decode":   s.As(t, servertest.Ada).Post("/v2/organizations/acme/clusters", "{").Want(http.StatusBadRequest),
			"no organization yet": s.As(t, servertest.Ada).Get("/v2/user").Want(http.StatusOK),
		} {
			if scope, limit := resp.Header.Get("RateLimit-Scope"), resp.Header.Get("RateLimit-Limit"); scope != "rest" || limit != "1000" {
				t.Errorf("%s: scope %q, limit %q", what, scope, limit)
			}
		}
	})
}

func TestPaths_AreForgivingAndAnswersAreJSON(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Get("/v2//organizations/acme/").Want(200)
		ada.Get("/v2/organizations/acme/pipelines/hello/").Want(200)
		ada.Get("/v2/nothing").Want(404).String("message")
		ada.Get("/nothing/at/all").Want(404).String("message")
		resp := ada.Do("PUT", "/v2/organizations", nil).Want(405)
		if resp.String("message") == "" || !strings.Contains(resp.Header.Get("Allow"), "GET") {
			t.Errorf("405 with Allow %q and body %s", resp.Header.Get("Allow"), resp.Body)
		}
		ada.Do("HEAD", "/v2/organizations", nil).Want(200)
		ada.Post("/v2/organizations/acme/pipelines", `{"name": "`+strings.Repeat("x", 5<<20)+`"}`).Want(413).String("message")
	})
}

func TestCORS_LetsEveryOriginRead(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		resp := s.As(t, "").Get("/v2/organizations").Want(401)
		if resp.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "Link") {
			t.Errorf("headers %v", resp.Header)
		}
		preflight := s.As(t, "").With("Origin", "https://elsewhere.test").With("Access-Control-Request-Method", "PATCH").
			Do("OPTIONS", "/v2/organizations/acme/pipelines/hello", nil).Want(204)
		if !strings.Contains(preflight.Header.Get("Access-Control-Allow-Methods"), "PATCH") || !strings.Contains(preflight.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("preflight %v", preflight.Header)
		}
		if got := s.As(t, "").Get("/healthz").Want(200).Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("/healthz allows origin %q", got)
		}
	})
}

func TestReadyz_FollowsTheDatabaseAndDraining(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		anonymous := s.As(t, "")
		anonymous.Get("/readyz").Want(200)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		anonymous.Get("/readyz").WantMessage(503, "The database is unavailable")
		anonymous.Get("/healthz").Want(200)
		s.As(t, servertest.Ada).Get("/v2/user").Want(503)
		s.Drain()
		anonymous.Get("/readyz").WantMessage(503, "The server is draining")
	})
}

func TestReadyz_IsUnavailableWithTheReasonWhileNothingCanBeWritten(t *testing.T) {
	// A fault is a way to make writes fail for a time.
	type fault struct{ message, begin, end string }
	faults := map[db.Engine]fault{
		db.SQLite: {"The database is read-only; nothing can be saved until that is changed.", `PRAGMA query_only = 1`, `PRAGMA query_only = 0`},
		db.PostgreSQL: {db.DiskFull, `
			CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space' USING ERRCODE = 'disk_full'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON installation EXECUTE FUNCTION refuse()`, `DROP TRIGGER refuse ON installation`},
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, fault := servertest.Start(t, d), faults[d.Engine()]
		anonymous := s.As(t, "")
		execute := func(statements string) {
			t.Helper()
			for statement := range strings.SplitSeq(statements, "$$;") {
				if strings.Contains(statement, "$$") {
					statement += "$$"
				}
				if err := d.Write(t.Context(), func(q *db.Q) error { _, err := q.Exec(statement); return err }); err != nil {
					t.Fatal(err)
				}
			}
			s.Clock.Advance(time.Second)
		}
		anonymous.Get("/readyz").Want(200)
		execute(fault.begin)
		anonymous.Get("/readyz").WantMessage(503, fault.message)
		anonymous.Get("/healthz").Want(200)
		execute(fault.end)
		anonymous.Get("/readyz").Want(200)
	})
}

// Anyone can request /readyz, so it must not write on every request.
func TestReadyz_WritesAtMostOnceASecond(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		counter := dbtest.CountStatements(d)
		for range 3 {
			for range 10 {
				s.As(t, "").Get("/readyz").Want(200)
			}
			s.Clock.Advance(time.Second)
		}
		if n := counter.Take().Of("write_probe"); n != 3 {
			t.Errorf("%d writes in three seconds", n)
		}
	})
}

func TestMetrics_ShowTheSpaceOnDisks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		metrics := string(servertest.Start(t, d).As(t, "").Get("/metrics").Want(200).Body)
		for name, want := range map[string]bool{"database": d.Engine() == db.SQLite, "blobs": true} {
			for _, gauge := range []string{"available", "size"} {
				if got := strings.Contains(metrics, "stackyard_disk_"+gauge+"_bytes{disk=\""+name+"\"} "); got != want {
					t.Errorf("%s bytes of the disk of the %s: %t, want %t", gauge, name, got, want)
				}
			}
		}
	})
}

// The log of a request describes it and contains no credentials.
func TestLog_HasNoSecrets(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	var log bytes.Buffer
	wired, err := server.New(server.Parts{
		DB: d, Key: seal.NewKey(), Public: "http://ci.test", Clock: core.SystemClock, Version: "test",
		Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "svcua_secret"
	req := httptest.NewRequest("GET", "/v2/organizations/acme/pipelines/"+secret+"?token="+secret, strings.NewReader(secret))
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Cookie", secret)
	w := httptest.NewRecorder()
	wired.ServeHTTP(w, req)
	if w.Code != 401 || strings.Contains(log.String(), secret) {
		t.Errorf("status %d, log %s", w.Code, log.String())
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["route"] != "/v2/organizations/{org}/pipelines/{pipeline}" || line["status"] != 401.0 || line["request_id"] != w.Header().Get("X-Request-Id") {
		t.Errorf("log %v", line)
	}
}

func TestMetrics_CountByRoutePattern(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	for i := range 3 {
		s.As(t, servertest.Ada).Get(fmt.Sprintf("/v2/organizations/acme/pipelines/p-%d", i)).Want(404)
	}
	s.As(t, "").Do("PROPFIND", "/v2/no-such-path", nil).Want(404)
	resp, err := http.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`stackyard_http_requests_total{method="GET",route="/v2/organizations/{org}/pipelines/{pipeline}",status="404"} 3`,
		`stackyard_http_requests_total{method="other",route="unmatched",status="404"} 1`,
		`stackyard_http_request_seconds_count{method="GET",route="/v2/organizations/{org}/pipelines/{pipeline}"} 3`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no line %s", want)
		}
	}
}

// BenchmarkGetPipeline measures a whole request with authentication, compared with a bare handler of the same
// size.
func BenchmarkGetPipeline(b *testing.B) {
	d := dbtest.New(b, db.SQLite)
	s := servertest.Start(b, d)
	s.Apply(servertest.World)
	s.Apply("organizations: [{slug: acme, limits: {rest_requests_per_second: 0}}]")
	body := s.As(b, servertest.Ada).Get("/v2/organizations/acme/pipelines/hello").Want(200).Body
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(body) }))
	b.Cleanup(bare.Close)
	get := func(url string) {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+servertest.Ada)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.StatusCode, err)
		}
		resp.Body.Close()
	}
	for b.Loop() {
		get(s.URL + "/v2/organizations/acme/pipelines/hello")
	}
	ours := b.Elapsed()
	began := time.Now()
	for range b.N {
		get(bare.URL)
	}
	b.ReportMetric(float64(ours)/float64(time.Since(began)), "time/bare-handler")
}
