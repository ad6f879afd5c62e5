package joblog_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/route"
)

func benchFixture(b *testing.B) *fixture {
	b.Helper()
	s := servertest.Start(b, dbtest.New(b, db.SQLite))
	s.Apply(servertest.World)
	return newFixture(b, s, s.Blobs)
}

// buildLog returns lines of a typical log.
func buildLog(size int) []byte {
	var b bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "\x1b_bk;t=%d\x07[%d/9999] compile internal/part%d/file_%x.go\r\n", 1700000000000+n, n, random.IntN(50), random.Uint32())
	}
	return b.Bytes()[:size]
}

const (
	chunkSize    = 100 << 10
	ingestJobs   = 8
	ingestAtOnce = 3 // concurrent uploads of a job, like agents
)

// BenchmarkIngest sends chunks of many jobs over HTTP. It compares the time with a handler that only unpacks
// them and writes one file per job, without durability and without a database.
func BenchmarkIngest(b *testing.B) {
	w := benchFixture(b)
	var jobs []joblog.Job
	for range ingestJobs {
		jobs = append(jobs, w.run())
	}
	receive := func(r *route.Request) (route.Nothing, error) {
		var i int
		fmt.Sscan(r.PathValue("job"), &i)
		return route.Nothing{}, w.logs.Receive(r, jobs[i])
	}
	ours := httptest.NewServer(route.New(
		route.Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()},
		[]route.Route{{Method: http.MethodPost, Path: "/chunks/{job}", Auth: route.Open, Handler: route.Do(receive)}}))
	defer ours.Close()
	bare := httptest.NewServer(unpackAndWrite(b))
	defer bare.Close()

	content := buildLog(chunkSize)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	zip.Write(content)
	zip.Close()
	const chunks = 2000
	var took, baseline time.Duration
	for b.Loop() {
		took += ingest(b, ours.URL, packed.Bytes(), chunks)
		baseline += ingest(b, bare.URL, packed.Bytes(), chunks)
	}
	total := float64(b.N) * chunks * chunkSize / 1e6
	b.ReportMetric(total/took.Seconds(), "MB/s")
	b.ReportMetric(total/baseline.Seconds(), "bare-MB/s")
	b.ReportMetric(float64(baseline)/float64(took), "rate/gunzip-and-write")
	b.ReportMetric(0, "ns/op")
}

// unpackAndWrite returns a handler that appends request bodies to one file per path.
func unpackAndWrite(b *testing.B) http.Handler {
	files := map[string]*os.File{}
	dir := b.TempDir()
	for i := range ingestJobs {
		file, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { file.Close() })
		files[fmt.Sprintf("/chunks/%d", i)] = file
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unpacked, err := gzip.NewReader(r.Body)
		if err == nil {
			_, err = io.Copy(files[r.URL.Path], unpacked)
		}
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}

// ingest sends chunks and returns the time it took.
func ingest(b *testing.B, url string, packed []byte, chunks int) time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: ingestJobs * ingestAtOnce}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var senders sync.WaitGroup
	began := time.Now()
	for range ingestJobs * ingestAtOnce {
		senders.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= int64(chunks) {
					return
				}
				target := fmt.Sprintf("%s/chunks/%d?sequence=%d&offset=%d&size=%d", url, n%ingestJobs, n/ingestJobs+1, n/ingestJobs*chunkSize, chunkSize)
				req, err := http.NewRequest("POST", target, bytes.NewReader(packed))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Content-Encoding", "gzip")
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Errorf("status %d", resp.StatusCode)
					return
				}
			}
		})
	}
	senders.Wait()
	return time.Since(began)
}

