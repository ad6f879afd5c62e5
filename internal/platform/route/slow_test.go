package route

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A client that stops in the middle of a body gets a response, and does not keep the connection forever.
func TestDecode_GivesUpOnABodyThatDoesNotArrive(t *testing.T) {
	echo := func(r *Request, body sample) (sample, error) { return body, nil }
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodPost, Path: "/echo", Auth: Open, Handler: DoBody(echo)},
	})
	s.bodyTimeout = time.Millisecond
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"name\": "); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 408 ") || !strings.Contains(string(response), "did not arrive within 1ms") {
		t.Errorf("%v, %s", err, response)
	}
}

// A body that is parsed while it arrives is bounded as one that is read at once.
func TestOpenBody_BoundsSizeAndTime(t *testing.T) {
	count := func(r *Request) (sample, error) {
		_, err := io.Copy(io.Discard, r.OpenBody(10, time.Millisecond))
		return sample{}, err
	}
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodPost, Path: "/count", Auth: Open, Handler: Do(count)},
	})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	for request, want := range map[string]string{
		"POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf":                                     "HTTP/1.1 408 ",
		"POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 20\r\n\r\n01234567890123456789": "HTTP/1.1 413 ",
		"POST /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789":           "HTTP/1.1 200 ",
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		response, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(response), want) {
			t.Errorf("%q: %v, %s", request, err, response)
		}
		conn.Close()
	}
}
