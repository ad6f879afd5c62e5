package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestDo_RepeatsRequestsThatABusyServerRefuses(t *testing.T) {
	for _, test := range []struct {
		method string
		status int
		tries  int
	}{
		{"GET", 429, 3}, {"POST", 429, 3}, {"GET", 503, 3}, {"PUT", 503, 3},
		{"POST", 503, 1}, {"GET", 500, 1}, {"GET", 404, 1},
	} {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			if len(bodies) < 3 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(test.status)
				return
			}
			io.WriteString(w, "{}")
		}))
		waits := 0
		c := &Client{URL: server.URL, Waiting: func(string, time.Duration) { waits++ }}
		err := c.Do(t.Context(), test.method, "/v2/user", "text", nil)
		server.Close()
		if len(bodies) != test.tries || waits != test.tries-1 || (err == nil) != (test.tries == 3) {
			t.Errorf("%s %d: %d tries, %d waits, error %v; want %d tries", test.method, test.status, len(bodies), waits, err, test.tries)
		}
		for _, body := range bodies {
			if body != `"text"` {
				t.Errorf("%s %d: sent %q", test.method, test.status, body)
			}
		}
	}
}

func TestRetryAfter_FollowsTheServerWithinLimits(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, "86400": maxWait, "Tue, 01 Jan 2030 00:00:05 GMT": 5 * time.Second, "Mon, 31 Dec 2029 00:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, 1, now); got != want {
			t.Errorf("Retry-After: %s means %s, want %s", text, got, want)
		}
	}
	for tries := 1; tries < maxTries; tries++ {
		if got := retryAfter(http.Header{}, tries, now); got < 250*time.Millisecond || got > 10*time.Second {
			t.Errorf("after %d tries it waits %s", tries, got)
		}
	}
}
