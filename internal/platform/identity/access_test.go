package identity

import "testing"

func TestAccessLevel_AtLeast(t *testing.T) {
	for _, c := range []struct {
		level, other AccessLevel
		want         bool
	}{
		{ReadOnly, ReadOnly, true},
		{ReadOnly, BuildAndRead, false},
		{BuildAndRead, ReadOnly, true},
		{BuildAndRead, ManageBuildAndRead, false},
		{ManageBuildAndRead, ReadOnly, true},
		{ManageBuildAndRead, ManageBuildAndRead, true},
		{"", ReadOnly, false},
		{"owner", ReadOnly, false},
	} {
		if got := c.level.AtLeast(c.other); got != c.want {
			t.Errorf("%q is at least %q: %v, want %v", c.level, c.other, got, c.want)
		}
	}
}
