package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A script responds to calls in sequence, with a status and body, or not at all. The last response repeats.
type script struct {
	answers []scripted
	asked   []*http.Request
	bodies  []string
}

type scripted struct {
	status int // 0: the connection breaks
	body   string
	header http.Header
}

var errBroken = errors.New("connection reset")

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	answer := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked = append(s.asked, req)
	s.bodies = append(s.bodies, string(body))
	if answer.status == 0 {
		return nil, errBroken
	}
	header := answer.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: answer.status, Header: header, Body: io.NopCloser(strings.NewReader(answer.body))}, nil
}

func (s *script) client() *Client {
	c := New("https://ci.test/v3/", "secret", "1.0")
	c.http.Transport = s
	return c
}

const job = "0190c0de-0000-7000-8000-000000000001"

// Calls, grouped by how their failures are handled.
var calls = map[string]func(context.Context, *Client) error{
	"register":   func(ctx context.Context, c *Client) error { _, err := c.Register(ctx, Registration{}); return err },
	"connect":    func(ctx context.Context, c *Client) error { return c.Connect(ctx) },
	"ping":       func(ctx context.Context, c *Client) error { _, err := c.Ping(ctx); return err },
	"heartbeat":  func(ctx context.Context, c *Client) error { return c.Heartbeat(ctx, time.Now()) },
	"disconnect": func(ctx context.Context, c *Client) error { return c.Disconnect(ctx) },
	"accept":     func(ctx context.Context, c *Client) error { _, err := c.Accept(ctx, job); return err },
	"acquire":    func(ctx context.Context, c *Client) error { _, err := c.Acquire(ctx, job); return err },
	"start":      func(ctx context.Context, c *Client) error { return c.Start(ctx, job, time.Now()) },
	"state":      func(ctx context.Context, c *Client) error { _, err := c.State(ctx, job); return err },
	"chunk":      func(ctx context.Context, c *Client) error { return c.SendChunk(ctx, job, Chunk{}) },
	"finish":     func(ctx context.Context, c *Client) error { return c.Finish(ctx, job, Result{}) },
	"meta-data":  func(ctx context.Context, c *Client) error { return c.SetMetaData(ctx, job, MetaDatum{}) },
	"secret":     func(ctx context.Context, c *Client) error { _, err := c.Secret(ctx, job, "K"); return err },
	"artifact states": func(ctx context.Context, c *Client) error {
		return c.UpdateArtifacts(ctx, job, []ArtifactState{{"a", "finished"}})
	},
	"upload": func(ctx context.Context, c *Client) error {
		return c.UploadPipeline(ctx, job, PipelineUpload{ID: "u", Pipeline: []byte(`{}`)})
	},
}

func TestCalls_AreRepeatedAsOftenAsEachAllows(t *testing.T) {
	const broken = 0
	tests := []struct {
		call   string
		status int
		tries  int
	}{
		{"register", 503, 30}, {"register", broken, 30}, {"register", 429, 30}, {"register", 401, 1}, {"register", 422, 1},
		{"connect", 404, 10}, {"connect", 401, 10}, {"connect", 500, 10},
		{"ping", 503, 1}, {"ping", 401, 1},
		{"heartbeat", 503, 10}, {"heartbeat", 404, 1},
		{"disconnect", 404, 4},
		{"accept", broken, 30}, {"accept", 503, 30}, {"accept", 429, 30}, {"accept", 422, 1},
		{"acquire", 423, 7}, {"acquire", 500, 7}, {"acquire", broken, 7}, {"acquire", 422, 1}, {"acquire", 409, 1},
		{"start", 500, 7}, {"start", 422, 1},
		{"state", 500, 1},
		{"chunk", 503, 12}, {"chunk", 429, 12}, {"chunk", 413, 1},
		{"finish", 500, 12}, {"finish", 422, 1},
		{"meta-data", 500, 10}, {"meta-data", 422, 1},
		{"secret", 500, 3}, {"secret", 404, 1},
		{"artifact states", 404, 10},
		{"upload", 429, 60}, {"upload", 422, 1},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []scripted{{status: tt.status}}}
			err := calls[tt.call](t.Context(), s.client())
			if err == nil {
				t.Errorf("%s answered with %d: no error", tt.call, tt.status)
			}
			if StatusOf(err) != tt.status {
				t.Errorf("%s answered with %d: %v has status %d", tt.call, tt.status, err, StatusOf(err))
			}
			if len(s.asked) != tt.tries {
				t.Errorf("%s answered with %d: %d tries, want %d", tt.call, tt.status, len(s.asked), tt.tries)
			}
		})
	}
}

