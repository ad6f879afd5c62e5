package dbtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// template is the name of the database that others are copies of.
const template = "stackyard_template"

var databases atomic.Int64

// sharedServer is the server of this test process, with a migrated template.
var sharedServer = sync.OnceValues(func() (*Server, error) {
	s, err := StartServer(map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
	if err != nil {
		return nil, err
	}
	return s, s.prepare()
})

// prepare makes the template.
func (s *Server) prepare() error {
	if err := s.run(`CREATE DATABASE ` + template); err != nil {
		return err
	}
	return migrate(s.URL(template))
}

func postgresURL(t testing.TB) string {
	t.Helper()
	s, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// Database makes a migrated database for a test, and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := s.run(`CREATE DATABASE ` + name + ` TEMPLATE ` + template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.run(`DROP DATABASE ` + name + ` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}

// run executes a statement that no transaction may hold.
func (s *Server) run(statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}
