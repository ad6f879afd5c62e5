package main

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestServe_WritesNothingWhileIdle(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p := serveOrganizations(t, "--data", folder)
	p.get(t, adaToken, pipelinesPath)
	p.settle(t, folder)
	files, written := snapshot(t, folder), p.kernelCount(t, "io", "write_bytes")
	time.Sleep(2 * time.Second) // idle means that time passes
	if now := p.kernelCount(t, "io", "write_bytes"); now != written {
		t.Errorf("%d bytes were written", now-written)
	}
	if now := snapshot(t, folder); now != files {
		t.Errorf("the data folder was\n%s\nand is\n%s", files, now)
	}
}

// settle waits until the process has finished its startup work.
func (p *process) settle(t testing.TB, folder string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		before := snapshot(t, folder)
		time.Sleep(300 * time.Millisecond)
		if snapshot(t, folder) == before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it never comes to rest")
		}
	}
}

// snapshot lists the files of a directory with their modification times.
func snapshot(t testing.TB, folder string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&list, path, file.Size(), file.ModTime().Format(time.RFC3339Nano))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

// kernelCount returns a counter of a process from a file in /proc.
func (p *process) kernelCount(t testing.TB, file, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	return 0
}

// BenchmarkServe measures the release binary: startup time, memory, and the cost of a request compared with a
// server that does nothing.
func BenchmarkServe(b *testing.B) {
	buildBinary(b)
	b.Run("StartOnAnEmptyFolder", benchmarkStart)
	b.Run("Idle", benchmarkIdle)
	b.Run("GetPipeline", benchmarkGet)
}

func benchmarkStart(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		folder := b.TempDir()
		began := time.Now()
		p := start(b, "serve", "--listen", "127.0.0.1:0", "--data", folder)
		took = append(took, time.Since(began))
		p.kill()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "slowest-ms")
}

func benchmarkIdle(b *testing.B) {
	var empty, used int
	for b.Loop() {
		p := start(b, "serve", "--listen", "127.0.0.1:0", "--data", b.TempDir())
		p.get(b, "", "/readyz")
		empty = max(empty, p.kernelCount(b, "status", "VmRSS"))
		p.kill()
		p = serveOrganizations(b)
		for range 500 {
			p.get(b, adaToken, pipelinesPath+"/hello")
		}
		used = max(used, p.kernelCount(b, "status", "VmRSS"))
		p.kill()
	}
	b.ReportMetric(float64(empty)/1024, "MB-when-empty")
	b.ReportMetric(float64(used)/1024, "MB-after-500-requests")
}

// benchmarkGet alternates between both servers, so that they see the same load.
func benchmarkGet(b *testing.B) {
	const path = pipelinesPath + "/hello"
	installation := []string{"--data", b.TempDir()}
	serveOrganizations(b, installation...).kill()
	apply(b, installation, "organizations: [{slug: acme, limits: {rest_requests_per_second: 0}}]")
	ours := serveOn(b, installation)
	body := ours.get(b, adaToken, path).Body
	bare := spawn(b, exec.Command("bare-server", write(b, string(body))))
	bare.waitReady(b)
	const each = 8000
	var oursTook, bareTook, oursUsed, bareUsed time.Duration
	for b.Loop() {
		cpu := bare.cpu(b)
		bareTook += getMany(b, bare, path, each)
		bareUsed += bare.cpu(b) - cpu
		cpu = ours.cpu(b)
		oursTook += getMany(b, ours, path, each)
		oursUsed += ours.cpu(b) - cpu
	}
	requests := float64(b.N * each)
	b.ReportMetric(requests/oursTook.Seconds(), "requests/s")
	b.ReportMetric(requests/bareTook.Seconds(), "bare-requests/s")
	b.ReportMetric(bareTook.Seconds()/oursTook.Seconds(), "rate/bare-server")
	b.ReportMetric(oursUsed.Seconds()*1000/requests, "server-CPU-ms/request")
	b.ReportMetric(bareUsed.Seconds()*1000/requests, "bare-CPU-ms/request")
	b.ReportMetric(0, "ns/op")
}

// getMany gets a path n times over 16 connections.
func getMany(b *testing.B, p *process, path string, n int) time.Duration {
	b.Helper()
	const connections = 16
	began := time.Now()
	err := together(connections, func(int) error {
		r, err := dialRepeater(p.URL, "GET", path, "", "Authorization: Bearer "+adaToken)
		if err != nil {
			return err
		}
		defer r.close()
		for range n / connections {
			if err := r.do(); err != nil {
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

// bareServer responds to every request with a file.
func bareServer() {
	body, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})))
}
