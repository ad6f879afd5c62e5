// Package mail writes e-mails about builds and hands them to an SMTP server.
//
// A message has a plain text and an HTML part that say the same. It is about one build and goes to one address.
package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"net/textproto"
	"time"

	"stackyard/internal/platform/outbound"
)

// A Server is an SMTP server and who sends through it.
type Server struct {
	Address            string // host and port
	Username, Password string // empty: none
	From               string // an address, with or without a name
	TLS                TLS
	SkipVerify         bool // accepts any certificate
}

// TLS is how connections to a server are encrypted.
type TLS string

// The modes.
const (
	StartTLS    TLS = "starttls" // the connection begins in the clear, and nothing is sent before it is encrypted
	ImplicitTLS TLS = "tls"
	NoTLS       TLS = "none"
)

// A Dialer connects to servers that may be reached.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// An Error is a message that was not sent.
type Error struct {
	Code int // of the server's reply; 0: there is none
	// Retry says that a later attempt may succeed.
	Retry bool
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// timeout bounds a conversation with a server.
const timeout = 10 * time.Second

// Send hands a message to a server. Its error is an *Error.
func (s Server) Send(ctx context.Context, dialer Dialer, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := s.send(ctx, dialer, m)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &Error{Retry: true, Err: errors.New("the SMTP server did not answer in time")}
	}
	code := 0
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		code = reply.Code
	}
	_, refused := errors.AsType[*outbound.RefusedError](err)
	_, unusable := errors.AsType[*unusableError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return &Error{Code: code, Retry: code < 500 && !refused && !unusable && !untrusted, Err: err}
}

// An unusableError is a server that cannot be used with these settings.
type unusableError struct{ reason string }

func (e *unusableError) Error() string { return e.reason }

func (s Server) send(ctx context.Context, dialer Dialer, m *Message) error {
	from, err := parseAddress(s.From)
	if err != nil {
		return &unusableError{fmt.Sprintf("the sender %q is not an e-mail address", s.From)}
	}
	body, err := m.encode(from)
	if err != nil {
		return &unusableError{err.Error()}
	}
	c, err := s.connect(ctx, dialer)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Mail(from.Address); err != nil {
		return err
	}
	if err := c.Rcpt(m.To); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	c.Quit() // the server has the message, whatever it answers
	return nil
}

// connect returns a client that is ready for a message.
func (s Server) connect(ctx context.Context, dialer Dialer) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, &unusableError{fmt.Sprintf("%q is not a host and a port", s.Address)}
	}
	conn, err := dialer.DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline) // of a TCP connection; it cannot fail before the first use does
	conn = &boundedConn{Conn: conn, left: maxAnswers}
	config := &tls.Config{ServerName: host, InsecureSkipVerify: s.SkipVerify}
	if s.TLS == ImplicitTLS {
		conn = tls.Client(conn, config)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if err := s.prepare(c, host, config); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// prepare encrypts the connection and authenticates.
func (s Server) prepare(c *smtp.Client, host string, config *tls.Config) error {
	if s.TLS == StartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return &unusableError{"the SMTP server does not offer STARTTLS"}
		}
		if err := c.StartTLS(config); err != nil {
			return err
		}
	}
	if s.Username == "" {
		return nil
	}
	if s.TLS == NoTLS {
		return &unusableError{"a password is sent only over an encrypted connection; set tls to starttls or tls"}
	}
	if ok, _ := c.Extension("AUTH"); !ok {
		return &unusableError{"the SMTP server does not offer authentication"}
	}
	return c.Auth(smtp.PlainAuth("", s.Username, s.Password, host))
}

// maxAnswers bounds what is read from a server, in bytes. Its certificates are part of it.
const maxAnswers = 256 << 10

// A boundedConn ends when too much is read from it.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, &unusableError{"the SMTP server answers too much"}
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}
