package flow

import (
	"fmt"
	"testing"
)

// shapes are builds of about n jobs, by how steps divide them.
var shapes = []struct {
	name string
	make func(n int) []Spec
}{
	{"one parallel step", func(n int) []Spec {
		return steps(command("", parallel(n)))
	}},
	{"steps with waits", func(n int) (specs []Spec) {
		for range n / 2 {
			specs = append(specs, command(""), wait(""))
		}
		return specs
	}},
	{"steps between two waits", func(n int) []Spec {
		specs := steps(command(""), wait(""))
		for range n - 4 {
			specs = append(specs, command(""))
		}
		return append(specs, wait(""), command(""))
	}},
	{"a chain of dependencies", func(n int) []Spec {
		specs := steps(command("0"))
		for i := range n - 1 {
			specs = append(specs, command(fmt.Sprint(i+1), dependsOn(fmt.Sprint(i))))
		}
		return specs
	}},
}

// driveAll runs a build to its end, with four events for each job. Jobs run in the order in which they become
// ready.
func driveAll(t testing.TB, specs []Spec, status int) *memory {
	m := newMemory()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var ready []string
	event := func(do func(*Run) error) {
		must(m.do(func(r *Run) error {
			if err := do(r); err != nil {
				return err
			}
			for _, change := range r.Changes().Jobs {
				if change.Job.State == Scheduled && change.From != Scheduled {
					ready = append(ready, change.Job.ID)
				}
			}
			return nil
		}))
	}
	event(func(r *Run) error { return r.Begin(specs) })
	for len(ready) > 0 {
		id := ready[0]
		ready = ready[1:]
		event(func(r *Run) error { return r.Assign(id, "agent") })
		event(func(r *Run) error { return r.Accept(id, "") })
		event(func(r *Run) error { return r.Start(id, "") })
		event(func(r *Run) error { return r.Finish(id, "", Exit{Status: status}) })
	}
	if !m.build.State.Ended() {
		t.Fatalf("the build is %s", m.build.State)
	}
	return m
}

func TestCost_OfAJobDoesNotGrowWithTheBuild(t *testing.T) {
	for _, shape := range shapes {
		for _, status := range []int{0, 1} { // a failure stops all at once
			cost := func(n int) float64 {
				m := driveAll(t, shape.make(n), status)
				return float64(m.fetched) / float64(len(m.jobs))
			}
			small, large := cost(100), cost(4000)
			t.Logf("%s, exit status %d: records fetched per job %.2f of 100, %.2f of 4000", shape.name, status, small, large)
			if large > small*1.25 {
				t.Errorf("%s: a job of a large build costs %.1f records, one of a small build %.1f", shape.name, large, small)
			}
		}
	}
}

func TestEdges_AreAboutAsManyAsSteps(t *testing.T) {
	var specs []Spec
	for i := range 200 {
		var members []Spec
		for j := range 10 {
			members = append(members, command(fmt.Sprintf("%d-%d", i, j)))
		}
		g := group(fmt.Sprintf("g%d", i), members)
		if i > 0 {
			dependsOn(fmt.Sprintf("g%d", i-1))(&g)
		}
		specs = append(specs, g)
	}
	s := begin(t, specs...)
	edges := 0
	for _, list := range s.dependents {
		edges += len(list)
	}
	if edges > 3*len(s.jobs) {
		t.Errorf("%d edges for %d jobs", edges, len(s.jobs))
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{100, 1000, 4000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				jobs := 0
				for b.Loop() {
					jobs += len(driveAll(b, shape.make(n), 0).jobs)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(jobs), "ns/job")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
