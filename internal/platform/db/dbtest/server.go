package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Server is a PostgreSQL server that belongs to this test process.
type Server struct {
	folder string
	life   io.Closer // ends the server when closed; the end of the process closes it too
	gone   chan struct{}
	admin  *pgxpool.Pool
}

// keeper starts the server and ends it, as a crash would, when its own standard input ends. The
// other end of that pipe is held by the test process alone, so the server ends with it, even if it
// is killed.
const keeper = `
folder=$1; shift
"$@" >"$folder/log" 2>&1 </dev/null &
server=$!
read -r _
kill -QUIT $server
wait $server
rm -rf "$folder"
`

// StartServer starts a server with settings of its own, such as fsync, and makes a template in it.
// Most tests want the shared one of [New].
func StartServer(settings map[string]string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	below := "" // on a disk, where durable means something
	if settings["fsync"] == "off" {
		below = memoryFolder()
	}
	folder, err := makeCluster(below, bin, who)
	if err != nil {
		return nil, err
	}
	args := []string{"-c", keeper, "sh", folder, filepath.Join(bin, "postgres"), "-D", filepath.Join(folder, "cluster"), "-k", folder,
		"-c", "listen_addresses=", "-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c", "autovacuum=off",
		"-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "log_min_messages=warning", "-c", "deadlock_timeout=20ms"}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = who.attributes()
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{folder: folder, life: life, gone: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(s.gone)
	}()
	if err := s.start(); err != nil {
		log, _ := os.ReadFile(filepath.Join(folder, "log"))
		s.Stop()
		return nil, fmt.Errorf("PostgreSQL did not start: %w\n%s", err, log)
	}
	return s, nil
}

// Stop ends the server at once and deletes what it stored.
func (s *Server) Stop() {
	s.life.Close()
	<-s.gone
}

// Folder is where the server stores everything, its log included.
func (s *Server) Folder() string { return s.folder }

// URL returns the address of one database of the server.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		RawQuery: url.Values{"host": {s.folder}}.Encode(),
	}
	return u.String()
}

// start waits until the server answers and makes the template.
func (s *Server) start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s.admin, err = pgxpool.New(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	for err = s.admin.Ping(ctx); err != nil; err = s.admin.Ping(ctx) {
		select {
		case <-s.gone:
			return errors.New("the server ended")
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
	if _, err := s.admin.Exec(ctx, `CREATE DATABASE `+template); err != nil {
		return err
	}
	return migrate(s.URL(template))
}
