package definition

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// BenchmarkParse parses a pipeline of 1,000 steps and reports how many times longer that takes than parsing
// YAML nodes alone.
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
	b.ReportMetric(whole.Seconds()/bare.Seconds(), "time/bare-yaml")
	b.ReportMetric(float64(whole.Microseconds())/float64(b.N), "µs/parse")
}

// BenchmarkExpand expands a matrix of two dimensions and reports the time per job.
func BenchmarkExpand(b *testing.B) {
	for _, jobs := range []int{100, 1_000, 4_000} {
		values := strings.Repeat("v,", jobs/10)
		p, err := Parse([]byte(`
- label: "Test {{matrix.os}} {{matrix.shard}}"
  command: "make test OS={{matrix.os}} SHARD={{matrix.shard}}"
  env: {OS: "{{matrix.os}}", CI: "true"}
  agents: {os: "{{matrix.os}}", queue: default}
  plugins: [{"docker#v5": {image: "{{matrix.os}}:latest", environment: [A, B]}}]
  matrix: {setup: {os: [a, b, c, d, e, f, g, h, i, j], shard: [` + values + `]}, adjustments: [{with: {os: a, shard: v}, soft_fail: true}]}
`))
		if err != nil {
			b.Fatal(err)
		}
		step := p.Steps[0]
		b.Run(fmt.Sprintf("%d-jobs", jobs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := len(step.Expand()); got != jobs {
					b.Fatalf("%d jobs", got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs), "ns/job")
		})
	}
}
