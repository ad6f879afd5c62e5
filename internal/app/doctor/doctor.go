// Package doctor checks an installation from the outside: settings, files, disks, database, blobs, certificates, and
// whether a server answers. Each finding says what to do. It changes nothing.
package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/platform/db"
)

// A Level is how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // works, but not for long or not well
	Problem Level = "problem" // something does not work
)

// A Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do
}

// Config is the installation to check.
type Config struct {
	Settings server.Settings
	// SettingsError is what is wrong with the settings, one problem per line; nil: nothing.
	SettingsError error
	Version       string // of this program
	Now           time.Time
}

// report collects findings.
type report struct {
	Config
	findings []Finding
}

func (r *report) add(level Level, check, advice, format string, args ...any) {
	r.findings = append(r.findings, Finding{Check: check, Level: level, Message: fmt.Sprintf(format, args...), Advice: advice})
}

// Run runs all checks. A check that depends on a failed one is left out.
func Run(ctx context.Context, c Config) []Finding {
	r := &report{Config: c}
	r.add(OK, "program", "", "stackyard %s", c.Version)
	if !r.settings() {
		return r.findings
	}
	r.dataFolder()
	r.disks()
	r.certificate()
	r.blobs(ctx)
	if d := r.database(ctx); d != nil {
		defer d.Close()
		r.key(ctx, d)
		r.clock(ctx, d)
		r.autoCertificates(ctx, d)
		r.tasks(ctx, d)
		r.storedBytes(ctx, d)
	}
	r.reachable(ctx)
	return r.findings
}

// settings reports whether the settings are good enough for the other checks.
func (r *report) settings() bool {
	if r.SettingsError == nil {
		r.add(OK, "settings", "", "all settings are valid")
		return true
	}
	for line := range strings.Lines(r.SettingsError.Error()) {
		r.add(Problem, "settings", `correct the flag, the variable or the file of --config; see "stackyard serve --help"`, "%s", strings.TrimSpace(line))
	}
	return false
}

func (r *report) dataFolder() {
	const check = "data"
	stat, err := os.Stat(r.Settings.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.add(Problem, check, "start the server, which creates it, or correct --data", "%s does not exist", r.Settings.Data)
		return
	case err != nil:
		r.add(Problem, check, "let this user read it", "%v", err)
		return
	case !stat.IsDir():
		r.add(Problem, check, "correct --data", "%s is not a folder", r.Settings.Data)
		return
	}
	good := r.private(r.Settings.Data, stat)
	for _, name := range []string{"secret.key", "stackyard.db", "results.db", "welcome.txt"} {
		path := filepath.Join(r.Settings.Data, name)
		if stat, err := os.Stat(path); err == nil {
			good = r.private(path, stat) && good
		}
	}
	probe, err := os.CreateTemp(r.Settings.Data, ".doctor-*")
	if err != nil {
		r.add(Problem, check, "run the command as the user of the server; if it is that user, let it write there", "cannot write: %v", err)
		return
	}
	probe.Close()
	os.Remove(probe.Name())
	if good {
		r.add(OK, check, "", "%s can be written, and only its owner can read it", r.Settings.Data)
	}
}

// private reports whether only the owner can use a file.
func (r *report) private(path string, stat fs.FileInfo) bool {
	mode := stat.Mode().Perm()
	if mode&0o077 == 0 {
		return true
	}
	r.add(Warning, "data", fmt.Sprintf("chmod go= %s", path), "other users can use %s, mode %04o", path, mode)
	return false
}

func (r *report) disks() {
	folders := []string{r.Settings.Data}
	if r.Settings.BlobFolder() != "" {
		folders = append(folders, r.Settings.BlobFolder())
	}
	seen := map[uint64]bool{}
	for _, folder := range folders {
		stat, err := os.Stat(folder)
		if err != nil {
			continue // another check reports it
		}
		if id, ok := stat.Sys().(*syscall.Stat_t); ok {
			if seen[uint64(id.Dev)] {
				continue
			}
			seen[uint64(id.Dev)] = true
		}
		available, size, low, err := server.DiskSpace(folder)
		const advice = "free space, use a larger disk, or set build_retention_days; a full disk stops all writes"
		switch {
		case err != nil:
			r.add(Warning, "disk", "", "%s: %v", folder, err)
		case available < 64<<20:
			r.add(Problem, "disk", advice, "%s has %s left of %s", folder, megabytes(available), megabytes(size))
		case low:
			r.add(Warning, "disk", advice, "%s has %s left of %s", folder, megabytes(available), megabytes(size))
		default:
			r.add(OK, "disk", "", "%s has %s left of %s", folder, megabytes(available), megabytes(size))
		}
	}
}

