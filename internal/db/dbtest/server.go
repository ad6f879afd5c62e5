package dbtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server that belongs to this test process.
type Server struct {
	folder string
	life   io.Closer // the server ends when this does, and the process's end closes it too
	gone   chan struct{}
}

// keeper starts the server and ends it when its standard input does. The write end of that pipe is
// held by the test process alone, so the server ends with it, even if it is killed.
const keeper = `
folder=$1; shift
"$@" >"$folder/log" 2>&1 </dev/null &
server=$!
read -r _
kill -QUIT $server
wait $server
rm -rf "$folder"
`

// StartServer starts a server with settings of its own, such as fsync, and waits until it answers.
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
	folder, err := makeCluster(bin, who)
	if err != nil {
		return nil, err
	}
	args := []string{"-c", keeper, "sh", folder, filepath.Join(bin, "postgres"), "-D", filepath.Join(folder, "cluster"), "-k", folder}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	for _, setting := range []string{
		"listen_addresses=", "max_connections=400", "shared_buffers=32MB", "autovacuum=off",
		"wal_level=minimal", "max_wal_senders=0", "log_min_messages=warning",
	} {
		args = append(args, "-c", setting)
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
	if err := s.waitReady(); err != nil {
		log, _ := os.ReadFile(filepath.Join(folder, "log"))
		s.Stop()
		return nil, fmt.Errorf("PostgreSQL did not start: %w\n%s", err, log)
	}
	return s, nil
}

// Stop ends the server at once, as a crash would, and deletes what it stored.
func (s *Server) Stop() {
	s.life.Close()
	<-s.gone
}

// URL returns the address of one database of the server.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User("postgres"), Path: "/" + database,
		RawQuery: url.Values{"host": {s.folder}}.Encode(),
	}
	return u.String()
}

func (s *Server) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.gone:
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// binaries returns the folder with the newest PostgreSQL server that is installed.
func binaries() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server is installed, and these tests need one: run `make test`, which installs it")
	}
	newest := slices.MaxFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return filepath.Dir(newest), nil
}

// account is who the server runs as; nil is whoever runs the tests.
type account struct{ uid, gid int }

// unprivileged returns another account when the tests run as root, whom PostgreSQL refuses.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return &account{uid, gid}, errors.Join(err1, err2)
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as")
}

// attributes runs a process as the account, in a group of its own so that an interrupt from the
// terminal reaches the tests alone.
func (a *account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// makeCluster returns a new folder, which belongs to the account, with a cluster in it.
func makeCluster(bin string, who *account) (string, error) {
	folder, err := os.MkdirTemp("", "stackyard-postgres-")
	if err != nil {
		return "", err
	}
	if who != nil {
		if err := os.Chown(folder, who.uid, who.gid); err != nil {
			return "", err
		}
	}
	// The collation of an ordinary installation: a column that forgot to sort by bytes is found out.
	cmd := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(folder, "cluster"), "-U", "postgres",
		"--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en", "--wal-segsize=1")
	cmd.Dir = "/"
	cmd.SysProcAttr = who.attributes()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, output.Bytes())
	}
	return folder, nil
}