func TestCalls_SucceedWhenALaterTryDoes(t *testing.T) {
	bodies := map[string]string{"upload": ""}
	for name, make := range calls {
		if name == "ping" || name == "state" {
			continue // the next ping is the retry
		}
		synctest.Test(t, func(t *testing.T) {
			body, ok := bodies[name]
			if !ok {
				body = `{}`
			}
			s := &script{answers: []scripted{{status: 0}, {status: 200, body: body}}}
			if err := make(t.Context(), s.client()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(s.bodies) != 2 || s.bodies[0] != s.bodies[1] {
				t.Errorf("%s: bodies %q, want the same twice", name, s.bodies)
			}
		})
	}
}

func TestCalls_AreRepeatedWhenTheAnswerCannotBeRead(t *testing.T) {
	for _, body := range []string{"", "<html>", `{"id": 7}`} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []scripted{{status: 200, body: body}, {status: 200, body: `{"id": "j"}`}}}
			got, err := s.client().Accept(t.Context(), job)
			if err != nil || got.ID != "j" || len(s.asked) != 2 {
				t.Errorf("after %q: job %+v, %v in %d tries", body, got, err, len(s.asked))
			}
		})
	}
}

func TestCalls_EndWithTheirContext(t *testing.T) {
	for name, make := range calls {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			s := &script{answers: []scripted{{status: 503}}}
			if err := make(ctx, s.client()); err == nil {
				t.Errorf("%s: no error", name)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("%s: took %s", name, took)
			}
		})
	}
}

func TestFinish_TriesForAboutTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &script{answers: []scripted{{status: 500}}}
		s.client().Finish(t.Context(), job, Result{})
		if took := time.Since(began); took < 5*time.Minute || took > 15*time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

func TestAcquire_WaitsAsLongAsTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &script{answers: []scripted{{status: 423, header: http.Header{"Retry-After": {"17"}}}, {status: 200, body: `{"id": "j"}`}}}
		if _, err := s.client().Acquire(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 17*time.Second {
			t.Errorf("took %s", took)
		}
		for i, req := range s.asked {
			if got := req.Header.Get("X-Buildkite-Backoff-Sequence"); got != []string{"0", "1"}[i] {
				t.Errorf("try %d has the sequence %q", i, got)
			}
			if req.Header.Get("X-Buildkite-Lock-Acquire-Job") != "1" {
				t.Errorf("try %d has headers %v", i, req.Header)
			}
		}
	})
}

func TestStart_IgnoresWhenTheServerWantsToBeAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &script{answers: []scripted{{status: 503, header: http.Header{"Retry-After": {"100"}}}, {status: 200}}}
		if err := s.client().Start(t.Context(), job, time.Now()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestUploadPipeline_AwaitsWhatIsAppliedLater(t *testing.T) {
	accepted := scripted{status: 202, header: http.Header{"Location": {"https://ci.test/v3/jobs/" + job + "/pipelines/u"}, "Retry-After": {"1"}}}
	tests := []struct {
		name    string
		answers []scripted
		tries   int
		err     string
	}{
		{"applied", []scripted{accepted, {status: 200, body: `{"state": "pending"}`}, {status: 200, body: `{"state": "processing"}`}, {status: 200, body: `{"state": "applied"}`}}, 4, ""},
		{"rejected", []scripted{accepted, {status: 200, body: `{"state": "rejected", "message": "no steps"}`}}, 2, "the upload was rejected: no steps"},
		{"unknown", []scripted{accepted, {status: 200, body: `{"state": "mislaid"}`}}, 2, "the upload was mislaid"},
		{"invalid", []scripted{accepted, {status: 422, body: `{"message": "line 3"}`}}, 2, "line 3"},
		{"lost for a while", []scripted{accepted, {status: 404}, {status: 0}, {status: 200, body: `{"state": "applied"}`}}, 4, ""},
		{"nothing to ask", []scripted{{status: 202}}, 1, ""},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: tt.answers}
			err := calls["upload"](t.Context(), s.client())
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
			}
			if len(s.asked) != tt.tries {
				t.Errorf("%s: %d tries, want %d", tt.name, len(s.asked), tt.tries)
			}
		})
	}
}

func TestErrors_ContainTheServersMessage(t *testing.T) {
	long := strings.Repeat("é", 400)
	tests := map[string]string{
		`{"message": "The token has expired."}`: "POST /connect: The token has expired. (status 401)",
		`Bad Gateway`:                           "POST /connect: Bad Gateway (status 401)",
		``:                                      "POST /connect: status 401",
		long:                                    "POST /connect: " + strings.Repeat("é", 256) + "… (status 401)",
	}
	for body, want := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []scripted{{status: 401, body: body}}}
			if err := s.client().Connect(t.Context()); err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
		})
	}
}

