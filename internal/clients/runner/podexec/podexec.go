// Package podexec runs the command of a job in another container of the agent's pod. The agent connects to a
// socket in a folder that both containers have, and requests processes over this one connection. When the
// connection ends, so does everything in the other container: it never waits for an agent that is gone.
package podexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/process"
	"stackyard/internal/clients/sleep"
)

// A request comes from the agent.
type request struct {
	Run    *command `json:"run,omitempty"`    // run a process
	Signal string   `json:"signal,omitempty"` // "term" or "kill": stop it
}

type command struct {
	Script string   `json:"script"` // for the shell of the container
	Dir    string   `json:"dir"`
	Env    []string `json:"env"`
}

// A response goes to the agent.
type response struct {
	Output []byte          `json:"output,omitempty"`
	Result *process.Result `json:"result,omitempty"` // the process has ended
	Error  string          `json:"error,omitempty"`  // the process could not be run
}

// Serve listens on a socket and runs what the first connection requests until it ends, or ctx is done.
func Serve(ctx context.Context, socket string, shell []string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	// The containers may have different users.
	if err := os.Chmod(socket, 0o666); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	listener.Close() // one agent only
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := &server{shell: shell, out: json.NewEncoder(conn)}
	return s.serve(json.NewDecoder(conn))
}

// A server runs the processes of one agent, one at a time.
type server struct {
	shell []string

	mu      sync.Mutex
	out     *json.Encoder
	term    chan struct{} // closed by the first signal of the running process
	kill    chan struct{}
	running bool
}

func (s *server) serve(in *json.Decoder) error {
	var processes sync.WaitGroup
	defer processes.Wait()
	defer s.signal("kill")
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
				return nil
			}
			return fmt.Errorf("read from the agent: %w", err)
		}
		if r.Signal != "" {
			s.signal(r.Signal)
		}
		if r.Run != nil {
			stop, ok := s.begin()
			if !ok {
				return errors.New("the agent requested a second process while one runs")
			}
			processes.Go(func() { s.run(*r.Run, stop) })
		}
	}
}

func (s *server) begin() (process.Stop, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return process.Stop{}, false
	}
	s.running, s.term, s.kill = true, make(chan struct{}), make(chan struct{})
	return process.Stop{Term: s.term, Kill: s.kill}, true
}

// signal stops the running process.
func (s *server) signal(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return
	}
	channel := s.term
	if name == "kill" {
		channel = s.kill
	}
	select {
	case <-channel:
	default:
		close(channel)
	}
}

func (s *server) run(c command, stop process.Stop) {
	result, err := process.Run(process.Command{
		Args: append(append([]string{}, s.shell...), c.Script), Dir: c.Dir, Env: merge(os.Environ(), c.Env), Output: s,
	}, stop)
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	if err != nil {
		s.send(response{Error: err.Error()})
		return
	}
	s.send(response{Result: &result})
}

// Write sends output of the process.
func (s *server) Write(p []byte) (int, error) {
	return len(p), s.send(response{Output: p})
}

func (s *server) send(r response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Encode(r)
}

// ownNames are variables that describe the container, not the job.
var ownNames = map[string]bool{"PATH": true, "HOME": true, "HOSTNAME": true, "USER": true, "LOGNAME": true, "SHELL": true, "PWD": true}

// merge returns the variables of a process: the container's own, and those of the job. The commands for scripts
// in jobs come first in PATH.
func merge(own, job []string) []string {
	env := environ.Parse(own)
	for name, value := range environ.Parse(job) {
		if !ownNames[name] {
			env[name] = value
		}
	}
	if bin := env.Service("BIN_PATH"); bin != "" {
		env["PATH"] = strings.TrimSuffix(bin+string(os.PathListSeparator)+env["PATH"], string(os.PathListSeparator))
	}
	return env.Lines()
}

// A Conn is the agent's connection to the other container.
type Conn struct {
	conn net.Conn
	in   *json.Decoder

	mu  sync.Mutex
	out *json.Encoder
}

// dialPause is the delay between attempts to connect.
const dialPause = 50 * time.Millisecond

// Dial connects to the other container. It waits until that container runs, or ctx is done.
func Dial(ctx context.Context, socket string) (*Conn, error) {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return &Conn{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}, nil
		}
		if !sleep.For(ctx, dialPause) {
			return nil, fmt.Errorf("wait for the container that runs commands: %w", err)
		}
	}
}

// Close ends the other container.
func (c *Conn) Close() error { return c.conn.Close() }

// Run runs a script in the other container until it ends.
func (c *Conn) Run(script, dir string, env []string, output io.Writer, stop process.Stop) (process.Result, error) {
	if err := c.send(request{Run: &command{Script: script, Dir: dir, Env: env}}); err != nil {
		return process.Result{}, lost(err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go c.forward(stop, ended)
	for {
		var r response
		if err := c.in.Decode(&r); err != nil {
			return process.Result{}, lost(err)
		}
		switch {
		case r.Result != nil:
			return *r.Result, nil
		case r.Error != "":
			return process.Result{}, errors.New(r.Error)
		default:
			if _, err := output.Write(r.Output); err != nil {
				return process.Result{}, err
			}
		}
	}
}

// forward sends the signals that stop the process.
func (c *Conn) forward(stop process.Stop, ended <-chan struct{}) {
	for term := stop.Term; ; {
		select {
		case <-term:
			term = nil
			c.send(request{Signal: "term"}) // if this fails, Run reports it
		case <-stop.Kill:
			c.send(request{Signal: "kill"})
			return
		case <-ended:
			return
		}
	}
}

func (c *Conn) send(r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Encode(r)
}

// lost explains that the connection has ended: nothing else ends it than the end of the container.
func lost(err error) error {
	return fmt.Errorf("the container that runs the command has ended, for example because it used too much memory: %w", err)
}
