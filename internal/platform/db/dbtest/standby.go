package dbtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// replicated are the settings of a server that others can follow.
var replicated = map[string]string{"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}

// A Pair is a primary and a standby that follows it by streaming replication. A commit on the primary waits until the
// standby has it on its disk.
type Pair struct{ Primary, Standby *Server }

// StartPair starts two servers.
func StartPair(ctx context.Context) (*Pair, error) {
	primary, err := StartServer(replicated)
	if err != nil {
		return nil, err
	}
	standby, err := primary.startStandby(ctx)
	if err != nil {
		primary.Stop()
		return nil, err
	}
	return &Pair{primary, standby}, nil
}

// URL returns the URL of a migrated database on the server that accepts writes.
func (p *Pair) URL() string {
	hosts := url.Values{"host": {p.Primary.folder + "," + p.Standby.folder}, "target_session_attrs": {"read-write"}}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + template, RawQuery: hosts.Encode()}
	return u.String()
}

// Stop ends both servers.
func (p *Pair) Stop() {
	p.Primary.Stop()
	p.Standby.Stop()
}

// Promote makes the standby the primary, and returns once it accepts writes.
func (p *Pair) Promote(ctx context.Context) error {
	_, err := p.Standby.admin.Exec(ctx, `SELECT pg_promote()`)
	return err
}

// startStandby starts a server that follows s.
func (s *Server) startStandby(ctx context.Context) (*Server, error) {
	bin, who, err := installed()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "stackyard-postgres-")
	if err != nil {
		return nil, err
	}
	if err := who.own(folder); err != nil {
		return nil, err
	}
	copying := exec.CommandContext(ctx, filepath.Join(bin, "pg_basebackup"), "-h", s.folder, "-U", "postgres", "-D", filepath.Join(folder, "cluster"),
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	copying.Dir = "/"
	copying.SysProcAttr = who.attributes()
	if output, err := copying.CombinedOutput(); err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, output)
	}
	standby, err := launch(bin, who, folder, replicated)
	if err != nil {
		return nil, err
	}
	return standby, standby.orStop(s.commitOnStandby(ctx))
}

// commitOnStandby makes every commit on s wait for the standby, once that has caught up.
func (s *Server) commitOnStandby(ctx context.Context) error {
	for _, command := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
		if _, err := s.admin.Exec(ctx, command); err != nil {
			return err
		}
	}
	return poll(ctx, func() (following bool, err error) {
		err = s.admin.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')`).Scan(&following)
		return following, err
	})
}

// poll calls a function until it returns true or an error.
func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
