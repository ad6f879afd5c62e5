package dbtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// template is the name of the database that is copied.
const template = "stackyard_template"

// durabilityOff makes writes cheap for tests that do not test crashes.
var durabilityOff = map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

// sharedServer is the server of this test process.
var sharedServer = sync.OnceValues(func() (*Server, error) { return StartServer(durabilityOff) })

func postgresURL(t testing.TB, original string) string {
	t.Helper()
	s, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return s.copy(t, original)
}

var databases atomic.Int64

// Database creates a migrated database for a test and returns its URL.
func (s *Server) Database(t testing.TB) string { return s.copy(t, template) }

// copy creates a copy of a database that is not in use, and returns its URL.
func (s *Server) copy(t testing.TB, original string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	// Copying files is faster than writing through the log when the template does not change.
	if _, err := s.admin.Exec(t.Context(), `CREATE DATABASE `+name+` TEMPLATE `+original+` STRATEGY FILE_COPY`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.admin.Exec(context.Background(), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}
