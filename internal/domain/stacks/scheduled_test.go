package stacks

import (
	"strings"
	"testing"
)

func TestCountFitting_BoundsTheBytesOfRules(t *testing.T) {
	large := scheduledJob{rules: []string{"queue=default", "key=" + strings.Repeat("x", 3<<20)}}
	huge := scheduledJob{rules: []string{"key=" + strings.Repeat("x", 20<<20)}}
	for _, c := range []struct {
		jobs []scheduledJob
		want int
	}{
		{nil, 0},
		{[]scheduledJob{{}, {}, {}}, 3},
		{[]scheduledJob{large, large}, 2},
		{[]scheduledJob{large, large, large, large}, 2},
		{[]scheduledJob{huge, large}, 1},
	} {
		if got := countFitting(c.jobs); got != c.want {
			t.Errorf("%d of %d jobs fit, want %d", got, len(c.jobs), c.want)
		}
	}
}
