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
	answers []answer
	at      []time.Time // times of the calls
}

type answer struct {
	status     int // 0: the network fails
	retryAfter string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	a := s.answers[min(len(s.at), len(s.answers)-1)]
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
func follow(t *testing.T, ctx func() context.Context, answers ...answer) (s *script, err error) {
	s = &script{answers: answers}
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
		answer{status: 503}, answer{status: 429, retryAfter: "7"}, answer{}, answer{status: 500, retryAfter: "3600"}, answer{status: 200})
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
		ctx    func() context.Context
		answer answer
		calls  int
	}{
		"what is refused, at once":  {context.Background, answer{status: 422}, 1},
		"what fails, in the end":    {context.Background, answer{}, tries},
		"when it is asked to":       {canceled, answer{status: 503}, 1},
		"while it waits to go on":   {soonOver, answer{status: 429, retryAfter: "20"}, 1},
		"what an overload rejected": {context.Background, answer{status: 503}, tries},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := follow(t, c.ctx, c.answer); err == nil || len(s.at) != c.calls {
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
