package stackctl

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A script is a server that responds in sequence and repeats the last response.
type script struct {
	responses []response
	at        []time.Time // times of the calls
}

type response struct {
	status     int // 0: the network fails
	retryAfter string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	a := s.responses[min(len(s.at), len(s.responses)-1)]
	s.at = append(s.at, time.Now())
	if a.status == 0 {
		return nil, errors.New("connection reset")
	}
	header := http.Header{}
	if a.retryAfter != "" {
		header.Set("Retry-After", a.retryAfter)
	}
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Header: header, Body: io.NopCloser(strings.NewReader(`{"message": "No."}`)), Request: req}, nil
}

// follow makes a call against a script. Time passes only while the caller waits.
func follow(t *testing.T, ctx func() context.Context, responses ...response) (s *script, err error) {
	s = &script{responses: responses}
	before := http.DefaultClient.Transport
	http.DefaultClient.Transport = s
	defer func() { http.DefaultClient.Transport = before }()
	synctest.Test(t, func(*testing.T) {
		api := &API{Endpoint: "http://ci.test/v3", Token: "svcct_x"}
		err = api.call(ctx(), http.MethodGet, "/stacks/x", nil, nil)
	})
	return s, err
}

func TestCall_TriesAgainLaterAndLater(t *testing.T) {
	s, err := follow(t, context.Background,
		response{status: 503}, response{status: 429, retryAfter: "7"}, response{}, response{status: 500, retryAfter: "3600"}, response{status: 200})
	if err != nil || len(s.at) != 5 {
		t.Fatalf("after %d calls: %v", len(s.at), err)
	}
	for i, bounds := range [][2]time.Duration{
		{firstWait / 2, firstWait * 3 / 2},
		{7 * time.Second, 7 * time.Second}, // as requested
		{2 * firstWait, 6 * firstWait},
		{longestWait, longestWait}, // the maximum
	} {
		if waited := s.at[i+1].Sub(s.at[i]); waited < bounds[0] || waited > bounds[1] {
			t.Errorf("before call %d it waited %v, want from %v to %v", i+2, waited, bounds[0], bounds[1])
		}
	}
}

func TestCall_GivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		ctx      func() context.Context
		response response
		calls    int
	}{
		"what is refused, at once":  {context.Background, response{status: 422}, 1},
		"what fails, in the end":    {context.Background, response{}, tries},
		"when it is asked to":       {canceled, response{status: 503}, 1},
		"while it waits to go on":   {soonOver, response{status: 429, retryAfter: "20"}, 1},
		"what an overload rejected": {context.Background, response{status: 503}, tries},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := follow(t, c.ctx, c.response); err == nil || len(s.at) != c.calls {
				t.Errorf("after %d calls, want %d: %v", len(s.at), c.calls, err)
			}
		})
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// soonOver returns a context that ends after a second of simulated time.
func soonOver() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Second, cancel)
	return ctx
}
