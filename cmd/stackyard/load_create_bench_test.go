package main

import (
	"fmt"
	"testing"
	"time"

	"stackyard/internal/platform/db"
)

// createSizes are the numbers of unfinished builds beside which builds are created.
var createSizes = []int{100, 5_000, 30_000}

// createdEach is how many builds are created beside each number of unfinished builds.
const createdEach = 1_000

const loadBuild = `{"commit": "0123456789012345678901234567890123456789", "branch": "main", "message": "load"}`

// benchmarkCreate measures how the cost of creating a build grows with the unfinished builds of its pipeline.
func benchmarkCreate(b *testing.B, engine db.Engine) {
	for b.Loop() {
		database := loadDatabase(b, engine)
		apply(b, database, loadFile)
		p := serveOn(b, database)
		var unfinished int
		var first, last time.Duration // CPU for each create
		for _, size := range createSizes {
			createBuilds(b, p, size-unfinished)
			before, cpu, began := p.counts(b), p.cpu(b), time.Now()
			createBuilds(b, p, createdEach)
			took, used := time.Since(began), p.cpu(b)-cpu
			after := p.counts(b)
			unfinished = size + createdEach
			last = used / createdEach
			if first == 0 {
				first = last
			}
			b.ReportMetric(createdEach/took.Seconds(), fmt.Sprintf("builds/s-beside-%d", size))
			b.ReportMetric(used.Seconds()*1000/createdEach, fmt.Sprintf("server-CPU-ms/build-beside-%d", size))
			b.ReportMetric((after["statements"]-before["statements"])/createdEach, fmt.Sprintf("statements/build-beside-%d", size))
		}
		b.ReportMetric(last.Seconds()/first.Seconds(), "CPU-beside-most/CPU-beside-fewest")
		b.ReportMetric(float64(p.kernelCount(b, "status", "VmRSS"))/1024, "MB-RSS")
		p.kill()
	}
	b.ReportMetric(0, "ns/op")
}

// createBuilds creates a number of builds, several at the same time.
func createBuilds(b *testing.B, p *process, count int) {
	b.Helper()
	err := together(loadCreators, func(i int) error {
		r, err := dialRepeater(p.URL, "POST", pipelinesPath+"/one/builds", loadBuild, "Authorization: Bearer "+adaToken, "Content-Type: application/json")
		if err != nil {
			return err
		}
		defer r.close()
		for range (count + i) / loadCreators {
			if err := r.do(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
