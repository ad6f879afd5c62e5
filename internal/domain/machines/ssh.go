package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"stackyard/internal/platform/core"
)

const (
	// dialTimeout bounds connecting to a machine and signing in.
	dialTimeout = 15 * time.Second
	// aliveEvery and aliveTimeout find connections that died silently.
	aliveEvery, aliveTimeout = 15 * time.Second, 30 * time.Second
	// commandTimeout bounds short commands.
	commandTimeout = time.Minute
	// maxAnswer bounds what a command prints.
	maxAnswer = 64 << 10
)

// A link is a connection to a place.
type link struct {
	*ssh.Client
	place   *Place
	desktop bool // the desktop is served
}

// dial connects to a place and verifies its host key.
func (p *Place) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.Address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, p.Address, &ssh.ClientConfig{
		User: p.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(p.key)},
		HostKeyCallback: p.checkHostKey, HostKeyAlgorithms: p.hostKeyAlgorithms(),
	})
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &link{Client: ssh.NewClient(c, channels, requests), place: p}
	go l.keepAlive()
	return l, nil
}

// checkHostKey returns an error unless a key is one of the place's.
func (p *Place) checkHostKey(_ string, _ net.Addr, key ssh.PublicKey) error {
	for _, known := range p.hostKeys {
		if bytes.Equal(known.Marshal(), key.Marshal()) {
			return nil
		}
	}
	return fmt.Errorf("the host key %s is not one of the machine's host_keys", ssh.FingerprintSHA256(key))
}

// hostKeyAlgorithms returns the algorithms of the place's keys, so that the machine sends one of these keys.
func (p *Place) hostKeyAlgorithms() (names []string) {
	for _, key := range p.hostKeys {
		if key.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			names = append(names, key.Type())
		}
	}
	return names
}

// keepAlive closes the connection when the machine does not answer.
func (l *link) keepAlive() {
	for range time.Tick(aliveEvery) {
		answered := make(chan error, 1)
		go func() {
			_, _, err := l.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case err := <-answered:
			if err != nil {
				return
			}
		case <-time.After(aliveTimeout):
			l.Close()
			return
		}
	}
}

// errDisconnected means that the connection to a place broke, so it is unknown what became of a command.
var errDisconnected = errors.New("the connection to the machine was lost")

// A commandError is a command that failed on a place.
type commandError struct {
	place, command, output string
	status                 int
}

func (e *commandError) Error() string {
	text := fmt.Sprintf("%s on the machine %s failed with status %d", e.command, e.place, e.status)
	if e.output != "" {
		text += ": " + e.output
	}
	return text
}

// run runs a command about a machine and returns what it prints. If the input is nil, it stays open until the command
// has ended.
func (l *link) run(ctx context.Context, input []byte, command, id string) (string, error) {
	session, err := l.NewSession()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errDisconnected, err)
	}
	defer session.Close()
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	var out, problems limitedBuffer
	session.Stdout, session.Stderr = &out, &problems
	if input != nil {
		session.Stdin = bytes.NewReader(input)
	} else if _, err := session.StdinPipe(); err != nil { // open until the session is closed
		return "", err
	}
	words := []string{quote(l.place.Program), "machine", command}
	if l.place.Folder != "" {
		words = append(words, "--folder", quote(l.place.Folder))
	}
	err = session.Run("exec " + strings.Join(append(words, quote(id)), " "))
	exit, failed := errors.AsType[*ssh.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case failed && exit.Signal() == "":
		text := strings.ToValidUTF8(strings.TrimSpace(problems.String()), "\uFFFD")
		return "", &commandError{l.place.Name, l.place.Program + " machine " + command, core.Cut(text, 2000), exit.ExitStatus()}
	case err != nil:
		return "", fmt.Errorf("%w: %w", errDisconnected, err)
	}
	return out.String(), nil
}

// quote quotes a word for a shell. A leading ~/ is left to the shell.
func quote(word string) string {
	if rest, ok := strings.CutPrefix(word, "~/"); ok {
		return "~/" + quote(rest)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// A limitedBuffer keeps the start of what is written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, maxAnswer-b.Len()))])
	return len(p), nil
}
