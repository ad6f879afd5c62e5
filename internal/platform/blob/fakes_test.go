package blob

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// unset clears every variable that the package reads, so that tests control them.
func unset(t *testing.T) {
	t.Helper()
	for _, s := range []service{s3, gcs} {
		for _, name := range slices.Concat([]string{s.keyID, s.secret, s.sessionToken}, s.endpoints, s.regions) {
			if name != "" {
				t.Setenv(name, "")
			}
		}
	}
}

// withCredentials sets the variables of both services to the credentials of the fake store.
func withCredentials(t *testing.T) {
	t.Helper()
	unset(t)
	for _, s := range []service{s3, gcs} {
		t.Setenv(s.keyID, "known-key")
		t.Setenv(s.secret, "secret")
	}
}

// objectStore is an S3 server in this process with one access key. It records requests.
type objectStore struct {
	*httptest.Server
	backend gofakes3.Backend
	denied  string // a method that the access key cannot use

	mu       sync.Mutex
	requests []string // method and path
}

func startObjectStore(t *testing.T, buckets ...string) *objectStore {
	t.Helper()
	store := &objectStore{backend: s3mem.New()}
	for _, bucket := range buckets {
		if err := store.backend.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
	}
	fake := gofakes3.New(store.backend).Server()
	store.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		store.mu.Lock()
		store.requests = append(store.requests, r.Method+" "+r.URL.Path)
		store.mu.Unlock()
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=known-key/") {
			answerS3Error(w, http.StatusForbidden, "InvalidAccessKeyId")
			return
		}
		if r.Method == store.denied {
			answerS3Error(w, http.StatusForbidden, "AccessDenied")
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(store.Close)
	return store
}

// objects returns the number of objects in a bucket.
func (s *objectStore) objects(t *testing.T, bucket string) int {
	t.Helper()
	list, err := s.backend.ListBucket(bucket, nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Contents)
}

// startRefusing answers every request with an S3 error.
func startRefusing(t *testing.T, status int, code string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerS3Error(w, status, code)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func answerS3Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>As the store puts it.</Message><RequestId>1</RequestId></Error>`, code)
}
