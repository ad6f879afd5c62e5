// Package outbound makes HTTP requests to URLs that users give: webhooks, source hosts. Such a URL must not
// give access to the installation's own network, so the client connects only to addresses on the public
// internet, and to those on the installation's allow list.
//
// The address is checked when the connection is made, not when the URL is parsed: the check applies to the
// address that is actually used, whatever a name resolves to.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// New returns a client for user-given URLs that connects to public addresses, and to the private ones in allow.
// It supports http and https, uses no proxy (which would connect without the check), follows no redirects (it
// returns the 3xx response) and times out after half a minute.
//
// The caller bounds how much of a response body it reads.
func New(allow []netip.Prefix) *http.Client {
	return newClient(allow, net.DefaultResolver)
}

// Dialer returns a dialer for user-given addresses of other protocols, with the same check.
func Dialer(allow []netip.Prefix) *net.Dialer { return newDialer(allow, net.DefaultResolver) }

func newDialer(allow []netip.Prefix, resolver *net.Resolver) *net.Dialer {
	return &net.Dialer{
		Timeout:  10 * time.Second,
		Resolver: resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return check(address, allow)
		},
	}
}

func newClient(allow []netip.Prefix, resolver *net.Resolver) *http.Client {
	dialer := newDialer(allow, resolver)
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    2,
			MaxIdleConns:           100,
			IdleConnTimeout:        time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A RefusedError means that the address of a URL is not allowed. It is in the chain of the error that the
// client returns.
type RefusedError struct{ Addr netip.Addr }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("address %s is not allowed; the installation's --outbound-allow names the private ranges that may be reached", e.Addr)
}

// check checks the address of a connection before it is made.
func check(address string, allow []netip.Prefix) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("check the address %q: %w", address, err)
	}
	addr := target.Addr().Unmap().WithZone("")
	allowed := func(p netip.Prefix) bool { return p.Contains(addr) }
	if !public(addr) && !slices.ContainsFunc(allow, allowed) {
		return &RefusedError{Addr: addr}
	}
	return nil
}
