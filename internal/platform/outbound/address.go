package outbound

import (
	"net/netip"
	"slices"
)

// public reports whether an address, not an IPv4-mapped one, is on the public internet. IPv4 is public except
// for the ranges below. IPv6 is the reverse: only addresses assigned for global use are public, except for the
// ranges below, so new special ranges are refused by default.
func public(addr netip.Addr) bool {
	within := func(p netip.Prefix) bool { return p.Contains(addr) }
	if slices.ContainsFunc(notPublic, within) {
		return false
	}
	if inner, ok := embedded(addr); ok {
		return public(inner)
	}
	return addr.Is4() || globalUnicast.Contains(addr)
}

// embedded returns the IPv4 address that a gateway would extract from an IPv6 one and connect to.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

// notPublic has the ranges that IANA registers as special, and a cloud's own address among the public ones. The
// metadata services of other clouds are inside the link-local, shared, protocol and unique local ranges.
var notPublic = prefixes(
	"0.0.0.0/8",        // this host; some systems connect to themselves
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared by carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // Azure's host: metadata and DNS of a virtual machine
	"169.254.0.0/16",   // link-local, with most clouds' metadata
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast
	"2001::/23",        // protocol assignments, with Teredo's tunnels
	"2001:db8::/32",    // documentation
	"3fff::/20",        // documentation
)

func prefixes(texts ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		ps[i] = netip.MustParsePrefix(text)
	}
	return ps
}
