package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/stackctl/verify"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A changedResponse is a response that a proxy changes.
type changedResponse struct {
	request *http.Request
	sent    map[string]any // body of the request
	*httptest.ResponseRecorder
}

// of reports whether the response is one of the stacks API, to a path with a suffix.
func (a *changedResponse) of(method, end string) bool {
	return strings.HasPrefix(a.request.URL.Path, "/v3/stacks/") && a.request.Method == method && strings.HasSuffix(a.request.URL.Path, end)
}

// body changes the JSON object in the response.
func (a *changedResponse) body(change func(map[string]any)) {
	var v map[string]any
	if json.Unmarshal(a.Body.Bytes(), &v) != nil {
		return
	}
	change(v)
	changed, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.Body = bytes.NewBuffer(changed)
	a.Header().Del("Content-Length")
}

// changeResponses is a proxy that changes responses.
func changeResponses(change func(a *changedResponse)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(sent))
			a := &changedResponse{request: r, ResponseRecorder: httptest.NewRecorder()}
			json.Unmarshal(sent, &a.sent)
			next.ServeHTTP(a, r)
			change(a)
			maps.Copy(w.Header(), a.Header())
			w.WriteHeader(a.Code)
			w.Write(a.Body.Bytes())
		})
	}
}

// changeRequests is a proxy that changes requests.
func changeRequests(method, end string, change func(r *http.Request, body map[string]any)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent, _ := io.ReadAll(r.Body)
			var body map[string]any
			json.Unmarshal(sent, &body)
			if r.Method == method && strings.HasPrefix(r.URL.Path, "/v3/stacks/") && strings.HasSuffix(r.URL.Path, end) {
				change(r, body)
				if body != nil {
					sent, _ = json.Marshal(body)
				}
			}
			r.Body = io.NopCloser(bytes.NewReader(sent))
			next.ServeHTTP(w, r)
		})
	}
}

// list returns the array under a key of an object.
func list(v map[string]any, key string) []any {
	l, _ := v[key].([]any)
	return l
}

