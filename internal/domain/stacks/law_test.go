package stacks_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

func TestLimits_AreInEveryResponse(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		calls := []struct{ method, path, scope string }{
			{"POST", "/v3/stacks/register", "default"},
			{"POST", robot + "/job-acquisition-tokens", "default"},
			{"GET", robot + "/scheduled-jobs?queue_key=default", "list-scheduled-jobs"},
			{"PUT", robot + "/scheduled-jobs/batch-reserve", "batch-reserve"},
			{"GET", robot + "/jobs/" + core.NewID(), "show-job"},
			{"POST", robot + "/jobs/get-states", "batch-load-job-states"},
			{"POST", robot + "/jobs/" + core.NewID() + "/finish", "finish-job"},
			{"POST", robot + "/notifications", "stack-notification"},
		}
		wantScopes := func(as *servertest.Client, status int) {
			t.Helper()
			for _, c := range calls {
				w.Clock.Advance(time.Second)
				r := as.Do(c.method, c.path, nil)
				if status != 0 {
					r.Want(status)
				}
				wantEqual(t, "scope", r.Header.Get("RateLimit-Scope"), c.scope)
				for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
					if r.Header.Get(name) == "" {
						t.Errorf("%s %s: status %d without %s", c.method, c.path, r.Status, name)
					}
				}
			}
		}
		wantScopes(w.stack, 0)
		wantScopes(w.AsAgent(t, "svcct_wrong"), http.StatusUnauthorized)
		w.Apply("organizations: [{slug: acme, suspended: true}]")
		wantScopes(w.stack, http.StatusServiceUnavailable)
		wantEqual(t, "retry after", w.stack.Get(robot+"/jobs/"+core.NewID()).Header.Get("Retry-After"), "60")
	})
}

// Unreadable requests and invalid stack keys count against limits too.
func TestLimits_CountRegistrationsThatAreRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, body := range map[string]func(i int) any{
			"malformed": func(int) any { return "{" },
			"long keys": func(i int) any { return registration(strings.Repeat("k", 81+i)) },
		} {
			w.Clock.Advance(time.Second)
			for i := range 10 {
				if r := w.stack.Post("/v3/stacks/register", body(i)); r.Status == http.StatusTooManyRequests {
					t.Fatalf("%s: call %d is refused", name, i+1)
				}
			}
			w.stack.Post("/v3/stacks/register", body(10)).Want(http.StatusTooManyRequests)
		}
	})
}

func TestList_RefusesWhatOnlyLooksLikeParameters(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.list("&limit=").WantMessage(http.StatusBadRequest, "limit must be an integer from 1 to 1000")
		w.list("&limit=1.5").WantMessage(http.StatusBadRequest, "limit must be an integer from 1 to 1000")
		w.list("&after=").Want(http.StatusOK) // clients restart like this
		for _, cursor := range []string{`["1","\u0000"]`, `["x","y"]`, `["1"]`, `{}`, `["99999999999999999999","x"]`} {
			w.list("&after="+base64.RawURLEncoding.EncodeToString([]byte(cursor))).WantMessage(http.StatusBadRequest, "after is not a cursor of this list")
		}
		w.list("&after=%00").Want(http.StatusBadRequest)
	})
}

func TestFinish_LooksForTheJobBeforeTheBody(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.stack.Post(robot+"/jobs/"+core.NewID()+"/finish", fields{}).WantMessage(http.StatusNotFound, "No job found")
		w.stack.Post(robot+"/jobs/x/finish", fields{}).WantMessage(http.StatusNotFound, "No job found")
		w.stack.Post("/v3/stacks/unknown/jobs/x/finish", fields{}).WantMessage(http.StatusNotFound, "No stack found")
		id := w.schedule(1)[0]
		for body, want := range map[string]string{
			`{}`:                                  "detail is required",
			`{"detail":null}`:                     "detail is required",
			`{"detail":1}`:                        "detail must be a string, not a number",
			`{"detail":"x","exit_status":1.5}`:    "exit_status must be an integer, not a number",
			`{"detail":"x","exit_status":"zero"}`: "exit_status must be an integer, not a string",
		} {
			w.stack.Post(robot+"/jobs/"+id+"/finish", body).WantMessage(http.StatusUnprocessableEntity, want)
		}
		w.stack.Post(robot+"/jobs/"+id+"/finish", "{").Want(http.StatusBadRequest)
		w.stack.Post(robot+"/jobs/"+id+"/finish", fields{"detail": "x", "exit_status": -9223372036854775808}).Want(http.StatusOK)
	})
}

