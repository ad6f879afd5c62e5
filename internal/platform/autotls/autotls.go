// Package autotls gets the server's certificates from a certificate authority that speaks ACME, such as Let's Encrypt,
// and renews them.
//
// Certificates and the account's key are in the database, encrypted with the secret key (store.go), so that replicas
// share them and answer each other's challenges. A failing authority never stops the server: it serves the certificate
// that it has, and tries again.
package autotls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"
)

// LetsEncrypt is the directory of the authority that is used unless another is given.
const LetsEncrypt = autocert.DefaultACMEDirectory

// Settings say for which hosts certificates are obtained, and where.
type Settings struct {
	Hosts     []string
	Email     string // contact of the account; "": none
	Directory string // URL of the authority; "": Let's Encrypt
}

// ParseHosts returns the host names of a comma-separated list.
func ParseHosts(list string) (hosts []string, err error) {
	for _, given := range strings.Split(list, ",") {
		given = strings.TrimSpace(given)
		if given == "" {
			continue
		}
		host, err := idna.Lookup.ToASCII(given)
		switch {
		case net.ParseIP(given) != nil:
			return nil, fmt.Errorf("%q is an address; certificates are for names such as ci.example.com", given)
		case err != nil || !strings.Contains(strings.Trim(host, "."), ".") || strings.ContainsAny(host, "/:*"):
			return nil, fmt.Errorf("%q is not the full name of a host such as ci.example.com", given)
		}
		if host = strings.ToLower(strings.TrimSuffix(host, ".")); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// A Manager obtains certificates and renews them a third of their lifetime before they end.
type Manager struct {
	hosts []string
	acme  *autocert.Manager
	log   *slog.Logger

	mu      sync.Mutex
	expires map[string]time.Time // of the certificates that were served, by host
}

// New returns a manager that stores certificates in store.
func New(s Settings, store autocert.Cache, version string, log *slog.Logger) *Manager {
	m := &Manager{hosts: s.Hosts, log: log, expires: make(map[string]time.Time)}
	m.acme = &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		Cache:      store,
		HostPolicy: autocert.HostWhitelist(s.Hosts...),
		Email:      s.Email,
		Client:     &acme.Client{DirectoryURL: s.Directory, UserAgent: "stackyard/" + version, HTTPClient: &http.Client{Timeout: time.Minute}},
	}
	if s.Directory == "" {
		m.acme.Client.DirectoryURL = LetsEncrypt
	}
	return m
}

// TLSConfig returns a configuration with the certificates. It answers TLS-ALPN-01 challenges.
func (m *Manager) TLSConfig() *tls.Config {
	config := m.acme.TLSConfig()
	config.MinVersion = tls.VersionTLS12
	config.GetCertificate = m.certificate
	return config
}

var errOtherHost = errors.New("no certificate for this host")

// certificate returns the certificate for a connection. A client that names no host, such as a health check of an
// address, gets the one of the first host.
func (m *Manager) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		named := *hello
		named.ServerName, hello = m.hosts[0], &named
	}
	host := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if !slices.Contains(m.hosts, host) {
		return nil, errOtherHost // any stranger can ask for one: neither logged nor requested
	}
	certificate, err := m.acme.GetCertificate(hello)
	if err != nil {
		return nil, fmt.Errorf("get a certificate for %s: %w", host, err)
	}
	if !slices.Contains(hello.SupportedProtos, acme.ALPNProto) { // else it is the answer to a challenge
		m.note(host, certificate)
	}
	return certificate, nil
}

// note logs certificates that are used for the first time.
func (m *Manager) note(host string, certificate *tls.Certificate) {
	if certificate.Leaf == nil {
		return
	}
	m.mu.Lock()
	before := m.expires[host]
	m.expires[host] = certificate.Leaf.NotAfter
	m.mu.Unlock()
	if !before.Equal(certificate.Leaf.NotAfter) {
		m.log.Info("using certificate", "host", host, "expires", certificate.Leaf.NotAfter, "issuer", certificate.Leaf.Issuer.CommonName)
	}
}

// Expires returns when the certificates in use end, by host.
func (m *Manager) Expires() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]time.Time, len(m.expires))
	for host, at := range m.expires {
		found[host] = at
	}
	return found
}

const (
	firstRetry = time.Minute + 10*time.Second // the library returns the same error for a minute
	lastRetry  = time.Hour
	// checkEvery is how often Watch looks at the certificates in use.
	checkEvery = 6 * time.Hour
	// soon is how long before its end a certificate should have been renewed.
	soon = 7 * 24 * time.Hour
)

// Watch obtains certificates before the first visitor asks for them, and logs failures, until ctx is done.
func (m *Manager) Watch(ctx context.Context) {
	var hosts sync.WaitGroup
	for _, host := range m.hosts {
		hosts.Go(func() { m.watch(ctx, host) })
	}
	hosts.Wait()
}

func (m *Manager) watch(ctx context.Context, host string) {
	retry := firstRetry
	for ctx.Err() == nil {
		certificate, err := m.certificate(&tls.ClientHelloInfo{
			ServerName: host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
			SupportedCurves: []tls.CurveID{tls.CurveP256}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		})
		if err != nil {
			m.log.Error("get certificate failed", "host", host, "authority", m.acme.Client.DirectoryURL, "retry_in", retry, "error", err)
			pause(ctx, retry)
			retry = min(2*retry, lastRetry)
			continue
		}
		retry = firstRetry
		if leaf := certificate.Leaf; leaf != nil {
			left := time.Until(leaf.NotAfter)
			if left < soon && left < leaf.NotAfter.Sub(leaf.NotBefore)/4 {
				m.log.Warn("certificate not renewed", "host", host, "expires", leaf.NotAfter, "authority", m.acme.Client.DirectoryURL)
			}
		}
		pause(ctx, checkEvery)
	}
}

// Plain returns a handler for http: it answers HTTP-01 challenges, and redirects everything else as [Redirect] does.
func (m *Manager) Plain(public string) http.Handler {
	handler := m.acme.HTTPHandler(Redirect(public))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil { // the library compares it with names of hosts
			r.Host = host
		}
		handler.ServeHTTP(w, r)
	})
}

// Redirect returns a handler that sends browsers to the public URL. Other requests are refused, because a client that
// repeats them there would have sent its token unencrypted each time without anyone noticing.
func Redirect(public string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "Use "+public, http.StatusBadRequest)
			return
		}
		to := r.URL.RequestURI()
		if !strings.HasPrefix(to, "/") {
			to = "/"
		}
		http.Redirect(w, r, public+to, http.StatusMovedPermanently)
	})
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
