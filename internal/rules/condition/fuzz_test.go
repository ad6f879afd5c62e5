package condition

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

// FuzzParse checks that any text gives either a condition that can be parenthesized and negated, or an error with
// a position in the text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`build.branch == "main" || build.tag =~ /^v\d+\/x/i`,
		`!(build.pull_request.labels includes 'a\'b') && build.env("A") != null`,
		`["a", "b"] includes build.source // why`, `((true) == !false)`, `build.number == 42`,
		`build.message !~ /[skip(/`, `"\`, `/`, `//`, `[`, `build.env(`, "\xff", `=~`, `"a" =~ /(a{9}){99}/`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			wrong, ok := errors.AsType[*Error](err)
			if !ok || wrong.Message == "" || wrong.Line < 1 || wrong.Line > strings.Count(text, "\n")+1 || wrong.Column < 1 || wrong.Column > len(text)+1 {
				t.Fatalf("the error is %#v", err)
			}
			return
		}
		if len(text) > maxLength/2 {
			return
		}
		for _, context := range []*Context{{}, tag(), pullRequest()} {
			holds := c.Eval(context)
			for wrapped, want := range map[string]bool{"(" + text + "\n)": holds, "!(" + text + "\n)": !holds, "true && (" + text + "\n)": holds} {
				again, err := Parse(wrapped)
				if err != nil {
					if strings.Contains(err.Error(), "nested") {
						continue
					}
					t.Fatalf("%s: %v", wrapped, err)
				}
				if again.Eval(context) != want {
					t.Fatalf("%q is %v, and %q too", text, holds, wrapped)
				}
			}
		}
	})
}

// BenchmarkEval evaluates a condition with three comparisons and reports how many times longer that takes than its
// regular expression alone.
func BenchmarkEval(b *testing.B) {
	c, err := Parse(`build.source == "webhook" && build.pull_request.draft && build.branch =~ /^feature\/[a-z]+$/`)
	if err != nil {
		b.Fatal(err)
	}
	context := pullRequest()
	pattern := regexp.MustCompile(`^feature\/[a-z]+$`)
	b.ReportAllocs()

	const times = 1000 // one evaluation is shorter than the clock's resolution
	var bare, whole time.Duration
	for b.Loop() {
		start := time.Now()
		for range times {
			if !pattern.MatchString(context.Build.Branch) {
				b.Fatal("no match")
			}
		}
		middle := time.Now()
		for range times {
			if !c.Eval(context) {
				b.Fatal("does not hold")
			}
		}
		bare += middle.Sub(start)
		whole += time.Since(middle)
	}
	b.ReportMetric(whole.Seconds()/bare.Seconds(), "time/bare-regexp")
	b.ReportMetric(float64(whole.Nanoseconds())/float64(b.N*times), "ns/eval")
}
