package outbound

import (
	"errors"
	"net/netip"
	"testing"
)

func TestCheck_LetsPublicAddressesPassOnly(t *testing.T) {
	for address, want := range map[string]bool{
		"1.1.1.1":         true,
		"93.184.216.34":   true,
		"172.15.255.255":  true,
		"172.32.0.0":      true,
		"100.63.255.255":  true,
		"100.128.0.0":     true,
		"192.0.1.1":       true,
		"223.255.255.255": true,

		"0.0.0.0":         false,
		"0.1.2.3":         false,
		"10.0.0.1":        false,
		"100.64.0.1":      false,
		"100.100.100.200": false, // Alibaba's metadata
		"127.0.0.1":       false,
		"127.255.255.254": false,
		"168.63.129.16":   false, // Azure's host
		"169.254.169.254": false, // most clouds' metadata
		"172.16.0.1":      false,
		"172.31.255.255":  false,
		"192.0.0.192":     false, // Oracle's old metadata
		"192.0.2.1":       false,
		"192.168.1.1":     false,
		"198.18.0.1":      false,
		"198.19.255.255":  false,
		"198.51.100.7":    false,
		"203.0.113.7":     false,
		"224.0.0.1":       false,
		"240.0.0.1":       false,
		"255.255.255.255": false,

		"2606:4700:4700::1111": true,
		"2a00:1450:4001::200e": true,
		"2001:4860:4860::8888": true,

		"::":                 false,
		"::1":                false,
		"fe80::1":            false,
		"fe80::1%eth0":       false,
		"fec0::1":            false,
		"fc00::1":            false,
		"fd00:ec2::254":      false, // Amazon's metadata
		"ff02::1":            false,
		"100::1":             false,
		"2001::1":            false, // Teredo
		"2001:2::1":          false,
		"2001:db8::1":        false,
		"3fff::1":            false,
		"5f00::1":            false,
		"4000::1":            false, // not assigned
		"64:ff9b:1::1":       false, // a local gateway's own range
		"::127.0.0.1":        false,
		"::1.1.1.1":          false, // IPv4-compatible addresses are obsolete
		"::ffff:0:127.0.0.1": false, // IPv4-translated

		"::ffff:1.1.1.1":           true,
		"::ffff:127.0.0.1":         false,
		"::ffff:10.0.0.1":          false,
		"::ffff:a9fe:a9fe":         false,
		"64:ff9b::1.1.1.1":         true,
		"64:ff9b::10.0.0.1":        false,
		"64:ff9b::169.254.169.254": false,
		"2002:0101:0101::1":        true,
		"2002:0a00:0001::1":        false,
		"2002:7f00:0001::":         false,
	} {
		err := check(netip.AddrPortFrom(netip.MustParseAddr(address), 80).String(), nil)
		if (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", address, err, want)
		}
	}
}

func TestCheck_LetsThroughWhatTheAllowListNames(t *testing.T) {
	allow, err := ParseAllow("10.1.0.0/16,fd00:1::/32,fe80::/10,64:ff9b::10.0.0.0/104")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"10.1.2.3":             true,
		"10.2.0.1":             false,
		"::ffff:10.1.2.3":      true,
		"fd00:1::5":            true,
		"fd00:2::5":            false,
		"fe80::1%eth0":         true,
		"64:ff9b::10.9.9.9":    true,
		"64:ff9b::192.168.0.1": false,
		"127.0.0.1":            false,
		"2002:0a01:0001::1":    false, // the list does not name the gateway
	} {
		err := check(netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), allow)
		if (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", address, err, want)
		}
	}
}

func TestRefusedError_NamesTheAddressAndTheSetting(t *testing.T) {
	err := check("[::ffff:10.0.0.1]:80", nil)
	const want = "address 10.0.0.1 is not allowed; the installation's --outbound-allow names the private ranges that may be reached"
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Error() != want {
		t.Fatalf("got %v", err)
	}
}

func TestCheck_RefusesWhatItCannotRead(t *testing.T) {
	for _, address := range []string{"", "example.test:80", "/run/docker.sock", "10.0.0.1"} {
		if err := check(address, nil); err == nil {
			t.Errorf("%q passes", address)
		}
	}
}
