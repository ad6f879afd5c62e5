package dispatch

import (
	"slices"
	"testing"
)

func TestRuleSetOf_NamesTheSameRulesAlike(t *testing.T) {
	set := RuleSetOf([]string{"os=linux", "gpu=*"})
	for _, same := range [][]string{
		{"gpu=*", "os=linux"},
		{"gpu", "os=linux", "gpu="},
		{"queue=default", " os = linux ", "gpu=*", "os=linux"},
	} {
		if got := RuleSetOf(same); got.ID != set.ID || !slices.Equal(got.Rules, set.Rules) {
			t.Errorf("%q is %v, not %v", same, got, set)
		}
	}
	seen := map[string][]string{set.ID: set.Rules}
	for _, other := range [][]string{{}, {"os=linux"}, {"gpu=*"}, {"os=linux", "gpu=nvidia"}, {"os=linux,gpu=*"}, {`os=lin"ux`}, {"os=linux gpu=*"}} {
		got := RuleSetOf(other)
		if first, taken := seen[got.ID]; taken {
			t.Errorf("%q and %q are one set", first, other)
		}
		seen[got.ID] = got.Rules
	}
	if got := RuleSetOf([]string{"queue=deploy"}); got.ID != "" || got.Rules != nil {
		t.Errorf("the queue makes a set: %v", got)
	}
}

func TestTags_SatisfyRules(t *testing.T) {
	for _, test := range []struct {
		tags, rules []string
		want        bool
	}{
		{nil, nil, true},
		{[]string{"os=linux"}, nil, true},
		{nil, []string{"os=linux"}, false},
		{[]string{"os=linux"}, []string{"os=linux"}, true},
		{[]string{"os=linux"}, []string{"os=macos"}, false},
		{[]string{"os=linux"}, []string{"os=lin*"}, false},
		{[]string{"os=linux"}, []string{"OS=linux"}, false},
		{[]string{"os=linux"}, []string{"os=*"}, true},
		{[]string{"os=linux"}, []string{"os"}, true},
		{[]string{"os=linux"}, []string{"os="}, true},
		{[]string{"docker"}, []string{"docker"}, true},
		{[]string{"docker"}, []string{"docker=true"}, false},
		{[]string{"os=linux", "os=debian"}, []string{"os=debian", "os=linux"}, true},
		{[]string{"os=linux"}, []string{"os=linux", "gpu=*"}, false},
		{[]string{"url=a=b"}, []string{"url=a=b"}, true},
		{[]string{" os = linux "}, []string{"os=linux"}, true},
		{[]string{"queue=a"}, []string{"queue=b"}, true},
	} {
		if got := tagsOf(test.tags).satisfy(RuleSetOf(test.rules).Rules); got != test.want {
			t.Errorf("tags %q, rules %q: got %t", test.tags, test.rules, got)
		}
	}
}
