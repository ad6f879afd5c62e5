// Package mailtest has an SMTP server for tests.
package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"stackyard/internal/domain/notifications/mail"
)

// The credentials that a server knows.
const (
	Username = "stackyard"
	Password = "correct horse"
)

// A Server takes messages. One that encrypts also wants a password.
type Server struct {
	Address  string
	server   *smtp.Server
	listener net.Listener

	mu       sync.Mutex
	refuse   int
	received []Received
	arrived  chan struct{}
}

// Received is a message that arrived.
type Received struct {
	User, From string
	To         []string
	Body       []byte
}

// Start starts a server with a certificate of its own, and stops it when the test ends.
func Start(t testing.TB, mode mail.TLS) *Server {
	t.Helper()
	s := &Server{arrived: make(chan struct{}, 1000)}
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{server: s, authorized: mode == mail.NoTLS}, nil
	}))
	s.server.Domain = "localhost"
	if mode != mail.NoTLS {
		s.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = listener.Addr().String()
	if mode == mail.ImplicitTLS {
		listener = tls.NewListener(listener, s.server.TLSConfig)
	}
	s.listener = listener
	go s.server.Serve(listener)
	t.Cleanup(s.Close)
	return s
}

// Close stops the server.
func (s *Server) Close() {
	s.listener.Close() // the server does not know it yet when it has just started
	s.server.Close()
}

// Refuse has the server refuse recipients with a code.
func (s *Server) Refuse(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = code
}

// Received returns the messages that arrived.
func (s *Server) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// Wait waits for a number of messages and returns them.
func (s *Server) Wait(t testing.TB, n int) []Received {
	t.Helper()
	for {
		if got := s.Received(); len(got) >= n {
			return got
		}
		select {
		case <-s.arrived:
		case <-time.After(30 * time.Second):
			t.Fatalf("%d messages arrived, want %d", len(s.Received()), n)
		}
	}
}

type session struct {
	server     *Server
	authorized bool
	got        Received
}

// AuthMechanisms returns how clients can authenticate.
func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth checks a password.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != Username || password != Password {
			return smtp.ErrAuthFailed
		}
		s.authorized, s.got.User = true, username
		return nil
	}), nil
}

// Mail begins a message.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if !s.authorized {
		return smtp.ErrAuthRequired
	}
	s.got.From = from
	return nil
}

// Rcpt adds a recipient.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.refuse != 0 {
		return &smtp.SMTPError{Code: s.server.refuse, Message: "refused"}
	}
	s.got.To = append(s.got.To, to)
	return nil
}

// Data takes the message.
func (s *session) Data(r io.Reader) (err error) {
	if s.got.Body, err = io.ReadAll(r); err != nil {
		return err
	}
	s.server.mu.Lock()
	s.server.received = append(s.server.received, s.got)
	s.server.mu.Unlock()
	s.server.arrived <- struct{}{}
	return nil
}

// Reset forgets the message.
func (s *session) Reset() { s.got = Received{User: s.got.User} }

// Logout ends the session.
func (s *session) Logout() error { return nil }

// certificate returns a self-signed certificate.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
