package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"stackyard/internal/platform/db"
)

const (
	logJobs   = 8
	logAtOnce = 3 // chunks that an agent sends at the same time
	logChunks = 2_000
	logChunk  = 100 << 10
)

// benchmarkLogs compares log ingest with a server that unpacks the same requests, writes one file for each job, and
// syncs the file before it responds.
func benchmarkLogs(b *testing.B, engine db.Engine) {
	database := loadDatabase(b, engine)
	apply(b, database, loadFile)
	p := serveOn(b, database)
	plain := spawn(b, exec.Command("plain-log-server", b.TempDir()))
	plain.waitReady(b)
	content := typicalLog(logChunk)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	zip.Write(content)
	zip.Close()
	var took, plainTook, used time.Duration
	var runs int
	before := p.counts(b)
	for b.Loop() {
		if err := largeBuild(p.URL); err != nil {
			b.Fatal(err)
		}
		agents := registerFleet(b, p.URL, logJobs)
		tokens, paths := make([]string, logJobs), make([]string, logJobs)
		for i, a := range agents {
			job, err := a.ping()
			if err != nil || job == "" {
				b.Fatalf("job %q, %v", job, err)
			}
			var accepted struct{ Token string }
			if err := a.Call("PUT", "/v3/jobs/"+job+"/accept", a.token, "", &accepted); err != nil {
				b.Fatal(err)
			}
			if err := a.Call("PUT", "/v3/jobs/"+job+"/start", accepted.Token, `{"started_at": "2026-01-02T03:04:05Z"}`, nil); err != nil {
				b.Fatal(err)
			}
			tokens[i], paths[i] = accepted.Token, "/v3/jobs/"+job+"/chunks"
		}
		plainTook += sendLogs(b, plain.URL, tokens, paths, packed.String())
		cpu := p.cpu(b)
		took += sendLogs(b, p.URL, tokens, paths, packed.String())
		used += p.cpu(b) - cpu
		runs++
	}
	after := p.counts(b)
	chunks := float64(runs * logChunks)
	b.ReportMetric(chunks*logChunk/1e6/took.Seconds(), "MB/s")
	b.ReportMetric(chunks*logChunk/1e6/plainTook.Seconds(), "plain-MB/s")
	b.ReportMetric(plainTook.Seconds()/took.Seconds(), "rate/gunzip-write-fsync")
	b.ReportMetric(used.Seconds()*1000/chunks, "server-CPU-ms/chunk")
	for _, name := range []string{"statements", "syncs"} {
		b.ReportMetric((after[name]-before[name])/chunks, name+"/chunk")
	}
	b.ReportMetric(0, "ns/op")
}

// typicalLog returns lines as build tools print them.
func typicalLog(size int) []byte {
	var text bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	for n := 0; text.Len() < size; n++ {
		fmt.Fprintf(&text, "\x1b_bk;t=%d\x07[%d/9999] compile internal/part%d/file_%x.go\r\n", 1700000000000+n, n, random.IntN(50), random.Uint32())
	}
	return text.Bytes()[:size]
}

// sendLogs sends the chunks of all jobs, in the order of each log, and returns how long that took.
func sendLogs(b *testing.B, url string, tokens, paths []string, packed string) time.Duration {
	b.Helper()
	began := time.Now()
	sent := make([]atomic.Int64, len(tokens)) // chunks, by job
	err := together(len(tokens)*logAtOnce, func(i int) error {
		job := i % len(tokens)
		conn, err := dialRepeater(url, "POST", paths[job], packed, "Authorization: Token "+tokens[job], "Content-Encoding: gzip")
		if err != nil {
			return err
		}
		defer conn.close()
		head, rest, _ := strings.Cut(string(conn.request), " HTTP/1.1")
		for n := sent[job].Add(1) - 1; n < int64(logChunks/len(tokens)); n = sent[job].Add(1) - 1 {
			conn.request = append(conn.request[:0], fmt.Sprintf("%s?sequence=%d&offset=%d&size=%d HTTP/1.1%s", head, n+1, n*logChunk, logChunk, rest)...)
			if err := conn.do(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// plainLogServer unpacks request bodies and appends them durably to one file for each path.
func plainLogServer() {
	var mu sync.Mutex
	files := map[string]*os.File{}
	open := func(path string) *os.File {
		mu.Lock()
		defer mu.Unlock()
		if files[path] == nil {
			file, err := os.Create(filepath.Join(os.Args[1], strings.ReplaceAll(path, "/", "-")))
			if err != nil {
				panic(err)
			}
			files[path] = file
		}
		return files[path]
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file := open(r.URL.Path)
		unpacked, err := gzip.NewReader(r.Body)
		if err == nil {
			var content []byte
			if content, err = io.ReadAll(unpacked); err == nil {
				if _, err = file.Write(content); err == nil {
					err = file.Sync()
				}
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})))
}
