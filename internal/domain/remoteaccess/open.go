package remoteaccess

import (
	"context"
	"crypto/ed25519"
	"encoding/base32"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// tokenPrefix is how access tokens of sessions begin.
const tokenPrefix = "svcrs_"

// An Opened session can be connected to, with its credentials. They are not stored.
type Opened struct {
	*Session
	target
	Token      string
	PrivateKey string // of a shell, in OpenSSH's format
	Password   string // of a desktop
}

// Open opens a session into a job for a user. It returns when the agent has connected its end.
func (s *Service) Open(ctx context.Context, org *identity.Organization, j *builds.Job, by Opener, kind Kind) (*Opened, error) {
	o := &Opened{Token: seal.NewToken(tokenPrefix)}
	now := s.Clock()
	o.Session = &Session{
		ID: core.NewID(), OrganizationID: org.ID, JobID: j.ID, AgentID: j.AgentID, UserID: by.ID, OpenedWith: by.With,
		Kind: kind, State: Requested, CreatedAt: now, ExpiresAt: now.Add(TokenLife),
	}
	if err := o.makeKeys(s); err != nil {
		return nil, err
	}
	err := s.DB.Read(ctx, func(q *db.Q) (err error) {
		if o.target, err = kind.check(q, org, j); err != nil {
			return err
		}
		o.target, err = o.target.checkAgent(q, kind, j)
		return err
	})
	if err != nil {
		return nil, err
	}
	woken, cancel := s.Bus.Subscribe(topic(o.ID))
	defer cancel()
	err = s.DB.Write(ctx, func(q *db.Q) error { return insert(q, o.Session, seal.HashToken(o.Token)) })
	if err != nil {
		return nil, err
	}
	return o, s.awaitAgent(ctx, o, woken)
}

// makeKeys creates the credentials of the kind.
func (o *Opened) makeKeys(s *Service) error {
	if o.Kind == Desktop {
		o.Password = s.vncPassword(o.ID)
		return nil
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	o.PrivateKey = string(pem.EncodeToMemory(block))
	o.AuthorizedKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(authorized)))
	return nil
}

// vncPassword returns the password of a desktop. It is derived, so that every replica can give it to the agent and
// none stores it. The protocol uses eight characters.
func (s *Service) vncPassword(id string) string {
	return strings.ToLower(base32.StdEncoding.EncodeToString(s.vncKeys.Sign([]byte(id))))[:8]
}

// awaitAgent waits until the agent has connected or refused.
func (s *Service) awaitAgent(ctx context.Context, o *Opened, woken <-chan struct{}) error {
	waiting, cancel := context.WithTimeout(ctx, s.openTimeout)
	defer cancel()
	for {
		var now *Session
		err := s.DB.Read(ctx, func(q *db.Q) (err error) {
			now, err = byID(q, o.OrganizationID, o.ID)
			return err
		})
		switch {
		case err != nil:
			return err
		case now.State == Ready:
			o.Session = now
			return o.checkHostKey()
		case now.State == Refused && now.Reason == unsupportedReason:
			return o.Kind.unsupported()
		case now.State == Refused:
			return unavailable(now.Reason)
		case now.State != Requested:
			return unavailable("it was closed")
		}
		select {
		case <-woken:
		case <-s.draining:
			s.abandon(ctx, o.Session)
			return unavailable("the server is about to stop")
		case <-waiting.Done():
			s.abandon(ctx, o.Session)
			return unavailable(fmt.Sprintf("the agent of the job did not answer within %d seconds", s.openTimeout/time.Second))
		}
	}
}

// checkHostKey returns an error unless a shell has a host key that clients can verify.
func (o *Opened) checkHostKey() error {
	if o.Kind != Shell {
		return nil
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(o.HostKey)); err != nil {
		return unavailable("the agent of the job has no valid host key")
	}
	return nil
}

// abandon ends a session whose user has given up.
func (s *Service) abandon(ctx context.Context, sess *Session) {
	sess.Reason, sess.EndedAt = "the agent did not answer", s.Clock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.DB.Write(ctx, func(q *db.Q) error { return s.endIn(q, sess) })
	if err != nil {
		s.Log.WarnContext(ctx, "end remote session failed", "session", sess.ID, "error", err)
	}
}
