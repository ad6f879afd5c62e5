package route

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/core"
)

func TestDecode_RefusesTooManyValues(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want core.Kind
	}{
		"an array":             {`{"a":[` + strings.Repeat("1,", maxValues) + `1]}`, core.BadRequest},
		"keys":                 {`{` + strings.Repeat(`"":1,`, maxValues) + `"":1}`, core.BadRequest},
		"arrays in arrays":     {`{"a":` + strings.Repeat("[", maxValues+1), core.BadRequest},
		"commas in a string":   {`{"a":"` + strings.Repeat(",", maxValues+1) + `"}`, 0},
		"quotes in a string":   {`{"a":"` + strings.Repeat(`\",`, maxValues+1) + `"}`, 0},
		"as many as there may": {`{"a":[` + strings.Repeat("1,", maxValues-3) + `1]}`, 0},
	} {
		err := Decode([]byte(test.body), &struct{}{})
		if core.KindOf(err) != test.want && err != nil || (err == nil) != (test.want == 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client that stops reading loses its connection, so that the response is not kept in memory forever.
func TestWrite_GivesUpOnAClientThatStopsReading(t *testing.T) {
	large := strings.Repeat("x", 32<<20) // more than network buffers hold
	ended := make(chan struct{})
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodGet, Path: "/large", Auth: Open, Handler: Do(func(*Request) (string, error) { return large, nil })},
	})
	s.writeTimeout = 10 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if r.URL.Path == "/large" {
			close(ended)
		}
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-ended // although no client reads
	if got, _ := io.ReadAll(conn); len(got) >= len(large) {
		t.Errorf("the client got all %d bytes", len(got))
	}
}

// deadlined is a connection that records its write deadline.
type deadlined struct {
	net.Conn
	writeBy atomic.Pointer[time.Time]
}

func (c *deadlined) SetWriteDeadline(t time.Time) error {
	c.writeBy.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

type deadlinedListener struct{ net.Listener }

func (l deadlinedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &deadlined{Conn: c}, err
}

// The deadline of one response does not end a later one on the same connection.
func TestWrite_GivesEachAnswerADeadlineOfItsOwn(t *testing.T) {
	type connection struct{}
	var before []time.Time // the deadline when a response starts
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodGet, Path: "/", Auth: Open, Handler: Do(func(r *Request) (string, error) {
			before = append(before, *r.Context().Value(connection{}).(*deadlined).writeBy.Load())
			return "x", nil
		})},
	})
	server := httptest.NewUnstartedServer(s)
	server.Listener = deadlinedListener{server.Listener}
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, c)
	}
	server.Start()
	t.Cleanup(server.Close)
	for range 2 {
		res, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if len(before) != 2 || !before[0].IsZero() || !before[1].IsZero() {
		t.Errorf("answers begin with the deadlines %v, want none", before)
	}
}
