package buildexports_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

// The Versity gateway is an S3 server that keeps objects as files. The test runs if STACKYARD_TEST_VERSITYGW is the path
// of its binary (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0).
func TestExport_ToTheVersityGateway(t *testing.T) {
	binary := os.Getenv("STACKYARD_TEST_VERSITYGW")
	if binary == "" {
		t.Skip("STACKYARD_TEST_VERSITYGW is not set")
	}
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		folder, address := t.TempDir(), freeAddress(t)
		if err := os.Mkdir(filepath.Join(folder, "builds"), 0o755); err != nil {
			t.Fatal(err)
		}
		gateway := exec.Command(binary, "--access", "key", "--secret", "a secret of the test", "--port", address, "posix", folder)
		gateway.Stdout, gateway.Stderr = t.Output(), t.Output()
		if err := gateway.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { gateway.Process.Kill(); gateway.Wait() })
		waitFor(t, address)
		t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+address)
		t.Setenv("AWS_REGION", "us-east-1")
		t.Setenv("AWS_ACCESS_KEY_ID", "key")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "a secret of the test")
		t.Setenv("AWS_SESSION_TOKEN", "")

		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)}
		w.exportTo("s3://builds/ci")
		b := w.create("small", "large")
		small, large := b.String("jobs.0.id"), b.String("jobs.1.id")
		w.run(small, "hello\n", "0")
		long := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
		job := w.agent.Acquire(large).Start()
		const chunks = 20 // more than two parts of an upload
		for i := range chunks {
			printAt(job, i+1, i*len(long), long)
		}
		job.Finish("0")
		w.pass(6 * time.Minute)
		exported, err := filepath.Glob(filepath.Join(folder, "builds/ci/stackyard-exports/acme/*/hello", b.String("id")))
		if err != nil || len(exported) != 1 {
			t.Fatalf("folders %q, error %v", exported, err)
		}
		for name, want := range map[string]string{"logs/" + small + ".log": "hello\n", "logs/" + large + ".log": strings.Repeat(long, chunks)} {
			if got, err := os.ReadFile(filepath.Join(exported[0], name)); err != nil || string(got) != want {
				t.Errorf("%s has %d bytes, want %d; error %v", name, len(got), len(want), err)
			}
		}
		manifest, err := os.ReadFile(filepath.Join(exported[0], "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range decode(t, string(manifest)).(map[string]any)["files"].([]any) {
			f := f.(map[string]any)
			if at, err := os.Stat(filepath.Join(exported[0], f["name"].(string))); err != nil || float64(at.Size()) != f["size"] {
				t.Errorf("%v: error %v", f, err)
			}
		}
		w.wantPending(0)
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// waitFor waits until an address accepts connections, or the test is out of time.
func waitFor(t *testing.T, address string) {
	t.Helper()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
