package stackctl

import "testing"

func TestSatisfies_NeedsATagForEachRule(t *testing.T) {
	tests := []struct {
		tags, rules []string
		want        bool
	}{
		{nil, nil, true},
		{nil, []string{"queue=linux"}, true},
		{nil, []string{"queue=linux", "gpu=yes"}, false},
		{[]string{"gpu=no"}, []string{"gpu=yes"}, false},
		{[]string{"gpu=no", "gpu=yes"}, []string{"gpu=yes"}, true},
		{[]string{"gpu=a100"}, []string{"gpu"}, true},
		{[]string{"gpu=a100"}, []string{"gpu=*"}, true},
		{[]string{"gpu=a100"}, []string{"gpu=a*"}, false},
		{[]string{"gpu=a100"}, []string{"gpu=*", "os=linux"}, false},
		{[]string{"gpu=a100", "os=linux"}, []string{" os = linux ", "gpu=*"}, true},
	}
	for _, tt := range tests {
		if got := satisfies(tt.tags, tt.rules); got != tt.want {
			t.Errorf("tags %q, rules %q: %v", tt.tags, tt.rules, got)
		}
	}
}
