// Package rfb connects a user to a VNC server, whose protocol is RFB. It answers the security handshake for the server
// with a password of the session, so that users never know the server's own, and then copies bytes.
//
// Towards the server it knows the security types None and VNC Authentication.
package rfb

import (
	"context"
	"crypto/des"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	version = "RFB 003.008\n"

	noSecurity        = 1
	vncAuthentication = 2

	// handshakeTimeout bounds each handshake.
	handshakeTimeout = 30 * time.Second
	// dialTimeout bounds connecting to the server, probeTimeout the first answer of a server.
	dialTimeout, probeTimeout = 10 * time.Second, 10 * time.Second
	// maxText bounds texts that a server sends.
	maxText = 4 << 10
)

// A Server is a VNC server.
type Server struct {
	Address  string // host:port, or the path of a socket
	Password string // "": none
	// Through connects to the address from elsewhere; nil: this machine connects.
	Through func(ctx context.Context, network, address string) (net.Conn, error)
}

// Probe returns an error unless the server answers.
func (s Server) Probe(ctx context.Context) error {
	server, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	limit := time.AfterFunc(probeTimeout, func() { server.Close() })
	defer limit.Stop()
	_, err = readVersion(server)
	return err
}

// dial connects to the server.
func (s Server) dial(ctx context.Context) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(s.Address, "/") {
		network = "unix"
	}
	if s.Through != nil {
		return s.Through(ctx, network, s.Address)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, network, s.Address)
}

// Connect connects a user who knows a password to the server, until one of them or ctx ends.
func (s Server) Connect(ctx context.Context, user net.Conn, password string) error {
	defer user.Close()
	server, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() {
		user.Close()
		server.Close()
	})
	defer stop()
	limit := time.AfterFunc(handshakeTimeout, func() {
		user.Close()
		server.Close()
	})
	err = s.SignIn(server)
	if err == nil {
		err = admit(user, password)
	}
	limit.Stop()
	if err != nil {
		return err
	}
	var copies sync.WaitGroup
	one := func(to, from net.Conn) {
		io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
		to.Close()
	}
	copies.Go(func() { one(user, server) })
	copies.Go(func() { one(server, user) })
	copies.Wait()
	return nil
}

// SignIn does the security handshake as a client.
func (s Server) SignIn(server io.ReadWriter) error {
	theirs, err := readVersion(server)
	if err != nil {
		return err
	}
	if theirs < "RFB 003.007" {
		return fmt.Errorf("the VNC server has version %q, which is too old", theirs[:11])
	}
	if _, err := io.WriteString(server, version); err != nil {
		return err
	}
	var count [1]byte
	if _, err := io.ReadFull(server, count[:]); err != nil {
		return err
	}
	if count[0] == 0 {
		return fmt.Errorf("the VNC server refused: %s", readText(server))
	}
	types := make([]byte, count[0])
	if _, err := io.ReadFull(server, types); err != nil {
		return err
	}
	has := func(t byte) bool { return strings.IndexByte(string(types), t) >= 0 }
	switch {
	case has(vncAuthentication) && s.Password != "":
		var challenge [16]byte
		if _, err := server.Write([]byte{vncAuthentication}); err != nil {
			return err
		}
		if _, err := io.ReadFull(server, challenge[:]); err != nil {
			return err
		}
		if _, err := server.Write(answer(s.Password, challenge[:])); err != nil {
			return err
		}
	case has(noSecurity):
		if _, err := server.Write([]byte{noSecurity}); err != nil {
			return err
		}
	case has(vncAuthentication):
		return errors.New("the VNC server needs a password; set --vnc-password")
	default:
		return fmt.Errorf("the VNC server has only the security types %v; allow a VNC password there", types)
	}
	var result [4]byte
	if _, err := io.ReadFull(server, result[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(result[:]) != 0 {
		return fmt.Errorf("the VNC server refused the password: %s", readText(server))
	}
	return nil
}

// readVersion reads the version that a server sends first.
func readVersion(server io.Reader) (string, error) {
	theirs := make([]byte, len(version))
	if _, err := io.ReadFull(server, theirs); err != nil {
		return "", fmt.Errorf("read the version of the VNC server: %w", err)
	}
	if !strings.HasPrefix(string(theirs), "RFB 003.") {
		return "", errors.New("this is no VNC server")
	}
	return string(theirs), nil
}

// readText reads a text of a server, or what can be read of it.
func readText(r io.Reader) string {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "no reason given"
	}
	text := make([]byte, min(binary.BigEndian.Uint32(size[:]), maxText))
	n, _ := io.ReadFull(r, text)
	return fmt.Sprintf("%q", text[:n])
}

var errPassword = errors.New("the password is wrong")

// admit does the security handshake as a server.
func admit(user io.ReadWriter, password string) error {
	if _, err := io.WriteString(user, version); err != nil {
		return err
	}
	theirs := make([]byte, len(version))
	if _, err := io.ReadFull(user, theirs); err != nil {
		return err
	}
	if !strings.HasPrefix(string(theirs), "RFB 003.") || string(theirs) < "RFB 003.007" {
		return errors.New("the VNC viewer is too old")
	}
	if _, err := user.Write([]byte{1, vncAuthentication}); err != nil {
		return err
	}
	var chosen [1]byte
	if _, err := io.ReadFull(user, chosen[:]); err != nil {
		return err
	}
	if chosen[0] != vncAuthentication {
		return errors.New("the VNC viewer chose an unknown security type")
	}
	var challenge, response [16]byte
	if _, err := rand.Read(challenge[:]); err != nil {
		return err
	}
	if _, err := user.Write(challenge[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(user, response[:]); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(response[:], answer(password, challenge[:])) != 1 {
		refusal := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(len(errPassword.Error())))
		user.Write(append(refusal, errPassword.Error()...))
		return errPassword
	}
	_, err := user.Write([]byte{0, 0, 0, 0})
	return err
}

// answer returns the answer to a challenge: the challenge, encrypted with DES. The protocol fixes the algorithm, and
// that the bits of each byte of the key are reversed. That is weak, but only the holder of the session's token, which
// is used once, gets as far as here.
func answer(password string, challenge []byte) []byte {
	var key [8]byte
	copy(key[:], password)
	for i, b := range key {
		key[i] = bits.Reverse8(b)
	}
	cipher, err := des.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has eight bytes
	}
	out := make([]byte, len(challenge))
	for i := 0; i+8 <= len(challenge); i += 8 {
		cipher.Encrypt(out[i:], challenge[i:])
	}
	return out
}
