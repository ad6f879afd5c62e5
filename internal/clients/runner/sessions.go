package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os/user"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/shell"
	"stackyard/internal/clients/runner/sshd"
	"stackyard/internal/clients/sleep"
)

// A place is where processes of a remote session start: the directory and the variables of the job at the time.
type place struct {
	dir string
	env map[string]string
}

// markPlace makes the current directory and variables of the job those of new sessions. The job continues to change
// its own.
func (j *job) markPlace() {
	j.place.Store(&place{dir: j.sh.Dir, env: maps.Clone(j.sh.Env)})
}

// sessionMarker is the variable that identifies the processes of a session.
const sessionMarker = "STACKYARD_SESSION"

// serveSessions opens the remote sessions that users request, until end is called. end returns when all processes of
// all sessions have ended.
func (j *job) serveSessions() (end func()) {
	ctx, cancel := context.WithCancel(j.ctx)
	var running sync.WaitGroup
	running.Go(func() { j.awaitSessions(ctx, &running) })
	stop := make(chan struct{})
	go func() {
		select {
		case <-j.cancel.term: // a canceled job has no more sessions
			cancel()
		case <-stop:
		}
	}()
	return func() {
		close(stop)
		cancel()
		running.Wait()
	}
}

// awaitSessions starts sessions.
func (j *job) awaitSessions(ctx context.Context, running *sync.WaitGroup) {
	known := map[string]bool{}
	for failures := 0; ctx.Err() == nil; {
		requests, err := j.api.Sessions(ctx, j.spec.ID)
		switch {
		case ctx.Err() != nil:
			return
		case api.StatusOf(err) == http.StatusNotFound, api.Refused(err):
			return // the server has no sessions, or the job is no longer ours
		case err != nil:
			failures++
			j.log.Debug("wait for sessions failed", "error", err)
			most := min(time.Second<<min(failures, 6), time.Minute)
			sleep.For(ctx, most/2+rand.N(most/2))
			continue
		}
		failures = 0
		fresh := false
		for _, r := range requests {
			if !known[r.ID] {
				known[r.ID], fresh = true, true
				running.Go(func() { j.serveSession(ctx, r) })
			}
		}
		if len(requests) > 0 && !fresh || len(requests) == 0 {
			sleep.For(ctx, sessionPause) // the server has not noticed our answer yet, or returned early
		}
	}
}

// sessionPause is the time between two requests for sessions when the last had nothing new.
const sessionPause = 200 * time.Millisecond

// serveSession serves one session until it or the job ends.
func (j *job) serveSession(ctx context.Context, r api.SessionRequest) {
	log := j.log.With("session", r.ID, "kind", r.Kind)
	serve, offer, err := j.prepareSession(r)
	if err != nil {
		log.Warn("refuse session", "error", err)
		if err := j.api.RefuseSession(ctx, j.spec.ID, r.ID, errors.Is(err, errUnsupported), err.Error()); err != nil && ctx.Err() == nil {
			log.Warn("refuse session failed", "error", err)
		}
		return
	}
	for try := 0; ctx.Err() == nil && try < sessionTries; try++ {
		if try > 0 {
			sleep.For(ctx, time.Second)
		}
		conn, err := j.api.OfferSession(ctx, j.spec.ID, r.ID, offer)
		if api.StatusOf(err) == http.StatusNotFound || api.Refused(err) {
			return // it has ended
		}
		if err != nil {
			log.Warn("connect session failed", "error", err)
			continue
		}
		started := awaitStart(ctx, conn)
		if started {
			log.Info("session started")
			err := serve(ctx, conn)
			log.Info("session ended", "error", err)
		}
		go func() {
			conn.Close(websocket.StatusNormalClosure, reasonOf(ctx))
			conn.CloseNow()
		}()
		if started {
			return // it can be connected to once
		}
	}
}

// sessionTries is how often the agent connects to a session that no user has connected to yet.
const sessionTries = 10

// reasonOf returns why the agent closes a session.
func reasonOf(ctx context.Context) string {
	if ctx.Err() != nil {
		return "the job has ended"
	}
	return "the session has ended"
}

