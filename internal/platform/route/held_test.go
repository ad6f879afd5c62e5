package route_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/parked"
	"stackyard/internal/platform/route"
)

// heldServer is a real server whose requests wait until the test answers them.
type heldServer struct {
	t         *testing.T
	listener  *parked.Listener
	address   string
	waiting   chan context.Context // of each request that begins to wait
	responses chan string          // "" is an error
}

func newHeldServer(t *testing.T) *heldServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &heldServer{t: t, listener: parked.Listen(l), address: l.Addr().String(), waiting: make(chan context.Context, 10), responses: make(chan string, 10)}
	if h.listener == nil {
		t.Skip("connections cannot be parked here")
	}
	wait := func(ctx context.Context) (string, error) {
		h.waiting <- ctx
		select {
		case response := <-h.responses:
			if response == "" {
				return "", core.Errorf(core.Unprocessable, "No answer")
			}
			return response, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	handler := route.New(
		route.Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Parked: h.listener},
		[]route.Route{
			{Method: http.MethodGet, Path: "/v3/wait", Auth: route.Open, Handler: route.Do(func(*route.Request) (route.Held[string], error) {
				return route.Held[string]{Wait: wait}, nil
			})},
			{Method: http.MethodGet, Path: "/v3/now", Auth: route.Open, Handler: route.Do(func(*route.Request) (string, error) { return "now", nil })},
		})
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 50 * time.Millisecond}
	go s.Serve(h.listener)
	t.Cleanup(func() { s.Close() })
	return h
}

// client sends requests over one connection.
type client struct {
	t *testing.T
	net.Conn
	responses *bufio.Reader
}

func (h *heldServer) dial() *client {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return &client{h.t, conn, bufio.NewReader(conn)}
}

func (c *client) send(paths ...string) {
	c.t.Helper()
	for _, path := range paths {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *client) want(status int, body string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.responses, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(got), body) {
		c.t.Fatalf("status %d, %q, %v; want %d, %q", resp.StatusCode, got, err, status, body)
	}
	if resp.Header.Get("Date") == "" || resp.Header.Get("X-Request-Id") == "" {
		c.t.Errorf("the response has the headers %v", resp.Header)
	}
	return resp
}

func TestHeld_ServesManyRequestsOnOneConnection(t *testing.T) {
	h := newHeldServer(t)
	c := h.dial()
	for range 3 {
		c.send("/v3/wait")
		<-h.waiting
		h.responses <- "yes"
		c.want(http.StatusOK, `"yes"`)
		time.Sleep(100 * time.Millisecond) // longer than ReadHeaderTimeout: an idle connection stays open
		c.send("/v3/now")
		c.want(http.StatusOK, `"now"`)
	}
	c.send("/v3/wait")
	<-h.waiting
	h.responses <- ""
	c.want(http.StatusUnprocessableEntity, "No answer")
	c.send("/v3/wait", "/v3/now") // the second request arrives while the first one waits
	<-h.waiting
	h.responses <- "first"
	c.want(http.StatusOK, `"first"`)
	c.want(http.StatusOK, `"now"`)
}

func TestHeld_NoticesThatTheClientDisconnects(t *testing.T) {
	h := newHeldServer(t)
	c := h.dial()
	c.send("/v3/wait")
	ctx := <-h.waiting
	c.Close()
	<-ctx.Done()
}

func TestHeld_WaitsWithoutTheGoroutinesOfConnections(t *testing.T) {
	h := newHeldServer(t)
	before := runtime.NumGoroutine()
	for range 10 {
		h.dial().send("/v3/wait")
		<-h.waiting
	}
	// net/http has two goroutines for a request that waits. They end after the request was parked.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+10; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines for 10 requests", runtime.NumGoroutine()-before)
		}
	}
}

func TestHeld_ClosesConnectionsWhenTheServerDrains(t *testing.T) {
	h := newHeldServer(t)
	idle, c := h.dial(), h.dial()
	idle.send("/v3/wait")
	<-h.waiting
	h.responses <- "yes"
	idle.want(http.StatusOK, `"yes"`)
	c.send("/v3/wait")
	<-h.waiting
	h.listener.Drain()
	if _, err := idle.responses.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v", err)
	}
	h.responses <- "last"
	if resp := c.want(http.StatusOK, `"last"`); !resp.Close {
		t.Error("the last response does not say that the connection is closed")
	}
	h.listener.Wait(t.Context())
	late := h.dial()
	late.send("/v3/wait") // served as usual
	<-h.waiting
	h.responses <- "late"
	late.want(http.StatusOK, `"late"`)
}
