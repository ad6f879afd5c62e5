package agents

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// A session caches an agent that sends requests to this process.
type session struct {
	agentID     string
	identity    atomic.Pointer[identity.AgentSession]
	wakeups     <-chan struct{} // receives when the agent may have changed
	unsubscribe func()          // ends the subscription of wakeups

	refreshMu sync.Mutex // held while latest is read again; locked before mu

	mu        sync.Mutex
	latest    *snapshot     // replaced as a whole, never modified
	stale     bool          // latest may be outdated
	changed   chan struct{} // closed when latest is replaced
	lastSeen  time.Time
	unflushed bool // lastSeen is newer than the database
	waiting   int  // waiting requests, which keep the agent present
	// replaced is closed when the most recent wait is replaced by another; nil: there was none.
	replaced    chan struct{}
	jobFinished bool // a job has ended since the agent's last ping
	busyPolling busyPolling

	following  bool  // all changes of the job since it was assigned were followed, see session_job.go
	jobVersion int64 // of the build of that job, at the last change
	followed   int   // number of changes of jobs that this process has made
}

// A snapshot is an agent and its job, if any, at one moment.
type snapshot struct {
	*Agent
	job     builds.Holding
	tagsKey string // of the agent's tags; empty: unknown
}

// topic returns the bus topic for changes of an agent and of its job.
func topic(agentID string) string { return "agent:" + agentID }

// OrganizationTopic returns the bus topic for changes of the agents of an organization.
func OrganizationTopic(organizationID string) string {
	return "agents of organization:" + organizationID
}

// touch records a request of the agent.
func (sess *session) touch(now time.Time) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.lastSeen, sess.unflushed = now, true
}

// sessionRegistry is the set of sessions of this process.
type sessionRegistry struct {
	mu      sync.Mutex
	byID    map[string]*session
	byToken map[string]*session // by the hash of the session token
}

func newSessionRegistry() sessionRegistry {
	return sessionRegistry{byID: map[string]*session{}, byToken: map[string]*session{}}
}

func (r *sessionRegistry) findByToken(hash string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byToken[hash]
}

func (r *sessionRegistry) findByAgent(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// add adds a session and returns it, or the session that the agent already has. hash is the hash of the session
// token, or "" if unknown.
func (r *sessionRegistry) add(opened *session, hash string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	sess := r.byID[opened.agentID]
	if sess == nil {
		sess = opened
		r.byID[sess.agentID] = sess
	} else {
		opened.unsubscribe()
	}
	if hash != "" {
		r.byToken[hash] = sess
	}
	return sess
}

func (r *sessionRegistry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*session, 0, len(r.byID))
	for _, sess := range r.byID {
		all = append(all, sess)
	}
	return all
}

// remove removes sessions.
func (r *sessionRegistry) remove(sessions map[*session]bool) {
	if len(sessions) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for hash, sess := range r.byToken {
		if sessions[sess] {
			delete(r.byToken, hash)
		}
	}
	for sess := range sessions {
		if r.byID[sess.agentID] == sess {
			delete(r.byID, sess.agentID)
		}
		sess.unsubscribe()
	}
}

// Authenticate returns the session of an agent or job token. Only a session token marks the agent as seen: a
// process that a job left behind does not keep its agent present.
func (s *Service) Authenticate(ctx context.Context, token string) (*identity.AgentSession, error) {
	s.refreshChanged(ctx)
	if strings.HasPrefix(token, identity.JobTokenPrefix) {
		return s.authenticateJob(ctx, token)
	}
	if !strings.HasPrefix(token, identity.SessionTokenPrefix) {
		return nil, errUnknownToken
	}
	hash := seal.HashToken(token)
	sess := s.sessions.findByToken(hash)
	if sess == nil {
		var err error
		sess, err = s.openSession(ctx, hash, func(q *db.Q) (*Agent, error) { return bySessionHash(q, hash) })
		if err != nil {
			return nil, err
		}
	}
	sess.touch(s.clock())
	return sess.identity.Load(), nil
}

func (s *Service) authenticateJob(ctx context.Context, text string) (*identity.AgentSession, error) {
	token, ok := s.jobTokens.read(text)
	if !ok {
		return nil, errUnknownToken
	}
	sess, err := s.sessionOf(ctx, token.organizationID, token.agentID)
	if err != nil {
		return nil, err
	}
	auth := *sess.identity.Load()
	auth.JobID = token.jobID
	return &auth, nil
}

// Agent returns an agent that has a session, from memory unless it may have changed.
func (s *Service) Agent(ctx context.Context, orgID, agentID string) (*Agent, error) {
	sess, err := s.sessionOf(ctx, orgID, agentID)
	if err != nil {
		return nil, err
	}
	now, _, err := s.current(ctx, sess)
	if err != nil {
		return nil, err
	}
	return now.Agent, nil
}

