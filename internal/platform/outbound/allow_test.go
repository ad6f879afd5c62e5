package outbound

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParseAllow_ReadsBlocks(t *testing.T) {
	for list, want := range map[string][]netip.Prefix{
		"":                             nil,
		" , ":                          nil,
		"10.1.0.0/16":                  {netip.MustParsePrefix("10.1.0.0/16")},
		" 127.0.0.0/8 ,\n10.0.0.7/32,": {netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.7/32")},
		"FD00::/8,::1/128":             {netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("::1/128")},
		"0.0.0.0/0":                    {netip.MustParsePrefix("0.0.0.0/0")},
	} {
		got, err := ParseAllow(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", list, got, err, want)
		}
	}
}

func TestParseAllow_ReportsEveryBadBlockAndHowToWriteIt(t *testing.T) {
	_, err := ParseAllow("10.0.0.1, 10.1.0.0/16, 10.1.2.3/16, intranet, fd00::1, ::ffff:10.0.0.0/104, 10.0.0.0/33")
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`"10.0.0.1" is one address, not a CIDR block; write 10.0.0.1/32`,
		`"10.1.2.3/16" does not begin at its block's first address; write 10.1.0.0/16 for the block or 10.1.2.3/32 for the address`,
		`"intranet" is not a CIDR block such as 10.1.0.0/16 or fd00::/8`,
		`"fd00::1" is one address, not a CIDR block; write fd00::1/128`,
		`"::ffff:10.0.0.0/104" is IPv4 written as IPv6; write it as an IPv4 block such as 10.1.0.0/16`,
		`"10.0.0.0/33" is not a CIDR block such as 10.1.0.0/16 or fd00::/8`,
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func FuzzParseAllow(f *testing.F) {
	f.Add("10.0.0.0/8,fd00::/8")
	f.Fuzz(func(t *testing.T, list string) {
		allow, err := ParseAllow(list)
		for _, p := range allow {
			if again, err := ParseAllow(p.String()); err != nil || again[0] != p {
				t.Fatalf("%s reads back as %v, %v", p, again, err)
			}
		}
		if err == nil && len(allow) == 0 && len(strings.Fields(strings.ReplaceAll(list, ",", " "))) > 0 {
			t.Fatalf("%q is neither blocks nor an error", list)
		}
	})
}
