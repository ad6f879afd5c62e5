package flow

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

// dense returns n steps that each depend on all earlier ones.
func dense(n int, with ...func(*Spec)) (specs []Spec) {
	var keys []string
	for i := range n {
		key := fmt.Sprint("s", i)
		specs = append(specs, command(key, append(with, dependsOn(keys...))...))
		keys = append(keys, key)
	}
	return specs
}

// allocated returns the bytes that fn allocates.
func allocated(fn func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

func TestCost_OfABuildIsLinearInItsEdges(t *testing.T) {
	for _, c := range []struct {
		name string
		with []func(*Spec)
	}{
		{"one job", nil},
		{"parallel jobs", []func(*Spec){parallel(8)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			perEdge := func(n int) float64 {
				specs := dense(n, c.with...)
				bytes := allocated(func() {
					s := begin(t, specs...)
					s.finish("s0", 1) // stops all the others
				})
				return bytes / float64(n*(n-1)/2)
			}
			few, many := perEdge(100), perEdge(400)
			t.Logf("%.0f bytes per edge of 100 steps, %.0f of 400", few, many)
			if many > 1.5*few {
				t.Errorf("an edge costs %.0f bytes among 400 steps and %.0f among 100", many, few)
			}
		})
	}
}

func TestEdges_AreBounded(t *testing.T) {
	refused := func(err error) {
		t.Helper()
		if core.KindOf(err) != core.Unprocessable || !strings.Contains(err.Error(), "100000 dependencies") {
			t.Errorf("got error %v, want a refusal that names the limit", err)
		}
	}
	m := newMemory()
	refused(m.do(func(r *Run) error { return r.Begin(dense(620)) }))

	s := begin(t, append(dense(440), command("uploader", dependsOn()))...) // 96580 edges
	s.start("uploader")
	upload := func(specs ...Spec) error {
		return s.try("uploader", func(r *Run, id string) error { return r.AddSteps(id, specs, false) })
	}
	var keys []string
	for i := range 440 {
		keys = append(keys, fmt.Sprint("s", i))
	}
	for i := range 7 {
		s.must(upload(command(fmt.Sprint("u", i), dependsOn(keys...))))
	}
	refused(upload(command("u7", dependsOn(keys...))))
	s.must(upload(command("last", dependsOn("s0"))))
	s.must(s.verify())
}

func TestCycles_AcrossUploadsAreBrokenWithoutFetchingTheBuildAgain(t *testing.T) {
	const cycles = 200
	var first, second []Spec
	for i := range cycles {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		first = append(first, command(a, dependsOn(b)))
		second = append(second, command(b, dependsOn(a)))
	}
	s := begin(t, append(first, command("uploader", dependsOn()))...)
	s.start("uploader")
	s.upload("uploader", second...)
	s.fetched = 0
	s.finish("uploader", 0)
	s.wantsBuild(BuildFailed)
	s.wants("a0", Broken)
	s.wants("b0", WaitingFailed)
	if most := 20 * cycles; s.fetched > most {
		t.Errorf("%d records fetched to break %d cycles, want at most %d", s.fetched, cycles, most)
	}
}
