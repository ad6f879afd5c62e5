package machines

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/platform/db"
)

// The remote provider runs agents on the machines in Settings.Places. An agent there does not depend on this server:
// it goes on when the connection breaks or the server stops, and the next server adopts it (adopt). Whatever happens,
// the row of a machine is removed only after the place has said that nothing of it is left.

// errUnreachable means that nothing was started, because the place could not be reached.
var errUnreachable = errors.New("the machine cannot be reached")

// errNotStarted means that a place knows nothing of a machine.
var errNotStarted = errors.New("the agent was not started")

// firstPause and mostPause bound how long a place that cannot be reached is left alone.
const firstPause, mostPause = time.Second, time.Minute

// An outage is a place that cannot be reached.
type outage struct {
	until time.Time
	pause time.Duration
}

// placeOf returns the place of a machine, nil if the settings do not list it.
func (s *Service) placeOf(m *Machine) *Place {
	i := slices.IndexFunc(s.Places, func(p Place) bool { return p.Name == m.Place })
	if i < 0 {
		return nil
	}
	return &s.Places[i]
}

// connect connects to a place. Jobs are not sent to a place that cannot be reached for a while.
func (s *Service) connect(ctx context.Context, p *Place) (*link, error) {
	l, err := p.dial(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.outages, p.Name)
		return l, nil
	}
	pause := min(max(firstPause, 2*s.outages[p.Name].pause), mostPause)
	s.outages[p.Name] = outage{s.Clock().Add(pause), pause}
	return nil, fmt.Errorf("connect to the machine %s at %s: %w", p.Name, p.Address, err)
}