// BenchmarkTail writes a log of one GiB, follows it while it grows, seals it and reads it, within 256 MiB of
// memory. It reports the peak.
func BenchmarkTail(b *testing.B) {
	const mib = 1 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 * mib))
	w := benchFixture(b)
	chunk := buildLog(mib)
	for b.Loop() {
		debug.FreeOSMemory()
		peak := watchMemory()
		job := w.run()
		path := w.paths(job)[1]
		followed := make(chan time.Time, 1)
		go func() {
			w.read(path+"/stream", "")
			followed <- time.Now()
		}()
		began := time.Now()
		for i := range int64(1024) {
			w.WantNoError(w.logs.Append(context.Background(), job, joblog.Chunk{Sequence: i, Offset: i * mib}, chunk))
		}
		written := time.Now()
		w.read(path, "bytes=-65536")
		running := time.Now()
		w.end(job)
		w.runDue()
		sealed := time.Now()
		w.read(path, "bytes=-65536")
		suffix := time.Now()
		if n := w.read(path+".txt", ""); n != 1024*mib {
			b.Fatalf("the log has %d bytes", n)
		}
		read := time.Now()
		<-followed
		b.ReportMetric(float64(peak())/mib, "peak-MiB")
		b.ReportMetric(1024/written.Sub(began).Seconds(), "written-MiB/s")
		b.ReportMetric(running.Sub(written).Seconds()*1000, "ms/suffix-running")
		b.ReportMetric(1024/sealed.Sub(running).Seconds(), "sealed-MiB/s")
		b.ReportMetric(suffix.Sub(sealed).Seconds()*1000, "ms/suffix-sealed")
		b.ReportMetric(1024/read.Sub(suffix).Seconds(), "read-MiB/s")
		w.WantNoError(w.logs.Delete(context.Background(), job))
	}
	b.ReportMetric(0, "ns/op")
}

// read reads a response to its end and returns its size.
func (w *fixture) read(path, header string) int64 {
	req, err := http.NewRequest("GET", w.URL+path, nil)
	w.WantNoError(err)
	req.Header.Set("Authorization", "Bearer "+servertest.Ada)
	if header != "" {
		req.Header.Set("Accept", "text/plain")
		req.Header.Set("Range", header)
	}
	resp, err := http.DefaultClient.Do(req)
	w.WantNoError(err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		w.T.Error(err)
	}
	return n
}

// watchMemory samples the memory use of the process. The returned function ends that and returns the peak.
func watchMemory() (most func() uint64) {
	done, result := make(chan struct{}), make(chan uint64)
	go func() {
		samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		peak := uint64(0)
		for tick := time.Tick(5 * time.Millisecond); ; {
			metrics.Read(samples)
			peak = max(peak, samples[0].Value.Uint64()-samples[1].Value.Uint64())
			select {
			case <-done:
				result <- peak
				return
			case <-tick:
			}
		}
	}()
	return func() uint64 {
		close(done)
		return <-result
	}
}

// BenchmarkLine reads random lines of sealed logs. The time must not grow with the log.
func BenchmarkLine(b *testing.B) {
	w := benchFixture(b)
	shortLog, longLog := sealedLog(w, 4<<20), sealedLog(w, 256<<20)
	var small, large time.Duration
	for b.Loop() {
		small += shortLog.readLine()
		large += longLog.readLine()
	}
	b.ReportMetric(float64(large.Microseconds())/float64(b.N), "µs/line")
	b.ReportMetric(float64(large)/float64(small), "time/small-log")
	b.ReportMetric(0, "ns/op")
}

// lineReader reads lines of a log.
type lineReader struct {
	w     *fixture
	job   joblog.Job
	lines int64
}

// sealedLog creates a sealed log of size bytes.
func sealedLog(w *fixture, size int) *lineReader {
	w.T.Helper()
	job, chunk := w.run(), buildLog(1<<20)
	for at := 0; at < size; at += len(chunk) {
		w.WantNoError(w.logs.Append(context.Background(), job, joblog.Chunk{Offset: int64(at)}, chunk))
	}
	w.end(job)
	w.runDue()
	return &lineReader{w, job, int64(bytes.Count(chunk, []byte("\n"))) * int64(size/len(chunk))}
}

// readLine reads a random line and returns the time it took.
func (r *lineReader) readLine() time.Duration {
	began := time.Now()
	l, line := r.w.open(r.job), rand.Int64N(r.lines-1)
	from, err := l.LineOffset(context.Background(), line)
	r.w.WantNoError(err)
	to, err := l.LineOffset(context.Background(), line+1)
	r.w.WantNoError(err)
	if text := r.w.part(l, from, to); !strings.HasSuffix(text, "\r\n") || to-from > 300 {
		r.w.T.Fatalf("%q is not a line", text)
	}
	return time.Since(began)
}
