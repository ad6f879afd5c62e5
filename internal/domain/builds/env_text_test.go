package builds_test

import (
	"testing"

	"stackyard/internal/domain/builds"
)

// Whoever reads the text line by line finds the variables that there are, and no others.
func TestEnvText_KeepsEachVariableOnOneLine(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"B": "2", "A": "1", "EMPTY": ""}, "A=1\nB=2\nEMPTY=\n"},
		{map[string]string{"A": "1\nSERVICE_BRANCH=main"}, "A=\"1\\nSERVICE_BRANCH=main\"\n"},
		{map[string]string{"A": "1\r2", "B": "\u2028X=1"}, "A=\"1\\r2\"\nB=\"\\u2028X=1\"\n"},
		{map[string]string{"A\nB": "1"}, "\"A\\nB\"=1\n"},
		{map[string]string{"A": `C:\new "dir"`}, "A=C:\\new \"dir\"\n"},
	} {
		if got := builds.EnvText(c.env); got != c.want {
			t.Errorf("%q: got %q, want %q", c.env, got, c.want)
		}
	}
}
