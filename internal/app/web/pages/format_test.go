package pages

import (
	"testing"
	"time"
)

func TestDistance(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0:                     "just now",
		-59 * time.Second:     "just now",
		-time.Minute:          "1 minute ago",
		-5 * time.Minute:      "5 minutes ago",
		-time.Hour:            "1 hour ago",
		-47 * time.Hour:       "1 day ago",
		-13 * 24 * time.Hour:  "13 days ago",
		-14 * 24 * time.Hour:  "on 15 February 2026",
		20 * time.Second:      "in a minute",
		10 * time.Minute:      "in 10 minutes",
		30 * 24 * time.Hour:   "on 31 March 2026",
		3 * 24 * time.Hour:    "in 3 days",
		-365 * 24 * time.Hour: "on 1 March 2025",
	} {
		if got := distance(now, now.Add(d)); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestBrowserName(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0":                                                                  "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0":           "Edge on Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15":                   "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36":                   "Chrome on Android",
		"curl/8.5.0":                  "curl/8.5.0",
		"stackyard/1.0 (linux amd64)": "stackyard/1.0",
		"":                            "an unknown program",
	} {
		if got := browserName(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                     "0ms",
		340 * time.Millisecond:           "340ms",
		1234 * time.Millisecond:          "1.2s",
		42 * time.Second:                 "42s",
		3*time.Minute + 12*time.Second:   "3m 12s",
		26*time.Hour + 59*time.Minute:    "26h 59m",
		time.Hour - 400*time.Millisecond: "59m 59s",
	} {
		if got := Length(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 256 << 10: "256 KiB", 5 << 20: "5 MiB", 3 << 30: "3 GiB", 1 << 40: "1024 GiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
