package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/domain/reconcile"
	"stackyard/internal/platform/autotls"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// quiet drops logs: findings say what is wrong.
var quiet = slog.New(slog.DiscardHandler)

func (r *report) blobs(ctx context.Context) {
	store, err := r.openBlobs()
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		r.add(Problem, "blobs", "logs and artifacts cannot be stored until this works; correct --blobs, its rights or the AWS_… variables", "%v", err)
		return
	}
	r.add(OK, "blobs", "", "%s can be written and read", store)
}

// openBlobs does not create a missing folder.
func (r *report) openBlobs() (*blob.Store, error) {
	if folder := r.Settings.BlobFolder(); folder != "" {
		if err := server.IsFolder(folder); err != nil {
			return nil, err
		}
	}
	return blob.Open(r.Settings.Blobs)
}

func (r *report) key(ctx context.Context, d *db.DB) {
	const check = "secret key"
	want, err := server.KeyFingerprint(ctx, d)
	if err != nil {
		r.add(Problem, check, "", "%v", err)
		return
	}
	key, err := server.ExistingKey(r.Settings)
	const advice = "give the key of this installation with --secret-key, or restore secret.key from a backup: no other key opens its secrets"
	switch {
	case err != nil:
		r.add(Problem, check, advice, "%v", err)
	case want != "" && key.Fingerprint() != want:
		r.add(Problem, check, advice, "the secret key is not the one of this installation")
	default:
		r.add(OK, check, "", "it is the key of this installation")
	}
}

// autoCertificates checks the certificates of --tls-autocert.
func (r *report) autoCertificates(ctx context.Context, d *db.DB) {
	const check = "certificate"
	key, err := server.ExistingKey(r.Settings)
	if len(r.Settings.AutoTLS.Hosts) == 0 || err != nil {
		return // another check reports the key
	}
	store := autotls.Store{DB: d, Key: key, Clock: core.SystemClock}
	const advice = `look for "get certificate failed" in the server's log; the host must lead to --listen on port 443, or to --redirect-listen on port 80, from the certificate authority`
	for _, host := range r.Settings.AutoTLS.Hosts {
		switch expires, err := store.Expires(ctx, host); {
		case err != nil:
			r.add(Problem, check, advice, "%s: %v", host, err)
		case expires.IsZero():
			r.add(Warning, check, "start the server, which obtains it; if it runs, "+advice, "there is no certificate for %s yet", host)
		case expires.Before(r.Now):
			r.add(Problem, check, advice, "the certificate for %s expired on %s", host, expires.Format(time.DateOnly))
		default:
			r.add(OK, check, "", "the certificate for %s is valid until %s, and is renewed before", host, expires.Format(time.DateOnly))
		}
	}
}

// A clock that differs by more than badClock breaks tokens of identity providers and signatures of buckets.
const badClock = 5 * time.Second

func (r *report) clock(ctx context.Context, d *db.DB) {
	clock, err := d.NewClock(ctx, core.SystemClock, nil)
	switch {
	case err != nil:
		r.add(Warning, "clock", "", "%v", err)
	case clock.Offset().Abs() >= badClock:
		r.add(Warning, "clock", "synchronize both machines, for example with chrony or systemd-timesyncd", "the clock of the database's machine is %s ahead of this one's", clock.Offset().Round(time.Second))
	case d.Engine() == db.PostgreSQL:
		r.add(OK, "clock", "", "this machine and the database's agree to %s", clock.Offset().Abs().Round(time.Millisecond))
	}
	if r.Now.Year() < 2024 {
		r.add(Problem, "clock", "set the clock", "the clock of this machine says %s", r.Now.Format(time.RFC3339))
	}
}

// stuckAfter is when a task that is due should have run.
const stuckAfter = 15 * time.Minute