// mistakes are servers with one mistake each, and the rules that must fail.
var mistakes = []struct {
	name  string
	front func(http.Handler) http.Handler
	want  []string
}{
	{"a new stack is answered with 200", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/register") && a.Code == 201 {
			a.Code = 200
		}
	}), []string{"register.new", "deregister.again"}},
	{"the record has no last_connected_on", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/register") {
			a.body(func(v map[string]any) { delete(v, "last_connected_on") })
		}
	}), []string{"register.record"}},
	{"metadata is not kept", changeRequests("POST", "/register", func(_ *http.Request, body map[string]any) {
		if m, ok := body["metadata"].(map[string]any); ok && len(m) == 1 && m["program"] != nil {
			body["metadata"] = map[string]any{}
		}
	}), []string{"register.echo"}},
	{"what is not valid is 400", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/register") && a.Code == 422 {
			a.Code = 400
		}
	}), []string{
		"register.required", "register.key-characters", "register.key-length", "register.type", "register.metadata-keys",
		"register.metadata-key-length", "register.metadata-value-length", "register.metadata-flat",
	}},
	{"who has no token is forbidden", changeResponses(func(a *changedResponse) {
		if strings.HasPrefix(a.request.URL.Path, "/v3/stacks/") && a.Code == 401 {
			a.Code = 403
		}
	}), []string{"auth.missing", "auth.invalid", "auth.revoked", "acquire.not-for-stacks"}},
	{"errors have no message", changeResponses(func(a *changedResponse) {
		if a.of("GET", "/scheduled-jobs") && a.Code == 404 {
			a.body(func(v map[string]any) { delete(v, "message") })
		}
	}), []string{"register.first", "deregister.gone", "list.unknown-queue"}},
	{"de-registering has content", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/deregister") && a.Code == 204 {
			a.Code = 200
		}
	}), []string{"deregister.answer"}},
	{"a limit of 0 is taken for 1", changeRequests("GET", "/scheduled-jobs", func(r *http.Request, _ map[string]any) {
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "limit=0&", "limit=1&", 1)
	}), []string{"list.limit"}},
	{"the list is in no order", changeResponses(func(a *changedResponse) {
		if a.of("GET", "/scheduled-jobs") {
			a.body(func(v map[string]any) { slices.Reverse(list(v, "jobs")) })
		}
	}), []string{"list.order", "list.pages", "list.cursor-stays"}},
	{"there are no cursors", changeResponses(func(a *changedResponse) {
		if a.of("GET", "/scheduled-jobs") {
			a.body(func(v map[string]any) {
				if info, ok := v["page_info"].(map[string]any); ok {
					info["end_cursor"] = nil
				}
			})
		}
	}), []string{"list.pages", "list.cursor-form", "list.cursor-stays"}},
	{"a step without a key is left out", changeResponses(func(a *changedResponse) {
		if a.of("GET", "/scheduled-jobs") {
			a.body(func(v map[string]any) {
				for _, j := range list(v, "jobs") {
					if job := j.(map[string]any); job["step"].(map[string]any)["key"] == nil {
						delete(job, "step")
					}
				}
			})
		}
	}), []string{"list.nested"}},
	{"a paused queue does not say so", changeResponses(func(a *changedResponse) {
		if a.of("GET", "/scheduled-jobs") {
			a.body(func(v map[string]any) {
				if queue, ok := v["cluster_queue"].(map[string]any); ok {
					queue["dispatch_paused"] = false
				}
			})
		}
	}), []string{"list.paused"}},
	{"not_reserved is always empty", changeResponses(func(a *changedResponse) {
		if a.of("PUT", "/batch-reserve") && a.Code == 200 {
			a.body(func(v map[string]any) { v["not_reserved"] = []any{} })
		}
	}), []string{"reserve.unknown", "reserve.rival"}},
	{"not_reserved is not there", changeResponses(func(a *changedResponse) {
		if a.of("PUT", "/batch-reserve") && a.Code == 200 {
			a.body(func(v map[string]any) { delete(v, "not_reserved") })
		}
	}), []string{"reserve.answer", "reserve.unknown", "reserve.rival"}},
	{"reservations last for 900 seconds, whatever is asked for", changeRequests("PUT", "/batch-reserve", func(_ *http.Request, body map[string]any) {
		delete(body, "reservation_expiry_seconds")
	}), []string{"reserve.expiry", "reserve.expires", "tokens.reservation-expired", "tokens.reasons", "tokens.reservation-first"}},
	{"the last reservation counts, though it is shorter", changeRequests("PUT", "/batch-reserve", func(_ *http.Request, body map[string]any) {
		if body["reservation_expiry_seconds"] == 900.0 {
			body["reservation_expiry_seconds"] = 60
		}
	}), []string{"reserve.not-shortened"}},
	{"not_issued is always empty", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/job-acquisition-tokens") && a.Code == 201 {
			a.body(func(v map[string]any) { v["not_issued"] = []any{} })
		}
	}), []string{
		"tokens.unknown", "tokens.partial", "tokens.not-reserved", "tokens.rival", "tokens.reservation-expired", "tokens.not-command", "tokens.other-cluster",
	}},
	{"tokens do not say when they expire", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/job-acquisition-tokens") {
			a.body(func(v map[string]any) {
				for _, entry := range list(v, "job_acquisition_tokens") {
					delete(entry.(map[string]any), "expires_at")
				}
			})
		}
	}), []string{"reserve.not-shortened", "reserve.default", "tokens.entry", "tokens.default", "tokens.lifetime-first", "tokens.reservation-first"}},
	{"a session acquires any job", changeResponses(func(a *changedResponse) {
		if strings.HasSuffix(a.request.URL.Path, "/acquire") && a.Code == 422 {
			a.Code = 200
		}
	}), []string{"acquire.only", "acquire.lost"}},
	{"a job has no env", changeResponses(func(a *changedResponse) {
		if strings.Contains(a.request.URL.Path, "/v3/stacks/") {
			a.body(func(v map[string]any) { delete(v, "env") })
		}
	}), []string{"job.payload"}},
	{"running is called started", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/get-states") {
			a.Body = bytes.NewBuffer(bytes.ReplaceAll(a.Body.Bytes(), []byte(`"running"`), []byte(`"started"`)))
		}
	}), []string{"states.running"}},
	{"the exit status is 1 unless it is said", changeRequests("POST", "/finish", func(_ *http.Request, body map[string]any) {
		if body != nil && body["exit_status"] == nil {
			body["exit_status"] = 1
		}
	}), []string{"finish.default", "finish.retried", "finish.not-retried"}},
	{"a job is finished twice", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/finish") && strings.Contains(a.Body.String(), "ended already") {
			a.Code = 200
		}
	}), []string{"finish.once"}},
	{"errors of notifications are not grouped", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/notifications") && a.Code == 200 {
			a.body(func(v map[string]any) {
				single := []any{}
				for _, e := range list(v, "errors") {
					for _, i := range list(e.(map[string]any), "indexes") {
						single = append(single, map[string]any{"error": e.(map[string]any)["error"], "indexes": []any{i}})
					}
				}
				v["errors"] = single
			})
		}
	}), []string{"notifications.grouped"}},
	{"details of notifications are cut", changeRequests("POST", "/notifications", func(_ *http.Request, body map[string]any) {
		for _, n := range list(body, "notifications") {
			if entry := n.(map[string]any); len(entry) > 1 {
				if detail, ok := entry["detail"].(string); ok {
					entry["detail"] = string([]rune(detail)[:min(len([]rune(detail)), 256)])
				}
			}
		}
	}), []string{"notifications.detail"}},
	{"a header is missing from answers about finishing", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/finish") {
			delete(a.Header(), "RateLimit-Reset")
		}
	}), []string{"limits.headers"}},
	{"states are counted in the scope default", changeResponses(func(a *changedResponse) {
		if a.of("POST", "/get-states") {
			a.Header()["RateLimit-Scope"] = []string{"default"}
		}
	}), []string{"limits.scopes"}},
	{"429 does not say when to come again", changeResponses(func(a *changedResponse) {
		if a.Code == 429 {
			a.Header().Del("Retry-After")
		}
	}), []string{"limits.retry-after"}},
	{"429 does not say how many calls there were", changeResponses(func(a *changedResponse) {
		if a.Code == 429 {
			a.body(func(v map[string]any) { delete(v, "current") })
		}
	}), []string{"limits.exceeded"}},
}

