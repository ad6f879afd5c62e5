package route

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimiter_CountsAnExactSlidingSecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		now := time.Unix(1_000_000, 0)
		l := NewLimiter(func() time.Time { return now })
		var accepted []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			within := 0
			for _, at := range accepted {
				if now.Sub(at) < time.Second {
					within++
				}
			}
			s := l.Take("key", limit)
			if s.Refused != (within >= limit) {
				t.Fatalf("%d of %d within the last second: refused %v", within, limit, s.Refused)
			}
			if !s.Refused {
				accepted = append(accepted, now)
				within++
			}
			if s.Current != within || s.Limit != limit {
				t.Fatalf("standing %+v, want %d of %d", s, within, limit)
			}
		}
	})
}

func TestLimiter_ForgetsKeysThatStoppedAsking(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := NewLimiter(func() time.Time { return now })
	for i := range 100 {
		l.Take(string(rune('a'+i)), 10)
	}
	now = now.Add(time.Minute)
	l.Take("last", 10)
	if len(l.recent) != 1 {
		t.Fatalf("%d keys are remembered, want 1", len(l.recent))
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := NewLimiter(time.Now)
	for b.Loop() {
		l.Take("key", 1_000_000)
	}
}