// sessionOf returns the session of an agent, and opens it if there is none.
func (s *Service) sessionOf(ctx context.Context, orgID, agentID string) (*session, error) {
	if sess := s.sessions.findByAgent(agentID); sess != nil {
		return sess, nil
	}
	return s.openSession(ctx, "", func(q *db.Q) (*Agent, error) { return byID(q, orgID, agentID) })
}

// openSession reads an agent and adds a session for it. The error for an unknown agent is Unauthorized.
func (s *Service) openSession(ctx context.Context, hash string, find func(q *db.Q) (*Agent, error)) (*session, error) {
	var a *Agent
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		a, err = find(q)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil, errUnknownToken
	}
	if err != nil {
		return nil, err
	}
	org, err := s.dir.OrganizationByID(ctx, a.OrganizationID)
	if err != nil {
		return nil, err
	}
	// The session is stale from the start: the agent was read before the subscription began.
	sess := &session{agentID: a.ID, latest: &snapshot{Agent: a}, stale: true, changed: make(chan struct{}), lastSeen: s.clock()}
	sess.wakeups, sess.unsubscribe = s.bus.Subscribe(topic(a.ID))
	sess.identity.Store(&identity.AgentSession{AgentID: a.ID, Organization: *org, ClusterID: a.ClusterID, QueueID: a.QueueID})
	return s.sessions.add(sess, hash), nil
}

// refreshChanged applies changes that concern many sessions, if there are any.
func (s *Service) refreshChanged(ctx context.Context) {
	select {
	case <-s.identityChanged:
		s.refreshOrganizations(ctx)
	case <-s.queueRemoved:
		for _, sess := range s.sessions.all() {
			sess.markStale()
		}
	default:
	}
}

// refreshOrganizations reloads the organizations of all sessions, each once.
func (s *Service) refreshOrganizations(ctx context.Context) {
	loaded := map[string]*identity.Organization{}
	for _, sess := range s.sessions.all() {
		auth := *sess.identity.Load()
		org, known := loaded[auth.Organization.ID]
		if !known {
			var err error
			if org, err = s.dir.OrganizationByID(ctx, auth.Organization.ID); err != nil {
				s.log.Warn("refresh organization failed", "organization", auth.Organization.ID, "error", err)
			}
			loaded[auth.Organization.ID] = org
		}
		if org != nil {
			auth.Organization = *org
			sess.identity.Store(&auth)
		}
	}
}

// current returns the current snapshot of a session, and a channel that is closed when it is replaced. It reads
// the database only when the session is stale.
func (s *Service) current(ctx context.Context, sess *session) (*snapshot, <-chan struct{}, error) {
	// One caller reads at a time; the others wait and use its result.
	sess.refreshMu.Lock()
	defer sess.refreshMu.Unlock()
	known, changed, followed, stale := sess.cached()
	if !stale {
		return known, changed, nil
	}
	var read *snapshot
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if known.tagsKey == "" { // it was never read as a whole, or it has no tags
			read, err = readSnapshot(q, known.OrganizationID, known.ID)
		} else {
			read, err = readChanged(q, known)
		}
		return err
	})
	if err != nil {
		sess.markStale()
		if core.KindOf(err) == core.NotFound {
			err = errUnknownToken
		}
		return nil, nil, err
	}
	return read, sess.update(read, followed), nil
}

// cached returns the snapshot and whether it is stale. It resets stale, because the caller reads again.
func (sess *session) cached() (known *snapshot, changed <-chan struct{}, followed int, stale bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	select {
	case <-sess.wakeups:
		sess.stale = true
	default:
	}
	stale, sess.stale = sess.stale, false
	return sess.latest, sess.changed, sess.followed, stale
}

// update replaces the snapshot with one that was read, and returns the channel that is closed at the next replacement.
// followed is the number of changes that the session had followed before the read.
func (sess *session) update(now *snapshot, followed int) (changed <-chan struct{}) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.following = false
	sess.stale = sess.stale || sess.followed != followed // what was read may be older than the change
	sess.replace(now)
	if auth := sess.identity.Load(); auth.QueueID != now.QueueID {
		moved := *auth
		moved.QueueID = now.QueueID
		sess.identity.Store(&moved)
	}
	return sess.changed
}

// markStale makes the next call of current read the agent again.
func (sess *session) markStale() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.stale = true
}

// A caller is the agent that sent a request, with its session.
type caller struct {
	*snapshot
	session *session
}

// loadCaller returns the agent of the session token. It refuses agents that have left.
func (s *Service) loadCaller(r *route.Request) (caller, error) {
	sess, err := s.sessionOf(r.Context(), r.Org.ID, r.Session.AgentID)
	if err != nil {
		return caller{}, err
	}
	a, _, err := s.current(r.Context(), sess)
	if err != nil {
		return caller{}, err
	}
	if a.HasLeft() {
		return caller{}, errDisconnected
	}
	return caller{a, sess}, nil
}
