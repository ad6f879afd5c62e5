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

// Server is a PostgreSQL server of this test process.
type Server struct {
	folder string
	life   io.WriteCloser // stops the server when closed; the end of the process closes it too
	gone   chan struct{}
	admin  *pgxpool.Pool
}

// supervisor starts the server and kills it, as in a crash, when its standard input ends. Only the test process
// has the other end of that pipe, so the server ends with it, even if it is killed. For each line on its standard
// input it kills the server and starts it again.
const supervisor = `
folder=$1; shift
"$@" >"$folder/log" 2>&1 </dev/null &
server=$!
while read -r _; do
	kill -QUIT $server
	wait $server
	"$@" >>"$folder/log" 2>&1 </dev/null &
	server=$!
done
kill -QUIT $server
wait $server
rm -rf "$folder"
`

// StartServer starts a server with its own settings, for example fsync, and creates a template in it. Most
// tests use the shared one of [New].
func StartServer(settings map[string]string) (*Server, error) {
	bin, who, err := installed()
	if err != nil {
		return nil, err
	}
	below := "" // on a disk, for tests of durability
	if settings["fsync"] == "off" {
		below = memoryFolder()
	}
	folder, err := makeCluster(below, bin, who)
	if err != nil {
		return nil, err
	}
	s, err := launch(bin, who, folder, settings)
	if err != nil {
		return nil, err
	}
	return s, s.orStop(s.createTemplate())
}

// installed returns the folder of the PostgreSQL binaries, and the account that runs them.
func installed() (bin string, who *account, err error) {
	if bin, err = binaries(); err != nil {
		return "", nil, err
	}
	who, err = unprivileged()
	return bin, who, err
}

// launch starts a server on the cluster in a folder, and waits until it answers.
func launch(bin string, who *account, folder string, settings map[string]string) (*Server, error) {
	args := []string{"-c", supervisor, "sh", folder, filepath.Join(bin, "postgres"), "-D", filepath.Join(folder, "cluster"), "-k", folder,
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
	return s, s.orStop(s.waitReady())
}

// orStop stops the server if there is an error, to which it adds the server's log.
func (s *Server) orStop(err error) error {
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(s.folder, "log"))
	s.Stop()
	return fmt.Errorf("PostgreSQL did not start: %w\n%s", err, log)
}

// Stop kills the server and deletes its files, if that has not been done.
func (s *Server) Stop() {
	s.life.Close()
	<-s.gone
}

// Crash stops the server without a checkpoint, as after kill -9, starts it again, and waits until it has recovered.
func (s *Server) Crash(ctx context.Context) error {
	started := func() (at time.Time, err error) {
		err = s.admin.QueryRow(ctx, `SELECT pg_postmaster_start_time()`).Scan(&at)
		return at, err
	}
	before, err := started()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(s.life, "\n"); err != nil {
		return err
	}
	for {
		if at, err := started(); err == nil && !at.Equal(before) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Folder returns the folder with all files of the server, its log included.
func (s *Server) Folder() string { return s.folder }

// URL returns the URL of a database of the server.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		RawQuery: url.Values{"host": {s.folder}}.Encode(),
	}
	return u.String()
}

// waitReady waits until the server answers.
func (s *Server) waitReady() (err error) {
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
	return nil
}

// createTemplate creates the migrated database that others are copies of.
func (s *Server) createTemplate() error {
	if _, err := s.admin.Exec(context.Background(), `CREATE DATABASE `+template); err != nil {
		return err
	}
	return migrate(s.URL(template))
}
