// Package outbound makes the HTTP requests whose URL a user gave: webhooks, source hosts. Such a URL
// must not become a way into the installation's own network, so the client refuses to connect to
// any address that is not on the public internet, unless the installation's allow list names it.
//
// The address is checked when the connection is made, not when the URL is read: whatever a name
// resolves to at that moment, and whichever of its addresses is tried, is what is judged.
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

// New returns a client for user-given URLs that connects to public addresses, and to the private
// ones that allow names. It speaks http and https, uses no proxy (one would connect on its behalf,
// past the check), follows no redirect (the 3xx is the answer) and gives up after half a minute.
//
// The caller bounds how much of a response body it reads.
func New(allow []netip.Prefix) *http.Client {
	return newClient(allow, net.DefaultResolver)
}

func newClient(allow []netip.Prefix, resolver *net.Resolver) *http.Client {
	dialer := &net.Dialer{
		Timeout:  10 * time.Second,
		Resolver: resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return check(address, allow)
		},
	}
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

// A RefusedError says that a URL leads to an address that may not be reached. It is found in the
// chain of the error that the client returns.
type RefusedError struct{ Addr netip.Addr }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("address %s is not allowed; the installation's --outbound-allow names the private ranges that may be reached", e.Addr)
}

// check judges the address of a connection that is about to be made.
func check(address string, allow []netip.Prefix) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q cannot be judged: %w", address, err)
	}
	addr := target.Addr().Unmap().WithZone("")
	allowed := func(p netip.Prefix) bool { return p.Contains(addr) }
	if !public(addr) && !slices.ContainsFunc(allow, allowed) {
		return &RefusedError{Addr: addr}
	}
	return nil
}
