package joblog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestUnion(t *testing.T) {
	for _, c := range []struct{ given, want []span }{
		{nil, nil},
		{[]span{{3, 3}}, nil},
		{[]span{{5, 9}, {0, 5}}, []span{{0, 9}}},
		{[]span{{0, 9}, {2, 4}, {12, 13}, {9, 10}}, []span{{0, 10}, {12, 13}}},
	} {
		if got := union(c.given); !slices.Equal(got, c.want) {
			t.Errorf("%v become %v, want %v", c.given, got, c.want)
		}
	}
}

// describe formats a content, for example "0+10 [5 bytes…] 15+5".
func describe(parts []part) string {
	var texts []string
	at := int64(0)
	for _, p := range parts {
		text := fmt.Sprintf("%d+%d", p.raw, p.size)
		if p.marker != "" {
			text = strings.TrimSpace(p.marker)
		}
		if p.at != at {
			text += " at the wrong place"
		}
		at += p.size
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

func TestLayout(t *testing.T) {
	l := limits{head: 100, tail: 20}
	for _, c := range []struct {
		known          []span
		running, ended string
	}{
		{nil, "", ""},
		{[]span{{0, 10}}, "0+10", "0+10"},
		{[]span{{5, 10}}, "", "[5 bytes of the log are missing here] 5+5"},
		{[]span{{0, 10}, {20, 30}}, "0+10", "0+10 [10 bytes of the log are missing here] 20+10"},
		{[]span{{0, 100}}, "0+100", "0+100"},
		{[]span{{0, 120}}, "0+100", "0+120"},
		{[]span{{0, 121}}, "0+100", "0+100 [1 bytes of the log are missing here] 101+20"},
		{[]span{{0, 90}, {5000, 6000}}, "0+90", "0+90 [5,890 bytes of the log are missing here] 5980+20"},
		{[]span{{0, 90}, {95, 110}, {130, 140}}, "0+90",
			"0+90 [5 bytes of the log are missing here] 95+5 [30 bytes of the log are missing here] 130+10"},
	} {
		if got := describe(l.layout(c.known, false)); got != c.running {
			t.Errorf("%v, running: %s, want %s", c.known, got, c.running)
		}
		if got := describe(l.layout(c.known, true)); got != c.ended {
			t.Errorf("%v, ended: %s, want %s", c.known, got, c.ended)
		}
	}
}

func TestGroupDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := groupDigits(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
