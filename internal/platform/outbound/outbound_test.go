package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestClient_RefusesLoopbackByAddressAndByName(t *testing.T) {
	server, hits := serve(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(server)
	client := newClient(nil, names{"hook.example.test.": {{"127.0.0.1"}}}.resolver(t))
	for _, url := range []string{
		"http://" + server,
		"http://localhost:" + port,
		"http://hook.example.test:" + port,
		"http://0.0.0.0:" + port,
		"http://[::ffff:127.0.0.1]:" + port,
		"https://" + server,
		"http://169.254.169.254/latest/meta-data/",
	} {
		_, err := get(t, client, url)
		if _, ok := errors.AsType[*RefusedError](err); !ok {
			t.Errorf("%s: %v, want a refusal", url, err)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("the server was reached %d times", hits.Load())
	}
}

func TestClient_ReachesWhatTheAllowListNames(t *testing.T) {
	server, _ := serve(t, "127.0.0.1:0")
	if body, err := get(t, New(mustAllow(t, "127.0.0.0/8")), "http://"+server); err != nil || body != "reached 127.0.0.1" {
		t.Fatalf("got %q, %v", body, err)
	}
}

func TestClient_ReachesIPv6WhenNamed(t *testing.T) {
	if probe, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6")
	} else {
		probe.Close()
	}
	server, _ := serve(t, "[::1]:0")
	if _, err := get(t, New(mustAllow(t, "127.0.0.0/8")), "http://"+server); err == nil {
		t.Error("::1 was reached though only IPv4 is allowed")
	}
	if body, err := get(t, New(mustAllow(t, "::1/128")), "http://"+server); err != nil || body != "reached ::1" {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestClient_TriesOnlyTheAllowedAddressesOfAName(t *testing.T) {
	first, firstHits := serve(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(first)
	serve(t, "127.0.0.2:"+port)
	resolver := names{"hook.example.test.": {{"127.0.0.1", "::1", "127.0.0.2"}}}.resolver(t)

	body, err := get(t, newClient(mustAllow(t, "127.0.0.2/32"), resolver), "http://hook.example.test:"+port)
	if err != nil || body != "reached 127.0.0.2" {
		t.Errorf("got %q, %v", body, err)
	}
	if firstHits.Load() != 0 {
		t.Error("the address that is not allowed was reached")
	}
}

func TestClient_JudgesANameAgainForEachConnection(t *testing.T) {
	first, firstHits := serve(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(first)
	serve(t, "127.0.0.2:"+port)
	resolver := names{"rebind.example.test.": {{"127.0.0.2"}, {"127.0.0.1"}}}.resolver(t)
	client := newClient(mustAllow(t, "127.0.0.2/32"), resolver)

	if body, err := get(t, client, "http://rebind.example.test:"+port); err != nil || body != "reached 127.0.0.2" {
		t.Fatalf("the first answer: %q, %v", body, err)
	}
	_, err := get(t, client, "http://rebind.example.test:"+port)
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Addr != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("after the name moved: %v, want a refusal", err)
	}
	if firstHits.Load() != 0 {
		t.Error("the name was believed twice")
	}
}

func TestClient_ReturnsRedirectsAsTheyAre(t *testing.T) {
	var followed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed.Store(r.URL.Path == "/next")
		http.Redirect(w, r, "/next", http.StatusFound)
	}))
	defer server.Close()
	resp, err := New(mustAllow(t, "127.0.0.0/8")).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound || followed.Load() {
		t.Fatalf("status %d, followed %v", resp.StatusCode, followed.Load())
	}
}

func TestClient_UsesNoProxy(t *testing.T) {
	proxy, hits := serve(t, "127.0.0.1:0")
	t.Setenv("HTTP_PROXY", "http://"+proxy)
	t.Setenv("HTTPS_PROXY", "http://"+proxy)
	get(t, New(mustAllow(t, "127.0.0.1/32")), "http://10.0.0.1")
	if hits.Load() != 0 {
		t.Fatal("the proxy of the environment was asked")
	}
}

func TestClient_SpeaksHTTPOnly(t *testing.T) {
	for _, url := range []string{"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/"} {
		if _, err := get(t, New(mustAllow(t, "127.0.0.0/8")), url); err == nil || !strings.Contains(err.Error(), "unsupported protocol scheme") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// serve responds on an address with the address, and counts the requests. It closes every connection after one
// request, so that the next one connects again.
func serve(t *testing.T, address string) (listening string, hits *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := net.SplitHostPort(listener.Addr().String())
	hits = new(atomic.Int64)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, "reached %s", host)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String(), hits
}

func get(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func mustAllow(t *testing.T, list string) []netip.Prefix {
	t.Helper()
	allow, err := ParseAllow(list)
	if err != nil {
		t.Fatal(err)
	}
	return allow
}

// names is a DNS: for each name the answers in order, the last one repeated, each a list of addresses.
type names map[string][][]string

// resolver starts a DNS server for the names and returns a resolver that uses it.
func (n names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go n.serve(conn)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (n names) serve(conn net.PacketConn) {
	asked := map[dnsmessage.Question]int{}
	buf := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:size]) != nil {
			continue
		}
		question := query.Questions[0]
		reply := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true},
			Questions: query.Questions,
		}
		if answers := n[question.Name.String()]; len(answers) > 0 {
			answer := answers[min(asked[question], len(answers)-1)]
			asked[question]++
			reply.Answers = records(question, answer)
		} else {
			reply.RCode = dnsmessage.RCodeNameError
		}
		if packet, err := reply.Pack(); err == nil {
			conn.WriteTo(packet, from)
		}
	}
}

// records returns the addresses of the requested family.
func records(question dnsmessage.Question, addresses []string) []dnsmessage.Resource {
	var answers []dnsmessage.Resource
	for _, address := range addresses {
		addr := netip.MustParseAddr(address)
		header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, Type: question.Type}
		switch {
		case addr.Is4() && question.Type == dnsmessage.TypeA:
			answers = append(answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && question.Type == dnsmessage.TypeAAAA:
			answers = append(answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return answers
}
