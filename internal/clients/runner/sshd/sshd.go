// Package sshd serves SSH on one connection, for one user with one key: shells and commands in the environment of a
// job, with or without a terminal. It has no port forwarding and no file transfer of its own.
//
// Every process that a session started has ended when [Serve] returns, also those that left its process group
// (package process).
package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"stackyard/internal/clients/runner/osuser"
	"stackyard/internal/clients/runner/process"
)

// A Server is what a connection leads to.
type Server struct {
	HostKey  ssh.Signer
	User     ssh.PublicKey // the key that can sign in
	Username string        // the name that can sign in

	Shell  string            // program
	Dir    string            // where processes start
	Env    map[string]string // their variables
	RunAs  *osuser.User      // nil: the user of this process
	Marker string            // NAME=value, a variable that identifies all processes
	Log    *slog.Logger
}

// NewHostKey creates a host key, and returns its public part in the format of authorized_keys.
func NewHostKey() (ssh.Signer, string, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, "", err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, "", err
	}
	return signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), nil
}

const (
	// loginTimeout is how long a client can take to sign in.
	loginTimeout = 30 * time.Second
	// maxChannels is how many shells and commands a connection can have at once.
	maxChannels = 10
)

// Serve serves a connection until it or ctx ends. Then it ends all processes.
func (s *Server) Serve(ctx context.Context, conn net.Conn) error {
	config := &ssh.ServerConfig{
		MaxAuthTries: 3,
		PublicKeyCallback: func(about ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if about.User() != s.Username || subtle.ConstantTimeCompare(key.Marshal(), s.User.Marshal()) != 1 {
				return nil, errors.New("this key cannot sign in")
			}
			return &ssh.Permissions{}, nil
		},
	}
	config.AddHostKey(s.HostKey)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	slow := time.AfterFunc(loginTimeout, func() { conn.Close() })
	login, channels, requests, err := ssh.NewServerConn(conn, config)
	slow.Stop()
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	defer login.Close()
	go ssh.DiscardRequests(requests)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	places := make(chan struct{}, maxChannels)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			offered.Reject(ssh.UnknownChannelType, "only shells and commands are possible")
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			offered.Reject(ssh.ResourceShortage, fmt.Sprintf("at most %d shells and commands are possible at once", maxChannels))
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			<-places
			continue
		}
		running.Go(func() {
			defer func() { <-places }()
			(&session{Server: s, channel: channel}).serve(ctx, requests)
		})
	}
	cancel()
	running.Wait()
	process.KillMarked(s.Marker)
	return nil
}
