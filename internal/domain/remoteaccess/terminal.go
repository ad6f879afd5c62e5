package remoteaccess

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// A browser has no SSH client, so for a terminal on a page this server is the client: it opens a session as anyone
// does, and the page speaks a small protocol to it. Binary messages are input and output. Text messages are JSON: a
// terminalSize from the page, a terminalEnd from the server.

type terminalSize struct {
	Columns int `json:"columns"`
	Rows    int `json:"rows"`
}

type terminalEnd struct {
	Status  *int   `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
}

// maxTerminalSide bounds the size of a terminal.
const maxTerminalSide = 2000

func (t terminalSize) valid() bool {
	return t.Columns > 0 && t.Columns <= maxTerminalSide && t.Rows > 0 && t.Rows <= maxTerminalSide
}

// ServeTerminal opens a shell in a job for the page at the other end of a WebSocket. It returns at once.
func (s *Service) ServeTerminal(conn *websocket.Conn, org *identity.Organization, j *builds.Job, by Opener, address string) {
	conn.SetReadLimit(maxMessage)
	s.open.Go(func() {
		t := &pageTerminal{conn: conn}
		done := make(chan struct{})
		defer close(done)
		go keepAlive(done, conn, func(string) { conn.CloseNow() })
		end := t.serve(s, org, j, by, address)
		text, _ := json.Marshal(end)
		conn.Write(context.Background(), websocket.MessageText, text)
		closeWith(conn, end.Message)
	})
}

// A pageTerminal is a terminal on a page.
type pageTerminal struct {
	conn *websocket.Conn

	mu     sync.Mutex
	reason string // why the session ended, if the other end said so
}

// errTerminal is the message for causes that users cannot do anything about.
const errTerminal = "the connection was lost"

// serve runs a shell and returns how it ended.
func (t *pageTerminal) serve(s *Service, org *identity.Organization, j *builds.Job, by Opener, address string) terminalEnd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.openTimeout)
	defer cancel()
	size, err := t.readSize(ctx)
	if err != nil {
		return terminalEnd{Message: errTerminal}
	}
	o, err := s.Open(ctx, org, j, by, Shell)
	var l link
	if err == nil {
		l, err = s.take(ctx, o.ID, o.Token, address)
	}
	if e, ok := errors.AsType[*core.Error](err); ok {
		return terminalEnd{Message: e.Message}
	}
	if err != nil {
		s.Log.Warn("open terminal failed", "job", j.ID, "error", err)
		return terminalEnd{Message: "something went wrong on the server"}
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	s.open.Go(func() {
		l.join(&userEnd{theirs, func(reason string) {
			t.mu.Lock()
			t.reason = reason
			t.mu.Unlock()
			theirs.Close()
		}})
	})
	status, err := t.run(ours, o, size)
	if err == nil {
		return terminalEnd{Status: &status}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason != "" {
		return terminalEnd{Message: t.reason}
	}
	return terminalEnd{Message: errTerminal}
}

// readSize reads the first message, which is the size of the terminal.
func (t *pageTerminal) readSize(ctx context.Context) (size terminalSize, err error) {
	kind, text, err := t.conn.Read(ctx)
	if err == nil && (kind != websocket.MessageText || json.Unmarshal(text, &size) != nil || !size.valid()) {
		err = errors.New("the first message is no size")
	}
	return size, err
}

// run runs a shell over a connection and returns its exit status.
func (t *pageTerminal) run(conn net.Conn, o *Opened, size terminalSize) (status int, err error) {
	signer, err := ssh.ParsePrivateKey([]byte(o.PrivateKey))
	if err != nil {
		return 0, err
	}
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(o.HostKey))
	if err != nil {
		return 0, err
	}
	login, channels, requests, err := ssh.NewClientConn(conn, "job", &ssh.ClientConfig{
		User: o.Username, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(hostKey),
	})
	if err != nil {
		return 0, err
	}
	client := ssh.NewClient(login, channels, requests)
	defer client.Close()
	shell, err := client.NewSession()
	if err != nil {
		return 0, err
	}
	defer shell.Close()
	output := websocketWriter{t.conn}
	shell.Stdout, shell.Stderr = output, output
	input, err := shell.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := shell.RequestPty("xterm-256color", size.Rows, size.Columns, ssh.TerminalModes{}); err != nil {
		return 0, err
	}
	if err := shell.Shell(); err != nil {
		return 0, err
	}
	go func() {
		defer client.Close() // the page was closed
		for {
			kind, message, err := t.conn.Read(context.Background())
			var size terminalSize
			switch {
			case err != nil:
				return
			case kind == websocket.MessageBinary:
				if _, err := input.Write(message); err != nil {
					return
				}
			case json.Unmarshal(message, &size) == nil && size.valid():
				shell.WindowChange(size.Rows, size.Columns)
			}
		}
	}()
	err = shell.Wait()
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return exit.ExitStatus(), nil
	}
	return 0, err
}

// A websocketWriter writes binary messages.
type websocketWriter struct{ conn *websocket.Conn }

func (w websocketWriter) Write(b []byte) (int, error) {
	return len(b), w.conn.Write(context.Background(), websocket.MessageBinary, b)
}
