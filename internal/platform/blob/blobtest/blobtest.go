// Package blobtest gives tests fresh stores of every kind.
package blobtest

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/platform/blob"
)

// Each runs a test on every kind of store.
func Each(t *testing.T, fn func(t *testing.T, s *blob.Store)) {
	t.Helper()
	t.Run("folder", func(t *testing.T) { fn(t, Folder(t)) })
	t.Run("bucket", func(t *testing.T) { fn(t, Bucket(t)) })
}

// Folder returns a store in a folder that is deleted after the test.
func Folder(t testing.TB) *blob.Store {
	t.Helper()
	return open(t, t.TempDir())
}

// Bucket returns a store in a bucket of an object store in this process.
func Bucket(t testing.TB) *blob.Store {
	t.Helper()
	const bucket = "acme-blobs"
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return open(t, "s3://"+bucket+"?endpoint="+server.URL)
}

func open(t testing.TB, url string) *blob.Store {
	t.Helper()
	s, err := blob.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
