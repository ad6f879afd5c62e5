package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/clients/sleep"
)

// server sends HTTP requests to the server under test and respects its rate limits.
type server struct {
	agentURL string // ends with /v3
	restURL  string // ends with /v2
	wait     func(context.Context, time.Duration)
	http     *http.Client
	secrets  []string             // never shown
	free     map[string]time.Time // when an exhausted scope of a stack is available again
	elapsed  time.Duration        // simulated waiting time
}

// callTimeout limits one call.
const callTimeout = time.Minute

// maxResponse limits the size of a response.
const maxResponse = 16 << 20

func newServer(c Config) *server {
	s := &server{
		agentURL: strings.TrimRight(c.Endpoint, "/"),
		wait:     c.Wait,
		http:     &http.Client{Timeout: callTimeout},
		free:     map[string]time.Time{},
	}
	s.restURL = strings.TrimSuffix(s.agentURL, "/v3") + "/v2"
	s.hide(c.Token)
	s.hide(c.RESTToken)
	return s
}

// A request is one call.
type request struct {
	method string
	url    string
	auth   string // the Authorization header, if any
	body   any    // a string is sent as is, nil not at all, anything else as JSON
	// limit is the rate limit that counts the call; "" if none does.
	limit string
}

// A response is the server's response to a request.
type response struct {
	request request
	sent    string
	status  int
	header  http.Header
	body    []byte
	json    any // the decoded body with unparsed numbers; nil if it is not JSON
}

// send makes a call. If a rate limit refuses it, send repeats it when the server allows.
func (s *server) send(ctx context.Context, r request) (*response, error) {
	for range 5 {
		s.pause(ctx, r.limit)
		a, err := s.sendOnce(ctx, r)
		if err != nil || a.status != http.StatusTooManyRequests {
			return a, err
		}
		s.sleep(ctx, max(1, seconds(a.header.Get("Retry-After"))))
	}
	return nil, fmt.Errorf("%s %s: the rate limit is still exceeded after five calls that waited for as long as Retry-After says", r.method, r.url)
}

// sendOnce makes a call regardless of rate limits, and records the limits of the response. It does not
// interrupt a started call, so that created objects are known and can be deleted.
func (s *server) sendOnce(ctx context.Context, r request) (*response, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a := &response{request: r}
	switch b := r.body.(type) {
	case nil:
	case string:
		a.sent = b
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		a.sent = string(encoded)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), r.method, r.url, strings.NewReader(a.sent))
	if err != nil {
		return nil, err
	}
	if r.body == nil {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.auth != "" {
		req.Header.Set("Authorization", r.auth)
	}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a.status, a.header = res.StatusCode, res.Header
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, maxResponse)); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if decoder.Decode(&a.json) != nil {
		a.json = nil
	}
	if r.limit != "" && a.header.Get(headerRemaining) == "0" {
		s.free[r.limit] = s.now().Add(time.Duration(max(1, seconds(a.header.Get(headerReset)))) * time.Second)
	}
	return a, nil
}

// reach returns an error if the server does not respond.
func (s *server) reach(ctx context.Context) error {
	_, err := s.sendOnce(ctx, request{method: http.MethodGet, url: s.agentURL + "/stacks"})
	return err
}

// now returns the time, including simulated waiting.
func (s *server) now() time.Time { return time.Now().Add(s.elapsed) }

// pause waits until a limit allows a call.
func (s *server) pause(ctx context.Context, limit string) {
	if d := s.free[limit].Sub(s.now()); d > 0 {
		s.rest(ctx, d)
	}
}

// sleep waits for a number of seconds.
func (s *server) sleep(ctx context.Context, n int) { s.rest(ctx, time.Duration(n)*time.Second) }

func (s *server) rest(ctx context.Context, d time.Duration) {
	if s.wait != nil {
		s.elapsed += d
		s.wait(ctx, d)
		return
	}
	sleep.For(ctx, d)
}

// seconds parses a header with whole seconds, or returns 0.
func seconds(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// time returns the server's time of the response, if the response has one.
func (a *response) time() time.Time {
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}

// hide redacts a secret in everything that is shown.
func (s *server) hide(secret string) {
	if secret != "" {
		s.secrets = append(s.secrets, secret)
	}
}

// tokenish matches text that looks like a token of the service.
var tokenish = regexp.MustCompile(`\b(svc[a-z]{2,8}_)[A-Za-z0-9_.\-]+`)

// redact returns a text without secrets.
func (s *server) redact(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return tokenish.ReplaceAllString(text, "${1}[redacted]")
}

// An Exchange is a call and its response without secrets.
type Exchange struct {
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Request  string   `json:"request"`
	Status   int      `json:"status"`
	Headers  []string `json:"headers"`
	Response string   `json:"response"`
}

// maxShown limits how much of a body is shown.
const maxShown = 1500

func (a *response) exchange(s *server) *Exchange {
	where := a.request.url
	if u, err := url.Parse(where); err == nil {
		where = u.RequestURI()
	}
	e := &Exchange{
		Method: a.request.method, Path: s.redact(where), Status: a.status,
		Request: shorten(s.redact(a.sent)), Response: shorten(s.redact(strings.TrimSpace(string(a.body)))),
		Headers: []string{},
	}
	for _, name := range []string{"Content-Type", headerScope, headerLimit, headerRemaining, headerReset, "Retry-After"} {
		if value := a.header.Get(name); value != "" {
			e.Headers = append(e.Headers, name+": "+value)
		}
	}
	return e
}

func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes)", len(text))
}