func megabytes(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GB", n>>30)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// expiresSoon is when a certificate should be renewed.
const expiresSoon = 21 * 24 * time.Hour

func (r *report) certificate() {
	const check = "certificate"
	if r.Settings.TLSCert == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(r.Settings.TLSCert, r.Settings.TLSKey)
	if err != nil {
		r.add(Problem, check, "correct --tls-cert and --tls-key", "%v", err)
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		r.add(Problem, check, "replace the certificate", "%v", err)
		return
	}
	renew := "renew it, and restart the server"
	left := leaf.NotAfter.Sub(r.Now)
	switch {
	case left <= 0:
		r.add(Problem, check, renew, "%s expired on %s", r.Settings.TLSCert, leaf.NotAfter.Format(time.DateOnly))
	case r.Now.Before(leaf.NotBefore):
		r.add(Problem, check, "check the clock of this machine", "%s is valid from %s on", r.Settings.TLSCert, leaf.NotBefore.Format(time.DateOnly))
	case left < expiresSoon:
		r.add(Warning, check, renew, "%s expires on %s", r.Settings.TLSCert, leaf.NotAfter.Format(time.DateOnly))
	default:
		r.add(OK, check, "", "%s is valid until %s", r.Settings.TLSCert, leaf.NotAfter.Format(time.DateOnly))
	}
	if host := r.Settings.Public.Host(); host != "" {
		if err := leaf.VerifyHostname(host); err != nil {
			r.add(Problem, check, "use a certificate for the host of --public-url", "%s is not for %s", r.Settings.TLSCert, host)
		}
	}
}

// database returns the open database, or nil if it cannot be used.
func (r *report) database(ctx context.Context) *db.DB {
	const check = "database"
	if path, ok := strings.CutPrefix(r.Settings.Database, "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			r.add(Problem, check, "start the server, which creates it; restore a backup; or correct --data", "%v", err)
			return nil
		}
	}
	d, err := db.Open(ctx, r.Settings.Database, quiet)
	if err != nil {
		r.add(Problem, check, "check that the database runs, the URL of --database, and the rights of this user", "%v", err)
		return nil
	}
	engine, err := d.EngineVersion(ctx)
	if err != nil {
		r.add(Problem, check, "check the log of the database", "%v", err)
		d.Close()
		return nil
	}
	size, _ := d.Size(ctx)
	if !r.schema(ctx, d, engine, size) {
		d.Close()
		return nil
	}
	parts, err := d.Schemas(ctx)
	if err != nil {
		r.add(Problem, check, "restore results.db from a backup, or move it away to start without test results", "%v", err)
	}
	for _, part := range parts {
		problems, err := part.Problems(ctx)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, problem := range problems {
			r.add(Problem, check, "restore a backup into a new installation if data is damaged: stackyard backup restore", "%s", problem)
		}
	}
	return d
}

// schema reports whether the tables are those of this program.
func (r *report) schema(ctx context.Context, d *db.DB, engine string, size int64) bool {
	const check = "database"
	unfinished, err := d.LoadingFrom(ctx)
	if err == nil && unfinished != "" {
		r.add(Problem, check, "run the same restore or migrate-database command again to continue", "the database is only partly filled from %s", unfinished)
		return false
	}
	has, err := d.Versions(ctx)
	if err != nil {
		advice := "check the log of the database"
		if d.Engine() == db.SQLite {
			advice = "restore a backup into a new installation; if only results.db is damaged, move it away to start without test results"
		}
		r.add(Problem, check, advice, "%v", err)
		return false
	}
	knows, err := db.Newest()
	switch {
	case err != nil:
		r.add(Problem, check, "", "%v", err)
		return false
	case has.Main == 0:
		r.add(Problem, check, "start the server, which creates the tables, or correct --database", "%s is empty", engine)
		return false
	case has.Main > knows.Main || has.Results > knows.Results:
		r.add(Problem, check, "use the newer program, or restore a backup from before the upgrade", "schema %d is newer than this program, which knows %d", has.Main, knows.Main)
		return false
	case has.Main < knows.Main:
		r.add(Warning, check, "back up, then restart the server with this program, which migrates", "%s has schema %d, this program has %d", engine, has.Main, knows.Main)
		return false
	}
	r.add(OK, check, "", "%s with schema %d, %s", engine, has.Main, megabytes(uint64(size)))
	return true
}
