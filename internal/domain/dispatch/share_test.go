package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/quotas"
)

func TestFairShare_LetsPipelinesTakeTurns(t *testing.T) {
	for _, test := range []struct {
		name string
		fair quotas.FairShare
		want string
	}{
		{"off", quotas.FairShare{}, "hello hello hello hello hello hello hello hello"},
		{"on", quotas.FairShare{On: true}, "hello other hello other hello other hello urgent"},
		{"weighted", quotas.FairShare{On: true, Weights: map[string]int{"other": 2}}, "hello other other hello other urgent hello hello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				other := w.another("other")
				w.build("{command: a, key: hello, parallelism: 20}")
				w.clock.Advance(time.Second)
				w.buildOf(other, "{command: a, key: other, parallelism: 3, priority: -1}", "{command: a, key: urgent, priority: -2}")
				agent := func(i int) dispatch.Agent {
					a := w.agent(fmt.Sprint("agent ", i))
					a.FairShare = test.fair
					return a
				}
				var got []string
				for i := range 8 {
					got = append(got, w.now(agent(i)))
				}
				wantEqual(t, "one by one", strings.Join(got, " "), test.want)
			})
		})
	}
}

func TestFairShare_HoldsForAgentsThatWaitTogether(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		other := w.another("other")
		var all []*wait
		w.build("{command: a, key: hello, parallelism: 30, agents: {os: linux}}", "{command: a, key: hello-plain, parallelism: 30}")
		w.pauseQueue(true)
		w.buildOf(other, "{command: a, key: other, parallelism: 9}")
		for i := range 12 {
			a := w.agent(fmt.Sprint("agent ", i), "os=linux")
			a.FairShare = quotas.FairShare{On: true, Weights: map[string]int{"hello": 3}}
			all = append(all, w.wait(a))
		}
		w.waiting(12)
		w.pauseQueue(false)
		got := map[string]int{}
		for _, one := range all {
			got[w.key(one.get())]++
		}
		wantEqual(t, "jobs of other", got["other"], 3)
		wantEqual(t, "jobs of hello", got["hello"], 9)
	})
}
