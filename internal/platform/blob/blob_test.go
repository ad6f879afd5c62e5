package blob

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheck_WritesReadsAndDeletesInAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "blobs")
	store, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

func TestCheck_ReportsWhichFolderCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	store, err := Open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	wantError(t, store.Check(t.Context()), "cannot write to the folder "+dir, "no such file or directory")
}

func TestOpen_ReportsWhenAFolderCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, "blobs"))
	wantError(t, err, "cannot make the folder for blobs", "not a directory")
}

func TestCheck_WritesReadsAndDeletesInABucket(t *testing.T) {
	withCredentials(t)
	server := startObjectStore(t, "acme-blobs")
	store := open(t, "s3://acme-blobs/some/folder?region=eu-west-1&endpoint="+server.URL)
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := server.objects(t, "acme-blobs"); left != 0 {
		t.Errorf("%d objects left behind", left)
	}
	for i, method := range []string{"PUT", "GET", "DELETE"} {
		if i >= len(server.requests) || !strings.HasPrefix(server.requests[i], method+" /acme-blobs/some/folder/stackyard-check-") {
			t.Errorf("the requests were %q", server.requests)
			break
		}
	}
}

func TestCheck_TakesTheEndpointFromTheEnvironment(t *testing.T) {
	withCredentials(t)
	server := startObjectStore(t, "acme-blobs")
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	t.Setenv("AWS_DEFAULT_REGION", "eu-central-1")
	if err := open(t, "s3://acme-blobs").Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCheck_ReportsWhatToDo(t *testing.T) {
	withCredentials(t)
	server := startObjectStore(t, "acme-blobs")
	const gone = "http://127.0.0.1:1"

	for name, c := range map[string]struct {
		bucket, endpoint string
		want             []string
	}{
		"missing bucket": {"other-blobs", server.URL,
			[]string{"cannot write to s3://other-blobs", server.URL + ` has no bucket "other-blobs"; create it`}},
		"unreachable": {"acme-blobs", gone,
			[]string{"cannot reach " + gone, "connection refused"}},
		"denied": {"acme-blobs", startRefusing(t, 403, "AccessDenied"),
			[]string{"denies access (AccessDenied)", "put, get and delete"}},
		"wrong secret": {"acme-blobs", startRefusing(t, 403, "SignatureDoesNotMatch"),
			[]string{"check AWS_SECRET_ACCESS_KEY"}},
		"expired session": {"acme-blobs", startRefusing(t, 400, "InvalidToken"),
			[]string{"renew AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"}},
		"wrong clock": {"acme-blobs", startRefusing(t, 403, "RequestTimeTooSkewed"),
			[]string{"clock is wrong"}},
		"wrong region": {"acme-blobs", startRefusing(t, 400, "AuthorizationHeaderMalformed"),
			[]string{`not in the region "us-east-1"`}},
		"something else": {"acme-blobs", startRefusing(t, 507, "InsufficientStorage"),
			[]string{"answered 507 InsufficientStorage: As the store puts it."}},
	} {
		t.Run(name, func(t *testing.T) {
			err := open(t, "s3://"+c.bucket+"?endpoint="+c.endpoint).Check(t.Context())
			wantError(t, err, c.want...)
		})
	}
}

func TestCheck_ReportsWhenTheAccessKeyIsUnknown(t *testing.T) {
	withCredentials(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "another-key")
	server := startObjectStore(t, "acme-blobs")
	err := open(t, "s3://acme-blobs?endpoint="+server.URL).Check(t.Context())
	wantError(t, err, "does not know the access key; check AWS_ACCESS_KEY_ID")
	if left := server.objects(t, "acme-blobs"); left != 0 {
		t.Errorf("%d objects were written", left)
	}
}

func TestCheck_ReportsWhichRightIsMissing(t *testing.T) {
	withCredentials(t)
	for method, verb := range map[string]string{"PUT": "write to", "GET": "read from", "DELETE": "delete from"} {
		server := startObjectStore(t, "acme-blobs")
		server.denied = method
		err := open(t, "s3://acme-blobs?endpoint="+server.URL).Check(t.Context())
		wantError(t, err, "cannot "+verb+" s3://acme-blobs", "denies access (AccessDenied)")
		if left := server.objects(t, "acme-blobs"); left != 0 && method != "DELETE" {
			t.Errorf("without %s, %d objects are left behind", method, left)
		}
	}
}

func TestCheck_GivesUpOnAStoreThatHangs(t *testing.T) {
	withCredentials(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-release
	}))
	defer server.Close()
	defer close(release)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := open(t, "s3://acme-blobs?endpoint="+server.URL).Check(ctx)
	wantError(t, err, server.URL+" did not answer in time")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func open(t *testing.T, rawURL string) *Store {
	t.Helper()
	store, err := Open(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not say %q", err, part)
		}
	}
}
