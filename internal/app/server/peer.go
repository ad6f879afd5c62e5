package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"stackyard/internal/platform/core"
)

// peerURL returns the URL at which other replicas reach this server. If it listens on all addresses, that is the
// address from which it reaches the database, which the replicas share.
func peerURL(listenURL string, listen net.Addr, database string) string {
	at, err := netip.ParseAddrPort(listen.String())
	if err != nil || !at.Addr().IsUnspecified() {
		return listenURL
	}
	u, err := url.Parse(database)
	if err != nil || u.Hostname() == "" {
		return listenURL
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	// Nothing is sent: connecting a datagram socket only selects the local address.
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return listenURL
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return listenURL
	}
	scheme, _, _ := strings.Cut(listenURL, "://")
	return scheme + "://" + netip.AddrPortFrom(local.Addr().Unmap(), at.Port()).String()
}

// peerConfig returns how to connect to other replicas over https: they have a certificate for the public URL, which
// can be the same as this server's.
func peerConfig(s Settings, public core.PublicURL) (*tls.Config, error) {
	if !s.servesTLS() {
		return nil, nil
	}
	var own []byte
	if s.TLSCert != "" {
		var err error
		if own, err = os.ReadFile(s.TLSCert); err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(own)
	host, _, err := net.SplitHostPort(public.Host())
	if err != nil {
		host = public.Host()
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if s.Peer == "" {
		config.ServerName = host
	}
	return config, nil
}
