package buildpages

import (
	"strings"
	"testing"

	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

func TestExitText_ExplainsStatusesAndSignals(t *testing.T) {
	for _, c := range []struct {
		status         int
		signal, reason string
		want           string
	}{
		{0, "", "", ""},
		{1, "", "", "reported an error"},
		{127, "", "", "not found"},
		{137, "", "", "SIGKILL: it was killed"},
		{-1, "SIGTERM", "", "told to stop"},
		{-1, "SIGKILL", "agent_stop", "agent was stopped"},
		{-1, "", "", "did not report"},
		{77, "", "", "status of its own"},
		{1, "SIGWINCH", "", "ended by SIGWINCH."},
	} {
		j := &builds.Job{Job: flow.Job{Type: flow.Script, State: flow.Finished, ExitStatus: &c.status, Signal: c.signal, SignalReason: c.reason}}
		if got := ExitText(j); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%d %s %s is %q", c.status, c.signal, c.reason, got)
		}
	}
}