// secret must not be in a report.
var secret = regexp.MustCompile(`svc(jat|ct|ua|as)_[A-Za-z0-9]`)

func TestRun_NoticesEachMistakeAndNothingElse(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			report := inspect(t, s, verify.Config{RESTToken: servertest.Ada}, m.front)
			if got := failed(report); !slices.Equal(got, m.want) {
				t.Errorf("failed: %v, want %v\n%s", got, m.want, describe(report))
			}
			if text := describe(report); secret.MatchString(text) {
				t.Errorf("the report contains a secret:\n%s", text)
			}
		})
	}
}

// wantNothingLeft checks that the checklist has removed what it created.
func wantNothingLeft(t *testing.T, s *servertest.Server) {
	t.Helper()
	ada := s.As(t, servertest.Ada)
	cluster := "/clusters/" + servertest.AcmeClusterID
	for path, want := range map[string]int{"/clusters": 1, cluster + "/queues": 1, cluster + "/tokens": 1, "/pipelines": 1, "/builds": 0, "/agents": 0} {
		if got := ada.Get("/v2/organizations/acme" + path).Want(http.StatusOK).Len(""); got != want {
			t.Errorf("%s: %d are there, want %d", path, got, want)
		}
	}
	var stacks int
	err := s.DB.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT COUNT(*) FROM stacks`).Scan(&stacks)
	})
	if err != nil || stacks != 0 {
		t.Errorf("%d stacks are registered, %v", stacks, err)
	}
}

func TestRun_LeavesNothingBehind(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		inspect(t, s, verify.Config{RESTToken: servertest.Ada}, plain)
		wantNothingLeft(t, s)
	})
}

func TestRun_LeavesNothingBehindWhenItIsInterrupted(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	for _, end := range []string{"/builds", "/batch-reserve", "/acquire", "/tokens"} {
		ctx, interrupt := context.WithCancel(t.Context())
		report, err := tryInspect(ctx, s, verify.Config{RESTToken: servertest.Ada}, changeResponses(func(a *changedResponse) {
			if strings.HasSuffix(a.request.URL.Path, end) {
				interrupt()
			}
		}))
		if err == nil || err.Error() != "interrupted before all rules were checked: context canceled" {
			t.Errorf("interrupted at %s: %v", end, err)
		}
		if report.Failed > 0 {
			t.Errorf("interrupted at %s: %s\n%s", end, report.Summary(), describe(report))
		}
		wantNothingLeft(t, s)
	}
}

// garble changes every value within a JSON value.
func garble(v any, change func(any) any) any {
	switch within := v.(type) {
	case map[string]any:
		for key, value := range within {
			within[key] = garble(value, change)
		}
	case []any:
		for i, value := range within {
			within[i] = garble(value, change)
		}
	}
	return change(v)
}

// Whatever a server returns, the checklist ends and reports what is wrong.
func TestRun_CopesWithServersThatSayAnything(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	for name, change := range map[string]func(any) any{
		"arrays are empty": func(v any) any {
			if _, ok := v.([]any); ok {
				return []any{}
			}
			return v
		},
		"arrays are objects": func(v any) any {
			if _, ok := v.([]any); ok {
				return map[string]any{}
			}
			return v
		},
		"strings are numbers": func(v any) any {
			if _, ok := v.(string); ok {
				return 1
			}
			return v
		},
		"objects are arrays": func(v any) any {
			if _, ok := v.(map[string]any); ok {
				return []any{v}
			}
			return v
		},
		"false is true": func(v any) any {
			if v == false {
				return true
			}
			return v
		},
		"there is nothing": func(any) any { return nil },
	} {
		for _, path := range []string{"/v3/stacks/", "/v2/", "/v"} {
			t.Run(name+" below "+path, func(t *testing.T) {
				// The checklist cannot always remove what it created when the server returns wrong names.
				report, _ := tryInspect(t.Context(), s, verify.Config{RESTToken: servertest.Ada}, changeResponses(func(a *changedResponse) {
					var v any
					if strings.HasPrefix(a.request.URL.Path, path) && json.Unmarshal(a.Body.Bytes(), &v) == nil {
						changed, _ := json.Marshal(garble(v, change))
						a.Body = bytes.NewBuffer(changed)
						a.Header().Del("Content-Length")
					}
				}))
				if len(report.Results) == 0 {
					t.Error("there are no results")
				}
			})
		}
	}
}

func TestRun_ReportsAServerThatDoesNotRespond(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	var report verify.Report
	err := verify.Run(t.Context(), verify.Config{Endpoint: closed.URL + "/v3", Token: "svcct_x"}, report.Add)
	if err == nil || !strings.HasPrefix(err.Error(), "the server does not respond: ") || len(report.Results) > 0 {
		t.Errorf("%v, with %d results", err, len(report.Results))
	}
}

func TestRun_SkipsRulesAboutJobsWithoutAccessToken(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	report := inspect(t, s, verify.Config{Only: "tokens.*"}, plain)
	for _, r := range report.Results {
		if r.Outcome == verify.Skip && !strings.Contains(r.Reason, "--rest-token") {
			t.Errorf("%s does not say how it could be checked: %s", r.Rule, r.Reason)
		}
	}
	if report.Passed == 0 || report.Skipped == 0 || report.Failed > 0 {
		t.Errorf("%s", report.Summary())
	}
}
