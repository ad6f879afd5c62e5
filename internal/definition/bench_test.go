package definition

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// BenchmarkParse reads a pipeline of 1,000 steps, and prints how many times longer that takes than
// the library alone needs for its nodes.
func BenchmarkParse(b *testing.B) {
	var s strings.Builder
	s.WriteString("env: {CI: true}\nbase: &base\n  agents: {queue: linux}\n  timeout_in_minutes: 10\nsteps:\n")
	for i := range 1000 {
		fmt.Fprintf(&s, "  - <<: *base\n    label: Test %d\n    key: test-%d\n    command: [make, make test]\n    env: {SHARD: %d}\n    retry: {automatic: [{exit_status: -1, limit: 2}]}\n", i, i, i)
	}
	source := []byte(s.String())
	b.SetBytes(int64(len(source)))
	b.ReportAllocs()

	var bare, whole time.Duration
	for b.Loop() {
		start := time.Now()
		var node yaml.Node
		if err := yaml.Unmarshal(source, &node); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if _, err := Parse(source); err != nil {
			b.Fatal(err)
		}
		bare += middle.Sub(start)
		whole += time.Since(middle)
	}
	b.ReportMetric(whole.Seconds()/bare.Seconds(), "x-bare-yaml")
	b.ReportMetric(float64(whole.Microseconds())/float64(b.N), "µs/parse")
}

// BenchmarkCondition evaluates a condition of three comparisons, and prints how many times longer
// that takes than the regular expression in it alone.
func BenchmarkCondition(b *testing.B) {
	c, err := ParseCondition(`build.source == "webhook" && build.pull_request.draft && build.branch =~ /^feature\/[a-z]+$/`)
	if err != nil {
		b.Fatal(err)
	}
	context := pullRequest()
	pattern := regexp.MustCompile(`^feature\/[a-z]+$`)
	b.ReportAllocs()

	const times = 1000 // to measure more than the clock
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
	b.ReportMetric(whole.Seconds()/bare.Seconds(), "x-bare-regexp")
	b.ReportMetric(float64(whole.Nanoseconds())/float64(b.N*times), "ns/eval")
}