func TestRegister_NeedsASelfHostedQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply(`
organizations:
  - slug: acme
    clusters:
      - {name: Default, queues: [{key: big, hosted: {platform: linux}}]}
      - {name: Bare, agent_tokens: [{description: boot, token: svcct_bare}]}
`)
		body := registration("other")
		body["queue_key"] = "big"
		w.stack.Post("/v3/stacks/register", body).Want(http.StatusNotFound)
		w.stack.Get(robot + "/scheduled-jobs?queue_key=big").Want(http.StatusNotFound)
		bare := w.AsAgent(t, "svcct_bare")
		for _, key := range []string{"__default__", "_default", "~", "-"} {
			body["queue_key"] = key
			bare.Post("/v3/stacks/register", body).WantMessage(http.StatusNotFound, "No self-hosted queue found with the key "+key)
			w.Clock.Advance(time.Second)
			again := registration("robot")
			again["queue_key"] = key
			wantEqual(t, "queue", w.stack.Post("/v3/stacks/register", again).Want(http.StatusOK).At("cluster_queue_key"), key)
			w.stack.Get(robot + "/scheduled-jobs?queue_key=" + key).Want(http.StatusOK)
		}
	})
}

func TestList_IsAnsweredAtOnceWhenTheServerDrains(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		// Without the drain the request would wait longer than this test.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", w.URL+robot+"/scheduled-jobs?queue_key=default&wait=30", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Token "+servertest.AcmeAgent)
		answered := make(chan error)
		go func() {
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				res.Body.Close()
			}
			answered <- err
		}()
		for !strings.Contains(string(w.As(t, "").Get("/metrics").Body), "stackyard_http_requests_in_flight 2") {
		}
		w.Drain()
		if err := <-answered; err != nil {
			t.Error(err)
		}
		wantEqual(t, "one that begins now", w.list("&wait=30").Want(http.StatusOK).Len("jobs"), 0)
	})
}

func TestNotifications_ReportTheProblemsOfEach(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.Clock.Advance(time.Minute)
		now := w.Clock.Now().UTC()
		with := func(name string, value any) fields {
			n := fields{"job_uuid": id, "detail": "x"}
			n[name] = value
			return n
		}
		for want, list := range map[string][]fields{
			"": {
				with("detail", strings.Repeat("é", 256)), with("timestamp", nil), with("timestamp", now.Format(time.RFC3339Nano)),
				with("timestamp", now.Add(-time.Second).In(time.FixedZone("", 3600)).Format(time.RFC3339)), with("more", 1), with("job_uuid", strings.ToUpper(id)),
				with("timestamp", now.Add(-time.Second).In(time.FixedZone("", 19800)).Format("2006-01-02T15:04:05-0700")),
				with("timestamp", now.Add(-time.Second).Format("2006-01-02t15:04:05z")),
				with("Timestamp", "nonsense"),
			},
			"job_uuid is required":                   {with("job_uuid", nil), with("job_uuid", ""), {"detail": "x"}, {"detail": "x", "JOB_UUID": id}},
			"job_uuid must be a string":              {with("job_uuid", 1), with("job_uuid", fields{})},
			"job_uuid is not a UUID":                 {with("job_uuid", "x"), with("job_uuid", id+"0")},
			"job not found":                          {with("job_uuid", core.NewID())},
			"detail is required":                     {with("detail", nil), with("detail", ""), with("detail", " \n"), {"job_uuid": id}, {"job_uuid": id, "Detail": "x"}},
			"detail must be a string":                {with("detail", 1), with("detail", []string{"x"})},
			"detail exceeds its length limit of 256": {with("detail", strings.Repeat("é", 257))},
			"timestamp must be a time in ISO 8601 with a time zone, such as 2026-01-02T03:04:05Z": {
				with("timestamp", ""), with("timestamp", "now"), with("timestamp", 1), with("timestamp", "2026-01-02"), with("timestamp", "2026-01-02T03:04:05"),
			},
			"timestamp must not be in the future": {with("timestamp", now.Add(time.Millisecond).Format(time.RFC3339Nano))},
			"timestamp must not be before the job was created": {
				with("timestamp", now.Add(-time.Hour).Format(time.RFC3339)), with("timestamp", "0001-01-01T00:00:00Z"), with("timestamp", "0000-01-01T00:00:00Z"),
			},
		} {
			r := w.stack.Post(robot+"/notifications", fields{"notifications": list}).Want(http.StatusOK)
			if want == "" {
				wantEqual(t, "errors", r.At("errors"), []any{})
				continue
			}
			indexes := make([]int, len(list))
			for i := range indexes {
				indexes[i] = i
			}
			wantEqual(t, want, r.At("errors"), []any{map[string]any{"error": want, "indexes": indexes}})
		}
	})
}