func TestPaths_EscapeDotsAndSlashes(t *testing.T) {
	s := &script{answers: []scripted{{status: 200}}}
	if err := s.client().RemoveAnnotation(t.Context(), job, "../a b.c/é", "build"); err != nil {
		t.Fatal(err)
	}
	want := "https://ci.test/v3/jobs/" + job + "/annotations/%2E%2E%2Fa%20b%2Ec%2F%C3%A9?scope=build"
	if got := s.asked[0].URL.String(); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

func TestCalls_IdentifyThemselves(t *testing.T) {
	s := &script{answers: []scripted{{status: 200, body: "{}"}}}
	c := s.client()
	if _, err := c.As("session").Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := s.asked[0].Header
	if h.Get("Authorization") != "Token session" || !strings.HasPrefix(h.Get("User-Agent"), "stackyard-agent/1.0 (") {
		t.Errorf("headers %v", h)
	}
	if h.Get("Content-Type") != "" {
		t.Errorf("a call without a body has the content type %s", h.Get("Content-Type"))
	}
}

func TestPing_ReadsOrders(t *testing.T) {
	tests := map[string]Order{
		`{}`:                            {},
		`{"job": null, "action": null}`: {},
		`{"job": {"id": "j"}}`:          {JobID: "j"},
		`{"action": "pause"}`:           {Action: Pause},
		`{"action": "disconnect", "message": "Upgrade."}`: {Action: Disconnect, Message: "Upgrade."},
	}
	for body, want := range tests {
		s := &script{answers: []scripted{{status: 200, body: body}}}
		got, err := s.client().Ping(t.Context())
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", body, got, err, want)
		}
	}
}

func TestStream_ReadsOrdersUntilItsEnd(t *testing.T) {
	tests := []struct {
		name    string
		message []byte
		want    Order
	}{
		{"resume", []byte{0x12, 0}, Order{}},
		{"pause", append([]byte{0x1a, 6, 0x0a, 4}, "lunch"[:4]...), Order{Action: Pause, Message: "lunc"}},
		{"disconnect", []byte{0x22, 0}, Order{Action: Disconnect}},
		{"job", []byte{0x2a, 5, 0x0a, 3, 0x0a, 1, 'j'}, Order{JobID: "j"}},
		{"headers, which only the published agent knows", []byte{0x32, 0}, Order{}},
		{"a number of the future", []byte{0x38, 9}, Order{}},
	}
	for _, tt := range tests {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.URL.Path != streamPath || !bytes.Equal(body, []byte{0, 0, 0, 0, 3, 0x0a, 1, 'a'}) {
				t.Errorf("%s %q", r.URL.Path, body)
			}
			w.Header().Set("Content-Type", "application/grpc+proto")
			w.Header().Set("Trailer", "Grpc-Status")
			w.Write(frame(tt.message))
			w.Write(frame(tt.message))
			w.Header().Set("Grpc-Status", "0")
		}))
		var got []Order
		err := New(server.URL+"/v3", "t", "1").Stream(t.Context(), "a", func(o Order) { got = append(got, o) })
		if err != nil || !slices.Equal(got, []Order{tt.want, tt.want}) {
			t.Errorf("%s: %+v, %v; want %+v twice", tt.name, got, err, tt.want)
		}
		server.Close()
	}
}

func TestStream_ReportsWhetherToRetry(t *testing.T) {
	tests := []struct {
		name   string
		status int
		grpc   string
		never  bool
		ended  bool
	}{
		{"not there", 404, "", true, false},
		{"not for us", 403, "", true, false},
		{"no token", 401, "", true, false},
		{"proxy trouble", 502, "", false, false},
		{"over", 200, "0", false, true},
		{"deadline", 200, "4", false, true},
		{"unavailable", 200, "14", false, false},
		{"unimplemented", 200, "12", true, false},
		{"denied", 200, "7", true, false},
		{"broken off", 200, "", false, false},
	}
	for _, tt := range tests {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tt.grpc != "" {
				w.Header().Set("Grpc-Status", tt.grpc)
			}
			w.WriteHeader(tt.status)
		}))
		err := New(server.URL+"/v3", "t", "1").Stream(t.Context(), "a", func(Order) {})
		if got := errors.Is(err, ErrNoStream); got != tt.never {
			t.Errorf("%s: %v; never again %t, want %t", tt.name, err, got, tt.never)
		}
		if (err == nil) != tt.ended {
			t.Errorf("%s: %v; ended in good order %t, want %t", tt.name, err, err == nil, tt.ended)
		}
		server.Close()
	}
}

func FuzzDecodeOrder(f *testing.F) {
	f.Add([]byte{0x2a, 5, 0x0a, 3, 0x0a, 1, 'j'})
	f.Add([]byte{0x1a, 2, 0x0a, 9})
	f.Fuzz(func(t *testing.T, message []byte) {
		order, err := decodeOrder(message)
		if err == nil && len(order.JobID)+len(order.Message) > len(message) {
			t.Errorf("%x: %+v is longer than the message", message, order)
		}
	})
}
