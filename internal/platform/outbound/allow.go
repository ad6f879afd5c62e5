package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ParseAllow parses an allow list: CIDR blocks with commas between them, or nothing. The error lists every
// invalid block, one per line.
func ParseAllow(list string) ([]netip.Prefix, error) {
	var allow []netip.Prefix
	var problems []error
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		prefix, err := parseBlock(text)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		allow = append(allow, prefix)
	}
	return allow, errors.Join(problems...)
}

// parseBlock refuses ambiguous blocks, and says how to write each meaning.
func parseBlock(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.Prefix{}, fmt.Errorf("%q is one address, not a CIDR block; write %s/%d", text, addr, addr.BitLen())
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR block such as 10.1.0.0/16 or fd00::/8", text)
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is IPv4 written as IPv6; write it as an IPv4 block such as 10.1.0.0/16", text)
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%q does not begin at its block's first address; write %s for the block or %s/%d for the address",
			text, prefix.Masked(), prefix.Addr(), prefix.Addr().BitLen())
	}
	return prefix, nil
}