func TestFinish_RefusesJobsThatCannotRunYet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(hello, fields{"configuration": "steps: [{command: a}, wait, {command: b, key: later}, {block: c, key: gate}]"}).Want(http.StatusOK)
		build := w.ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		for i := range build.Len("jobs") {
			at := "jobs." + strconv.Itoa(i) + "."
			if build.String(at+"state") != "scheduled" {
				w.stack.Post(robot+"/jobs/"+build.String(at+"id")+"/finish", fields{"detail": "x"}).Want(http.StatusUnprocessableEntity)
			}
		}
		wantEqual(t, "build", w.ada.Get(hello+"/builds/1").String("state"), build.String("state"))
	})
}

func TestGetJob_ShowsLargeEnvironmentsWhole(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		large := strings.Repeat("x", 60<<10)
		env := fields{"FIRST": large, "SECOND": large}
		id := w.ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main", "env": env}).Want(http.StatusCreated).String("jobs.0.id")
		r := w.stack.Get(robot + "/jobs/" + id).Want(http.StatusOK)
		if len(r.String("env.FIRST"))+len(r.String("env.SECOND")) != 2*len(large) {
			t.Errorf("parts of the environment are missing in %d bytes", len(r.Body))
		}
	})
}

// A stack that is de-registered while it reserves keeps no reservations.
func TestDeregister_ReleasesWhatIsBeingReserved(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(20)
		for range 5 {
			var calls sync.WaitGroup
			for _, id := range ids {
				calls.Go(func() {
					r := w.stack.Put(robot+"/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{id}})
					if r.Status != http.StatusOK && r.Status != http.StatusNotFound && r.Status != http.StatusTooManyRequests {
						t.Errorf("reserve: %d %s", r.Status, r.Body)
					}
				})
			}
			calls.Go(func() { w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent) })
			calls.Wait()
			w.Clock.Advance(time.Second)
			w.register("robot").Want(http.StatusCreated)
			wantEqual(t, "listed", len(listed(w.list(""))), len(ids))
		}
	})
}

// Cursors are padded base64, which decoders expect by default, and are accepted with and without padding.
func TestList_CursorsArePaddedBase64(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		for _, advance := range []time.Duration{0, time.Microsecond} {
			w.Clock.Advance(advance)
			cursor := w.list("&limit=1").Want(http.StatusOK).String("page_info.end_cursor")
			if _, err := base64.StdEncoding.DecodeString(cursor); err != nil {
				t.Errorf("%s: %v", cursor, err)
			}
			for _, form := range []string{cursor, url.QueryEscape(cursor), strings.TrimRight(cursor, "=")} {
				wantEqual(t, "after "+form, listed(w.list("&after="+form)), ids[1:])
			}
			w.list("&after=" + cursor + "=").Want(http.StatusBadRequest)
		}
	})
}
