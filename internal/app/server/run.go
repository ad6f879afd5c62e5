package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/parked"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/trace"
)

// drainTimeout limits how long requests can take after the server is asked to stop. Together with closing
// storage this stays within the documented ten seconds.
const drainTimeout = 8 * time.Second

// Storage is the database of an installation and the key that encrypts its secrets.
type Storage struct {
	DB  *db.DB
	Key seal.Key
}

// OpenStorage opens and migrates the database, and finds or creates the key. It refuses a key that differs from
// the first key of the installation.
func OpenStorage(ctx context.Context, s Settings, log *slog.Logger) (Storage, error) {
	return openStorage(ctx, s, 0, log, func(*db.DB) error { return nil })
}

// OpenServerStorage is OpenStorage for a process that calls [Run]. It fails while another server uses the
// same SQLite database, before anything is migrated. It waits some time for a database that does not answer: after a
// power failure, both machines start at the same time.
func OpenServerStorage(ctx context.Context, s Settings, log *slog.Logger) (Storage, error) {
	return openStorage(ctx, s, s.DatabaseWait, log, func(d *db.DB) error { return d.LockServer(ctx) })
}

// databaseRetry is the time between two attempts to connect to a database that does not answer.
const databaseRetry = time.Second

// openDatabase connects to the database, and tries again for some time while it does not answer.
func openDatabase(ctx context.Context, s Settings, wait time.Duration, log *slog.Logger) (*db.DB, error) {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		d, err := db.Open(ctx, s.Database, log)
		if core.KindOf(err) != core.Unavailable || wait == 0 {
			return d, err
		}
		if time.Since(began) >= wait {
			return nil, fmt.Errorf("%w; waited %s: start the database or correct --database, then start the server again", err, wait)
		}
		if attempt == 0 {
			log.Warn("database does not answer, waiting for it", "up_to", wait, "error", err)
		}
		select {
		case <-time.After(databaseRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func openStorage(ctx context.Context, s Settings, wait time.Duration, log *slog.Logger, lock func(*db.DB) error) (Storage, error) {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return Storage{}, fmt.Errorf("make the data folder: %w", err)
	}
	key, err := findKey(s)
	if err != nil {
		return Storage{}, err
	}
	d, err := openDatabase(ctx, s, wait, log)
	if err != nil {
		return Storage{}, err
	}
	if err := lock(d); err != nil {
		return Storage{}, errors.Join(err, d.Close())
	}
	if err := prepare(ctx, d, key); err != nil {
		return Storage{}, errors.Join(err, d.Close())
	}
	return Storage{DB: d, Key: key}, nil
}

func prepare(ctx context.Context, d *db.DB, key seal.Key) error {
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	if err := checkKey(ctx, d, key); err != nil {
		return err
	}
	if err := pipelines.SealCredentials(ctx, d, key); err != nil {
		return err
	}
	return d.Write(ctx, func(q *db.Q) error {
		if err := q.LockName("built-in applications"); err != nil {
			return err
		}
		return oauth.EnsureBuiltIn(q, core.SystemClock())
	})
}

// findKey returns the given key, or the one in the data folder, which it creates if needed.
func findKey(s Settings) (seal.Key, error) {
	if s.Key != nil {
		return *s.Key, nil
	}
	path := filepath.Join(s.Data, "secret.key")
	text, err := os.ReadFile(path)
	if err == nil {
		key, err := seal.ParseKey(string(text))
		if err != nil {
			return key, fmt.Errorf("%s: %w", path, err)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return seal.Key{}, fmt.Errorf("read the secret key: %w", err)
	}
	return makeKey(path)
}

// makeKey writes a new key. If another process was faster, it returns that key.
func makeKey(path string) (seal.Key, error) {
	key := seal.NewKey()
	part, err := os.CreateTemp(filepath.Dir(path), "secret.key.*") // mode 0600
	if err != nil {
		return key, fmt.Errorf("make the secret key: %w", err)
	}
	defer os.Remove(part.Name())
	_, err = part.WriteString(key.Hex() + "\n")
	if err := errors.Join(err, part.Sync(), part.Close()); err != nil {
		return key, fmt.Errorf("make the secret key: %w", err)
	}
	switch err := os.Link(part.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return findKey(Settings{Data: filepath.Dir(path)})
	case err != nil:
		return key, fmt.Errorf("make the secret key: %w", err)
	}
	return key, nil
}

// fingerprintName is the row of the installation with the fingerprint of its key.
const fingerprintName = "key_fingerprint"

// checkKey compares the key with the fingerprint in the database, and stores it on first use.
func checkKey(ctx context.Context, d *db.DB, key seal.Key) error {
	const name = fingerprintName
	find := func(q *db.Q) (fingerprint string, err error) {
		err = q.QueryRow(`SELECT value FROM installation WHERE name = $1`, name).Scan(&fingerprint)
		return fingerprint, err
	}
	var known string
	err := d.Read(ctx, func(q *db.Q) (err error) {
		known, err = find(q)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		err = d.Write(ctx, func(q *db.Q) (err error) {
			if _, err = q.Exec(`INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, name, key.Fingerprint()); err != nil {
				return err
			}
			known, err = find(q)
			return err
		})
	}
	if err != nil {
		return err
	}
	if known != key.Fingerprint() {
		return errors.New("the secret key is not the one this installation's secrets are sealed with; give the original --secret-key")
	}
	return nil
}

// Apply applies an organization file and writes a line for each change. Errors contain the path of the file.
func Apply(ctx context.Context, st Storage, path string, source []byte, out io.Writer) error {
	clock, err := st.DB.NewClock(ctx, core.SystemClock, nil)
	if err != nil {
		return err
	}
	lines, err := orgfile.Apply(ctx, st.DB, st.Key, clock.Now, source)
	if err != nil {
		return fmt.Errorf("%s:\n%w", path, err)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// openBlobs opens the blob store and checks that it can be used.
func openBlobs(ctx context.Context, s Settings) (*blob.Store, error) {
	store, err := blob.Open(s.Blobs)
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("--blobs: %w", err)
	}
	return store, nil
}

// Ready describes a server that has started to serve requests.
type Ready struct {
	URL    string         // where it listens
	Public core.PublicURL // where users reach it
	// Local is where programs on this machine reach it without a valid certificate, if Settings.Local is set.
	Local string
	// FirstLink lets the first administrator set a password within account.LinkLifetime. It is "" if there is
	// no administrator, if a user has a password, or if users sign in with a provider. Show it only to the
	// owner of FirstEmail.
	FirstLink, FirstEmail string
	// SignInLink creates a link with which a user who has a password signs in without it, within
	// account.LinkLifetime and once.
	SignInLink func(ctx context.Context, email string) (string, error)
}

// protocols enables HTTP/2 without TLS, which gRPC clients use without negotiation.
func protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &p
}

// Run serves until ctx is done, then drains. It calls ready once requests are served.
func Run(ctx context.Context, s Settings, st Storage, version string, log *slog.Logger, ready func(Ready) error) error {
	tuneGC()
	blobs, err := openBlobs(ctx, s)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return explainListen("listen", s.Listen, err)
	}
	url := listenURL(listener.Addr(), s.servesTLS())
	public := s.Public
	if public == "" {
		public = core.PublicURL(url)
	}
	var waiting *parked.Listener
	if !s.servesTLS() {
		if waiting = parked.Listen(listener); waiting != nil {
			listener = waiting
		}
	}
	peerTLS, err := peerConfig(s, public)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	wired, err := New(Parts{
		MetricsToken:   s.MetricsToken,
		MetricsPrivate: s.MetricsListen != "",
		Parked:         waiting,
		Peer:           cmp.Or(s.Peer, peerURL(url, listener.Addr(), s.Database)),
		PeerTLS:        peerTLS,
		DB:             st.DB,
		Blobs:          blobs,
		Key:            st.Key,
		Public:         public,
		Content:        s.Content,
		Clock:          s.Clock,
		Log:            log,
		Version:        version,
		TrustedProxies: s.TrustedProxies,
		OutboundAllow:  s.OutboundAllow,
		ResolveCommits: 3 * time.Second,
		Provider:       s.Provider,
		Connections:    s.Connections,
		Endpoints:      s.Endpoints,
		Agents:         s.Agents,
		Stacks:         s.Stacks,
		Images:         s.Images,
		Machines:       s.Machines,
		KeepEvents:     s.KeepEvents,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.Traces.Version = version
	defer trace.Start(s.Traces, log)()
	var requests inFlight
	hs := &http.Server{
		Handler:           requests.count(wired),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Protocols:         protocols(),
	}
	wired.Start()
	defer wired.Stop()
	if s.MetricsListen != "" {
		address, stop, err := wired.servePrivate(s.MetricsListen)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer stop()
		log.Info("serving metrics", "url", listenURL(address, false)+"/metrics")
	}
	secure, err := startTLS(ctx, s, st, public, version, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer secure.stop()
	wired.watchCertificates(secure.certificates)
	hs.TLSConfig = secure.config
	served := make(chan error, 2)
	go func() {
		if s.servesTLS() {
			served <- hs.ServeTLS(listener, s.TLSCert, s.TLSKey)
		} else {
			served <- hs.Serve(listener)
		}
	}()
	started := Ready{URL: url, Public: public, Local: url, SignInLink: func(ctx context.Context, email string) (string, error) {
		token, err := wired.accounts.SignInLink(ctx, email)
		return public.To("login", "link", token), err
	}}
	if s.Local && s.servesTLS() {
		local, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return errors.Join(err, hs.Close())
		}
		started.Local = listenURL(local.Addr(), false)
		go func() { served <- hs.Serve(local) }()
	}
	if s.Provider == nil {
		err = wired.offerFirstLink(ctx, public, &started)
	}
	if err == nil {
		err = wired.offerSetUp(ctx, public, log)
	}
	if err := errors.Join(err, ready(started)); err != nil {
		return errors.Join(err, hs.Close())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	log.Info("draining")
	machines, finish := context.WithTimeout(context.WithoutCancel(ctx), s.HostedGrace)
	defer finish()
	wired.DrainMachines(machines)
	wired.Drain()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	// While running requests end, new ones are still served, so that a load balancer can read from /readyz that
	// it should send no more.
	hs.SetKeepAlivesEnabled(false)
	if waiting != nil {
		waiting.Drain()
	}
	requests.wait(drain)
	if waiting != nil {
		waiting.Wait(drain)
	}
	err = hs.Shutdown(drain)
	if err != nil {
		log.Warn("drain timed out", "error", err)
		err = hs.Close()
	}
	sessions, end := context.WithTimeout(context.WithoutCancel(ctx), s.SessionGrace)
	defer end()
	wired.remote.Wait(sessions)
	return err
}

// offerSetUp logs a link with which the operator can set up an installation that is empty.
func (s *Server) offerSetUp(ctx context.Context, public core.PublicURL, log *slog.Logger) error {
	token, err := s.accounts.SetUpLink(ctx)
	if token != "" && err == nil {
		log.Info("no organization yet, open the link within a day to set one up", "url", public.To("signup", "setup", token))
	}
	return err
}

// offerFirstLink creates a sign-in link if no user can sign in yet.
func (s *Server) offerFirstLink(ctx context.Context, public core.PublicURL, started *Ready) error {
	token, user, err := s.accounts.FirstLink(ctx)
	if token != "" && err == nil {
		started.FirstLink, started.FirstEmail = public.To("login", "link", token), user.Email
	}
	return err
}
