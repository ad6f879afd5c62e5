package jobapi

import (
	"net/url"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/seal"
)

func TestURLSigner_AcceptsOneSubjectForAWhile(t *testing.T) {
	now := core.SystemClock()
	l := newURLSigner(seal.NewKey(), "https://ci.test", "", func() time.Time { return now })
	other := newURLSigner(seal.NewKey(), "https://ci.test", "", func() time.Time { return now })
	given := l.sign(time.Minute, "form", "a", "b")
	if err := l.verify(given, "form", "a", "b"); err != nil {
		t.Fatal(err)
	}
	for name, about := range map[string][]string{"another thing": {"form", "a", "c"}, "less": {"form", "a"}, "joined": {"form", "ab"}, "more": {"form", "a", "b", ""}} {
		if err := l.verify(given, about...); err != errInvalidURL {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := other.verify(given, "form", "a", "b"); err != errInvalidURL {
		t.Errorf("another key: %v", err)
	}
	now = now.Add(time.Minute + time.Second)
	if err := l.verify(given, "form", "a", "b"); err != errExpiredURL {
		t.Errorf("later: %v", err)
	}
}

func FuzzURLSigner(f *testing.F) {
	f.Add("expires=1&signature=x", "artifacts")
	f.Add("", "")
	l := newURLSigner(seal.NewKey(), "https://ci.test", "", core.SystemClock)
	f.Fuzz(func(t *testing.T, query, about string) {
		given, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if l.verify(given, about) == nil {
			t.Errorf("%q is good for %q", query, about)
		}
	})
}