func (r *report) tasks(ctx context.Context, d *db.DB) {
	const check = "tasks"
	var backlogs []tasks.Backlog
	err := d.Read(ctx, func(q *db.Q) (err error) {
		backlogs, err = tasks.Backlogs(q, r.Now.Add(-stuckAfter))
		return err
	})
	if err != nil {
		r.add(Problem, check, "", "%v", err)
		return
	}
	for _, b := range backlogs {
		since := r.Now.Sub(b.Oldest).Round(time.Minute)
		if b.Failing > 0 {
			r.add(Warning, check, "correct the cause; they are tried again by themselves", "%d tasks %q are due, the oldest since %s; %d have failed, last with: %s", b.Due, b.Kind, since, b.Failing, b.LastError)
			continue
		}
		r.add(Warning, check, "start the server if it does not run; else look for errors in its log", "%d tasks %q are due, the oldest since %s", b.Due, b.Kind, since)
	}
	if len(backlogs) == 0 {
		r.add(OK, check, "", "no task is stuck")
	}
}

func (r *report) storedBytes(ctx context.Context, d *db.DB) {
	store, err := r.openBlobs()
	if err != nil {
		return // another check reports it
	}
	found, err := reconcile.FindOrphans(ctx, d, store, r.Now)
	if err != nil {
		r.add(Warning, "stored bytes", "", "%v", err)
		return
	}
	if found.Objects > 0 {
		r.add(Warning, "stored bytes", "remove them with: stackyard doctor --remove-orphans", "%d of %d blobs, %s, belong to builds that no longer exist, for example %s",
			found.Objects, found.Checked, megabytes(uint64(found.Bytes)), found.Example)
	}
	missing, checked, err := reconcile.MissingArtifacts(ctx, d, store)
	switch {
	case err != nil:
		r.add(Warning, "stored bytes", "", "%v", err)
	case len(missing) > 0:
		r.add(Problem, "stored bytes", "check that --blobs is the store of this database; restore missing objects from a backup",
			"%d of the %d newest artifacts have no bytes in %s, for example %s", len(missing), checked, store, missing[0])
	case found.Objects == 0:
		r.add(OK, "stored bytes", "", "%d blobs belong to existing builds, and the %d newest artifacts have their bytes", found.Checked, checked)
	}
}

// reachTimeout bounds a request to the server.
const reachTimeout = 5 * time.Second

// reachable checks the URL that agents and people use, from this machine.
func (r *report) reachable(ctx context.Context) {
	const check = "server"
	base := cmp.Or(string(r.Settings.Public), r.Settings.ListenURL())
	if base == "" {
		r.add(Warning, check, "give --public-url or --listen as the server has them", "no URL to try: the server picks its port")
		return
	}
	_, date, err := r.get(ctx, base+"/readyz")
	if err != nil {
		r.add(Problem, check, "start the server; check --public-url, the proxy in front of it, DNS and firewalls: agents use the same URL", "%s does not answer: %v", base, err)
		return
	}
	if !date.IsZero() {
		if off := r.Now.Sub(date); off.Abs() > badClock {
			r.add(Warning, check, "synchronize both machines", "the clock of the machine at %s differs by %s", base, off.Round(time.Second))
		}
	}
	if _, _, err := r.get(ctx, base+"/v3/ping"); err != nil && !strings.Contains(err.Error(), "401") {
		r.add(Problem, check, "let the proxy pass /v3 to the server", "agents cannot use %s/v3: %v", base, err)
		return
	}
	var document struct{ Info struct{ Version string } }
	if text, _, err := r.get(ctx, base+"/openapi.json"); err == nil && json.Unmarshal(text, &document) == nil && document.Info.Version != r.Version {
		r.add(Warning, check, "restart the server after an upgrade, or use the program that it runs", "the server has version %s, this program %s", document.Info.Version, r.Version)
	}
	r.add(OK, check, "", "%s answers, for people and agents", base)
}

// get returns the body of a successful response and its date.
func (r *report) get(ctx context.Context, url string) (body []byte, date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, date, err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, date, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if response.StatusCode != http.StatusOK {
		var m struct{ Message string }
		json.Unmarshal(body, &m)
		return nil, date, fmt.Errorf("status %d %s", response.StatusCode, m.Message)
	}
	date, _ = http.ParseTime(response.Header.Get("Date"))
	return body, date, err
}
