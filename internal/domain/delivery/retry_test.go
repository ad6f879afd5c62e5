package delivery

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

var (
	delivered   = Answer{Status: 204}
	unreachable = Answer{Err: errors.New("connection refused")}
	refused     = Answer{Err: errors.New("address not allowed"), Permanent: true}
)

func TestAnswer_RetriesWhatMayEndBetter(t *testing.T) {
	for _, c := range []struct {
		response           Answer
		delivered, retries bool
	}{
		{delivered, true, false},
		{Answer{Status: 200}, true, false},
		{Answer{Status: 301}, false, false},
		{Answer{Status: 400}, false, false},
		{Answer{Status: 408}, false, true},
		{Answer{Status: 410}, false, false},
		{Answer{Status: 429}, false, true},
		{Answer{Status: 500}, false, true},
		{Answer{Status: 503}, false, true},
		{unreachable, false, true},
		{refused, false, false},
		{Answer{Status: 200, Err: errors.New("the body says no"), Permanent: true}, false, false},
	} {
		if c.response.delivered() != c.delivered || c.response.retries() != c.retries {
			t.Errorf("%+v: delivered %v, retries %v", c.response, c.response.delivered(), c.response.retries())
		}
		if explained := c.response.explain() != ""; explained == c.delivered {
			t.Errorf("%+v: explained as %q", c.response, c.response.explain())
		}
	}
}

func TestBackoff_DoublesUpToItsMost(t *testing.T) {
	for attempts, most := range map[int]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 11: time.Hour, 1000: time.Hour} {
		for range 20 {
			if d := backoff(attempts, time.Hour); d < most/2 || d > most {
				t.Errorf("after %d attempts %s, want between half and all of %s", attempts, d, most)
			}
		}
	}
}

func TestFailures_GiveReceiversARest(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name     string
		response Answer
		times    int // after which it rests
	}{
		{"no response", unreachable, 1},
		{"too many requests", Answer{Status: 429}, 1},
		{"server errors", Answer{Status: 500}, restAfter},
	} {
		var f failures
		for n := 1; n <= c.times; n++ {
			if f.resting(now) || f.atOnce(now) != maxInFlight {
				t.Errorf("%s: rests after %d", c.name, n-1)
			}
			f.note(c.response, now)
		}
		if !f.resting(now) || f.atOnce(now) != 0 {
			t.Errorf("%s: no rest after %d", c.name, c.times)
		}
		backoffs := f.backoffs
		if f.note(c.response, now); f.backoffs != backoffs {
			t.Errorf("%s: an attempt at the same time made the rest longer", c.name)
		}
		later := f.nextAttemptAt
		if f.resting(later) || f.atOnce(later) != 1 {
			t.Errorf("%s: %d at once after the rest, want 1", c.name, f.atOnce(later))
		}
		if f.note(c.response, later); f.backoffs != backoffs+1 {
			t.Errorf("%s: another failure gave no longer rest", c.name)
		}
		if f.note(delivered, later); f != (failures{}) {
			t.Errorf("%s: a success left %+v", c.name, f)
		}
	}
	var f failures
	for range 100 {
		f.note(Answer{Status: 404}, now)
		f.note(refused, now)
	}
	if f.resting(now) {
		t.Error("a receiver that refuses events rests")
	}
}

func TestFailures_BreakAfterADay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var f failures
	for range brokenAfter - 1 {
		f.note(unreachable, now)
	}
	if f.broken(now.Add(giveUpAfter)) {
		t.Error("broken after few attempts")
	}
	f.note(unreachable, now)
	if f.broken(now.Add(giveUpAfter-time.Second)) || !f.broken(now.Add(giveUpAfter)) {
		t.Error("not broken after exactly a day")
	}
}

func TestRetryAfter_IsBounded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-5": 0, "0": 0, "7": 7 * time.Second, "99999999999999999999": 0, "999999999": maxRetryAfter,
		now.Add(time.Minute).Format(http.TimeFormat):     time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):    0,
		now.Add(100 * time.Hour).Format(http.TimeFormat): maxRetryAfter,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}
