package joblog_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
)

// BenchmarkMillionLines reads a sealed log of a million lines: lines at random places, its outline, and a search.
func BenchmarkMillionLines(b *testing.B) {
	w := benchFixture(b)
	job := w.run()
	text := buildLog(78_000_000)
	for at := 0; at < len(text); at += 1 << 20 {
		w.add(job, int64(at), string(text[at:min(len(text), at+1<<20)]))
	}
	w.end(job)
	w.WantNoError(w.logs.Seal(context.Background(), job))
	lines, err := w.open(job).Lines(context.Background())
	w.WantNoError(err)
	if lines != int64(bytes.Count(text, []byte{'\n'})+1) || lines < 1_000_000 {
		b.Fatalf("the log has %d lines", lines)
	}
	random := rand.New(rand.NewPCG(3, 4))
	b.Run("rows", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rows, err := w.open(job).Rows(context.Background(), random.Int64N(lines-200), 200)
			if err != nil || len(rows) != 200 {
				b.Fatalf("%d rows, %v", len(rows), err)
			}
		}
	})
	b.Run("search", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if found, err := w.open(job).Search(context.Background(), "[999999/"); err != nil || found.Total != 1 {
				b.Fatalf("%+v, %v", found, err)
			}
		}
	})
	b.Run("outline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			// A replica that has not read the log before.
			other := newFixture(b, w.Server, w.blobs)
			l, err := other.logs.Open(context.Background(), job)
			w.WantNoError(err)
			if o, err := l.Outline(context.Background()); err != nil || o.Lines != lines {
				b.Fatalf("%d lines, %v", o.Lines, err)
			}
		}
	})
}
