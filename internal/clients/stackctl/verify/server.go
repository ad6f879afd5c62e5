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
)

// server speaks HTTP to the server that is checked, and keeps to its rate limits.
type server struct {
	agentURL string // with /v3 at its end
	restURL  string // with /v2 at its end
	wait     func(context.Context, time.Duration)
	http     *http.Client
	secrets  []string             // never shown
	free     map[string]time.Time // when a scope of a stack may be used again, once it is used up
	elapsed  time.Duration        // how long was waited, where that is no real time
}

// callTimeout bounds one call.
const callTimeout = time.Minute

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

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
	body   any    // a string is sent as it is, nil not at all, anything else as JSON
	// limit is what the server counts the call by; "" for calls that it does not count.
	limit string
}

// An answer is what the server said to a request.
type answer struct {
	request request
	sent    string
	status  int
	header  http.Header
	body    []byte
	json    any // the body, decoded with numbers as they are written; nil where it is no JSON
}

// send makes a call. An answer that is refused because of a rate limit is none: the call is made again when
// the server says so.
func (s *server) send(ctx context.Context, r request) (*answer, error) {
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

// sendOnce makes a call without regard to rate limits, and notes what the answer says of them. A call that
// has begun is not interrupted, so that what it makes is known and can be removed.
func (s *server) sendOnce(ctx context.Context, r request) (*answer, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a := &answer{request: r}
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
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
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

// reach returns an error when nobody answers at all.
func (s *server) reach(ctx context.Context) error {
	_, err := s.sendOnce(ctx, request{method: http.MethodGet, url: s.agentURL + "/stacks"})
	return err
}

// now is the time, with all that was waited in it.
func (s *server) now() time.Time { return time.Now().Add(s.elapsed) }

// pause waits until there is room within a limit.
func (s *server) pause(ctx context.Context, limit string) {
	if d := s.free[limit].Sub(s.now()); d > 0 {
		s.rest(ctx, d)
	}
}

// sleep lets a number of seconds pass.
func (s *server) sleep(ctx context.Context, n int) { s.rest(ctx, time.Duration(n)*time.Second) }

func (s *server) rest(ctx context.Context, d time.Duration) {
	if s.wait != nil {
		s.elapsed += d
		s.wait(ctx, d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// seconds reads a header that holds whole seconds; 0 where it does not.
func seconds(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// time is the server's clock when it answered, as far as it tells.
func (a *answer) time() time.Time {
	if t, err := http.ParseTime(a.header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}

// hide keeps a secret out of everything that is shown.
func (s *server) hide(secret string) {
	if secret != "" {
		s.secrets = append(s.secrets, secret)
	}
}

// tokenish is what looks like a token of the service.
var tokenish = regexp.MustCompile(`\b(svc[a-z]{2,8}_)[A-Za-z0-9_.\-]+`)

// redact returns a text without the secrets in it.
func (s *server) redact(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return tokenish.ReplaceAllString(text, "${1}[redacted]")
}

// An Exchange is a call and its answer, as people may see them.
type Exchange struct {
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Request  string   `json:"request"`
	Status   int      `json:"status"`
	Headers  []string `json:"headers"`
	Response string   `json:"response"`
}

// maxShown bounds what is shown of a body.
const maxShown = 1500

func (a *answer) exchange(s *server) *Exchange {
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
