package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	pebbledb "github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// acmeHost is the name that certificates are issued for.
const acmeHost = "ci.example.test"

// acmeWait is how long a certificate may take on a busy machine.
const acmeWait = 2 * time.Minute

// An authority is a real ACME server, Pebble, for which every name is at 127.0.0.1.
type authority struct {
	*httptest.Server
	ca      *ca.CAImpl
	trusted string // file with the certificate of its own https
	open    func(tlsPort, httpPort int)
}

// newAuthority starts an authority. Its requests wait until open is called with the ports at which it checks challenges.
func newAuthority(t *testing.T, validity uint64) *authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	quiet := log.New(io.Discard, "", 0)
	store := pebbledb.NewMemoryStore()
	a := &authority{ca: ca.New(quiet, store, "", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: validity}})}
	var handler http.Handler
	opened := make(chan struct{})
	resolver := nameServer(t)
	a.open = func(tlsPort, httpPort int) {
		front := wfe.New(quiet, store, va.New(quiet, httpPort, tlsPort, true, resolver, store), a.ca, true, false, 1, 1)
		handler = front.Handler()
		close(opened)
	}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-opened:
			handler.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(a.Close)
	a.trusted = filepath.Join(t.TempDir(), "authority.pem")
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	if err := os.WriteFile(a.trusted, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) directory() string { return a.URL + wfe.DirectoryPath }

// nameServer starts a DNS server and returns its address.
func nameServer(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg).SetReply(question)
		for _, q := range question.Question {
			if q.Qtype == dns.TypeA {
				answer.Answer = append(answer.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(127, 0, 0, 1),
				})
			}
		}
		w.WriteMsg(answer)
	})}
	go server.ActivateAndServe()
	t.Cleanup(func() { server.Shutdown() })
	return conn.LocalAddr().String()
}

// A secureServer is a server that gets its certificate from an authority.
type secureServer struct {
	cmd           *exec.Cmd
	port          int
	redirect      string // URL of --redirect-listen
	mu            sync.Mutex
	standardError bytes.Buffer
}

func (s *secureServer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standardError.Write(p)
}

func (s *secureServer) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standardError.String()
}

func startSecure(t *testing.T, a *authority, installation ...string) *secureServer {
	t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--redirect-listen", "127.0.0.1:0", "--log-format", "text",
		"--tls-autocert", acmeHost, "--tls-autocert-email", "ops@example.test", "--tls-autocert-directory", a.directory()}, installation...)
	s := &secureServer{cmd: exec.Command(binary, args...)}
	s.cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+a.trusted)
	s.cmd.Stderr = s
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop(t, s.cmd, stdout)
		if t.Failed() {
			t.Log(s.log())
		}
	})
	at, err := url.Parse(readyURL(t, stdout))
	if err != nil || at.Scheme != "https" {
		t.Fatalf("the ready line names %s: %v", at, err)
	}
	s.port, _ = strconv.Atoi(at.Port())
	s.redirect = s.waitRedirect(t)
	return s
}

// waitRedirect returns the URL of --redirect-listen from the log, which can arrive after the ready line.
func (s *secureServer) waitRedirect(t *testing.T) string {
	t.Helper()
	deadline := time.Now().Add(acmeWait)
	for {
		_, rest, _ := strings.Cut(s.log(), `msg="redirecting to https" url=`)
		if at, _, complete := strings.Cut(rest, "\n"); complete {
			return at
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not name the address of --redirect-listen:\n%s", s.log())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *secureServer) redirectPort(t *testing.T) int {
	t.Helper()
	at, err := url.Parse(s.redirect)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatalf("%v in %q", err, s.redirect)
	}
	return port
}

// serial returns the serial number of the valid certificate that the server uses, after a request over HTTP/2.
func (s *secureServer) serial(ctx context.Context, a *authority) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.ca.GetRootCert(0).PEM())
	transport := &http.Transport{
		ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, "GET", "https://"+acmeHost+"/readyz", nil)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return resp.TLS.PeerCertificates[0].SerialNumber.String() + " over " + resp.Proto, nil
}

// waitSerial waits for a certificate other than the given one.
func (s *secureServer) waitSerial(t *testing.T, a *authority, before string) string {
	t.Helper()
	deadline := time.Now().Add(acmeWait)
	for {
		serial, err := s.serial(t.Context(), a)
		if err == nil && serial != before {
			if !strings.HasSuffix(serial, " over HTTP/2.0") {
				t.Errorf("certificate %s", serial)
			}
			return serial
		}
		if time.Now().After(deadline) {
			t.Fatalf("no other certificate than %q: %v\n%s", before, err, s.log())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestAutocert_GetsACertificateAndRenewsItWithTLSALPN(t *testing.T) {
	a := newAuthority(t, 15)
	s := startSecure(t, a, "--data", t.TempDir())
	a.open(s.port, 1)
	first := s.waitSerial(t, a, "")
	s.waitSerial(t, a, first)
	if !strings.Contains(s.log(), `msg="using certificate" host=`+acmeHost) {
		t.Errorf("log:\n%s", s.log())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for method, want := range map[string]string{
		"GET":  "301 https://" + acmeHost + "/acme/x?y=1",
		"POST": "400 ",
	} {
		req, err := http.NewRequestWithContext(t.Context(), method, s.redirect+"/acme/x?y=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := strconv.Itoa(resp.StatusCode) + " " + resp.Header.Get("Location"); got != want {
			t.Errorf("%s over http: %s, want %s", method, got, want)
		}
	}
}

// A replica that starts while the authority does not answer uses the certificate in the database.
func TestAutocert_IsSharedByReplicasAndOutlivesTheAuthority(t *testing.T) {
	a := newAuthority(t, 0)
	installation := []string{"--data", t.TempDir(), "--database", dbtest.URL(t, db.PostgreSQL), "--secret-key", strings.Repeat("5e", 32)}
	first := startSecure(t, a, installation...)
	a.open(1, first.redirectPort(t)) // nothing is at port 1: HTTP-01 remains
	serial := first.waitSerial(t, a, "")
	a.Server.Close()
	second := startSecure(t, a, installation...)
	if got := second.waitSerial(t, a, ""); got != serial {
		t.Errorf("the second replica uses certificate %s, the first %s", got, serial)
	}
}

// A failing authority does not stop the server.
func TestAutocert_SaysThatTheAuthorityFails(t *testing.T) {
	a := newAuthority(t, 0)
	a.Server.Close()
	s := startSecure(t, a, "--data", t.TempDir())
	for deadline := time.Now().Add(acmeWait); !strings.Contains(s.log(), `msg="get certificate failed" host=`+acmeHost); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("log:\n%s", s.log())
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.redirect+"/.well-known/acme-challenge/none", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = acmeHost
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a challenge that does not exist: %s", resp.Status)
	}
}