// A tunnel is the agent's end of a session. Closing it says why.
type tunnel struct {
	net.Conn
	close func() error
}

func (t tunnel) Close() error { return t.close() }

func tunnelOf(ctx context.Context, conn *websocket.Conn) tunnel {
	return tunnel{
		Conn:  websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary),
		close: sync.OnceValue(func() error { return conn.Close(websocket.StatusNormalClosure, reasonOf(ctx)) }),
	}
}

// awaitStart waits until the user has connected. It returns false when the session ended before.
func awaitStart(ctx context.Context, conn *websocket.Conn) bool {
	kind, _, err := conn.Read(ctx)
	return err == nil && kind == websocket.MessageText
}

// errUnsupported means that the agent never has such sessions.
var errUnsupported = errors.New("the agent has no such sessions")

// prepareSession returns how a session is served, and what the agent offers.
func (j *job) prepareSession(r api.SessionRequest) (serve func(context.Context, *websocket.Conn) error, offer api.Offer, err error) {
	offer.Username = j.username()
	switch r.Kind {
	case "ssh":
		serve, offer.HostKey, err = j.prepareShell(r, offer.Username)
	case "vnc":
		serve, err = j.prepareDesktop(r)
	default:
		err = errUnsupported
	}
	return serve, offer, err
}

// prepareDesktop returns how a desktop is served. It checks that the VNC server answers.
func (j *job) prepareDesktop(r api.SessionRequest) (func(context.Context, *websocket.Conn) error, error) {
	server := j.w.o.VNC
	if server.Address == "" {
		return nil, errUnsupported
	}
	if err := server.Probe(j.ctx); err != nil {
		return nil, fmt.Errorf("the VNC server of the agent cannot be reached: %w", err)
	}
	return func(ctx context.Context, conn *websocket.Conn) error {
		return server.Connect(ctx, tunnelOf(ctx, conn), r.Password)
	}, nil
}

func (j *job) prepareShell(r api.SessionRequest, username string) (func(context.Context, *websocket.Conn) error, string, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(r.AuthorizedKey))
	if err != nil {
		return nil, "", fmt.Errorf("the key of the user: %w", err)
	}
	hostKey, public, err := sshd.NewHostKey()
	if err != nil {
		return nil, "", err
	}
	return func(ctx context.Context, conn *websocket.Conn) error {
		at := j.place.Load()
		server := sshd.Server{
			HostKey: hostKey, User: key, Username: username,
			Shell: j.w.o.Shell[0], Dir: at.dir, Env: at.env, RunAs: j.w.o.JobUser,
			Marker: sessionMarker + "=" + r.ID,
			Log:    j.log,
		}
		return server.Serve(ctx, tunnelOf(ctx, conn))
	}, public, nil
}

// username returns the name of the user that jobs run as.
func (j *job) username() string {
	if u := j.w.o.JobUser; u != nil {
		return u.Name
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "job"
}

// defaultDebugTime is how long a failed job is kept for debugging.
const defaultDebugTime = 30 * time.Minute

// keepForDebugging waits, after the command of a job that a user retried for debugging has failed, so that people can
// open shells in its environment. The server learns at once that the job will fail. Canceling the job ends the wait.
func (j *job) keepForDebugging(failed error) {
	if !j.spec.Debug || failed == nil || j.cancel.requested() {
		return
	}
	limit := cmp.Or(j.w.o.DebugTime, defaultDebugTime)
	status := statusOf(failed)
	j.markPlace()
	j.sh.Section(shell.Open, "Keeping the job for debugging")
	j.sh.Comment("The command failed with status %d. Its environment is kept for up to %s:", status, limit)
	j.sh.Comment("stackyard job ssh %s", j.spec.ID)
	j.sh.Comment("To end the job earlier, cancel it.")
	if err := j.api.PromiseFailure(j.ctx, j.spec.ID, status, "The command failed; the job is kept for debugging."); err != nil {
		j.log.Debug("promise failure failed", "error", err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-j.cancel.term:
	}
}