// choosePlace returns the place with the most room for a machine of a platform, "" if there is none. All replicas that
// use the places count together.
func (s *Service) choosePlace(q *db.Q, platform clusters.Platform) (name string, err error) {
	if err := q.LockName("places of machines"); err != nil {
		return "", err
	}
	used := map[string]int{}
	rows, err := db.All(q, func(scan db.Scan) (r struct {
		name string
		n    int
	}, err error) {
		return r, scan(&r.name, &r.n)
	}, `SELECT place, COUNT(*) FROM machines WHERE place IS NOT NULL GROUP BY place`)
	for _, r := range rows {
		used[r.name] = r.n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, p := range s.Places {
		room := p.Capacity - used[p.Name]
		if p.Platform == platform && room > most && !s.Clock().Before(s.outages[p.Name].until) {
			name, most = p.Name, room
		}
	}
	return name, err
}

// computeRemote runs the agent of a machine on its place until the agent has exited.
func (s *Service) computeRemote(ctx context.Context, m *Machine, token string) error {
	place := s.placeOf(m)
	l, err := s.connect(ctx, place)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	env := map[string]string{}
	for _, line := range s.environment(m, "Running on the machine "+place.Name) {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	request := struct {
		Env         map[string]string `json:"env"`
		Token       string            `json:"token"`
		VNCPassword string            `json:"vnc_password"`
	}{Env: env, Token: token}
	if place.VNC.Address != "" {
		request.VNCPassword = s.desktopPassword(m)
	}
	text, err := json.Marshal(request)
	if err != nil {
		l.Close()
		return err
	}
	s.serveDesktop(ctx, m, l)
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	_, err = l.run(limited, text, "start", m.ID)
	cancel()
	if failed, ok := errors.AsType[*commandError](err); ok {
		return errors.Join(failed, s.stopRemote(ctx, m, l))
	}
	// After any other error, the agent may have been started or not.
	return s.follow(ctx, m, l)
}

// follow waits until the agent of a machine has ended, and removes what is left of it. It connects again whenever the
// connection breaks, until ctx ends. The link may be nil.
func (s *Service) follow(ctx context.Context, m *Machine, l *link) error {
	place := s.placeOf(m)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		var err error
		if l == nil {
			l, err = s.connect(ctx, place)
		}
		var ended error
		if err == nil {
			ended, err = s.awaitEnd(ctx, m, l)
		}
		if err == nil {
			return errors.Join(ended, s.stopRemote(ctx, m, l))
		}
		if l != nil {
			l.Close()
			l = nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Log.Warn("follow machine failed", "machine", m.ID, "place", m.Place, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// awaitEnd waits until the agent of a machine has ended, and returns how, while it serves the desktop.
func (s *Service) awaitEnd(ctx context.Context, m *Machine, l *link) (ended, err error) {
	s.serveDesktop(ctx, m, l)
	text, err := l.run(ctx, nil, "wait", m.ID)
	if err != nil {
		return nil, err
	}
	var result struct {
		Started       bool
		Error, Output string
	}
	switch err := json.Unmarshal([]byte(text), &result); {
	case err != nil:
		return nil, fmt.Errorf("the result of the agent: %w", err)
	case !result.Started:
		return errNotStarted, nil
	case result.Error != "":
		output := &tail{}
		output.Write([]byte(result.Output))
		return describe(errors.New(result.Error), output), nil
	}
	return nil, nil
}

// stopRemote removes what is left of a machine on its place, and closes the link. It repeats that until the place says
// that it is done, or ctx ends.
func (s *Service) stopRemote(ctx context.Context, m *Machine, l *link) error {
	place := s.placeOf(m)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		var err error
		if l == nil {
			l, err = s.connect(ctx, place)
		}
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, commandTimeout)
			_, err = l.run(limited, nil, "stop", m.ID)
			cancel()
			l.Close()
			l = nil
		}
		_, failed := errors.AsType[*commandError](err)
		if failed { // again would not help
			s.Log.Warn("stop machine failed", "machine", m.ID, "place", m.Place, "error", err)
		}
		if err == nil || failed {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// desktopPassword returns the password with which the agent of a machine, and nothing else there, reaches its desktop.
// It is derived, so that every replica knows it and none stores it. The protocol uses eight characters.
func (s *Service) desktopPassword(m *Machine) string {
	return strings.ToLower(base32.StdEncoding.EncodeToString(s.desktops.Sign([]byte(m.ID))))[:8]
}

// maxDesktops is how many connections to the desktop of a machine there can be at once.
const maxDesktops = 20

// serveDesktop lets the agent of a machine reach the desktop of its place through this server, so that the agent does
// not need the credentials. It does so until the link is closed.
func (s *Service) serveDesktop(ctx context.Context, m *Machine, l *link) {
	if l.place.VNC.Address == "" || l.desktop {
		return
	}
	listener, err := l.listen(ctx, m)
	if err != nil {
		s.Log.Warn("serve desktop failed", "machine", m.ID, "place", m.Place, "error", err)
		return
	}
	l.desktop = true
	server := l.place.VNC
	server.Through = func(_ context.Context, network, address string) (net.Conn, error) { return l.Dial(network, address) }
	slots := make(chan struct{}, maxDesktops)
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			select {
			case slots <- struct{}{}:
			default:
				conn.Close()
				continue
			}
			go func() {
				defer func() { <-slots }()
				if err := server.Connect(ctx, conn, s.desktopPassword(m)); err != nil && ctx.Err() == nil {
					s.Log.Info("desktop connection failed", "machine", m.ID, "place", m.Place, "error", err)
				}
			}()
		}
	}()
}

// listen listens on the socket that the agent of a machine connects to for the desktop.
func (l *link) listen(ctx context.Context, m *Machine) (net.Listener, error) {
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	path, err := l.run(limited, nil, "socket", m.ID)
	if err != nil {
		return nil, err
	}
	listener, err := l.ListenUnix(strings.TrimSpace(path))
	if err != nil {
		return nil, fmt.Errorf("listen on the machine; its ssh server must allow forwarding: %w", err)
	}
	return listener, nil
}

// adopt continues with the machines on places that another process has left: the one before this, or one that has not
// renewed its lease.
func (s *Service) adopt(ctx context.Context) error {
	if len(s.Places) == 0 {
		return nil
	}
	var left []*Machine
	err := s.DB.Read(ctx, func(q *db.Q) (err error) {
		left, err = db.All(q, scanMachine, selectMachine+`WHERE place IS NOT NULL AND (host = $1 OR lease_until < $2) ORDER BY id`, s.host, db.Micros(s.Clock()))
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range left {
		if s.isFollowed(m.ID) || s.placeOf(m) == nil {
			continue
		}
		claimed := false
		err := s.DB.Write(ctx, func(q *db.Q) error {
			now := s.Clock()
			n, err := q.Exec(`UPDATE machines SET host = $2, lease_until = $3 WHERE id = $1 AND (host = $2 OR lease_until < $4)`,
				m.ID, s.host, db.Micros(now.Add(lease)), db.Micros(now))
			claimed = n == 1
			return err
		})
		if err != nil {
			return err
		}
		if !claimed {
			continue
		}
		s.Log.Info("adopted machine", "machine", m.ID, "place", m.Place, "job", m.JobID)
		s.mu.Lock()
		s.running++
		s.followed[m.ID] = true
		s.mu.Unlock()
		s.jobs.Go(func() {
			defer s.release(m)
			s.conclude(ctx, m, s.follow(ctx, m, nil))
		})
	}
	return nil
}

func (s *Service) isFollowed(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.followed[id]
}

// leave lets another process adopt a machine that goes on without this one.
func (s *Service) leave(ctx context.Context, m *Machine) {
	err := s.DB.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`UPDATE machines SET lease_until = $2 WHERE id = $1`, m.ID, db.Micros(s.Clock()))
		return err
	})
	if err != nil {
		s.Log.Warn("leave machine failed", "machine", m.ID, "error", err)
	}
}

const selectMachine = `SELECT id, organization_id, cluster_id, queue_id, state, job_id, image_ref, place FROM machines `

func scanMachine(scan db.Scan) (*Machine, error) {
	m := &Machine{}
	return m, scan(&m.ID, &m.OrganizationID, &m.ClusterID, &m.QueueID, &m.State, db.ToText(&m.JobID), &m.ImageRef, db.ToText(&m.Place))
}
