package cli

import (
	"strings"
	"testing"
)

func TestPrintChanges_ShowsHowToUnblockABuild(t *testing.T) {
	var out strings.Builder
	r := &remote{out: &out}
	b := build{ID: "b", Number: 3, State: "failing", Jobs: []job{{ID: "j", Type: "manual", Label: "Deploy?", State: "blocked"}}}
	seen := map[string]string{}
	show := func() string {
		t.Helper()
		out.Reset()
		if err := printChanges(r, b, seen); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(); strings.Contains(got, "unblock ") {
		t.Errorf("other jobs can still run, and it prints %q", got)
	}
	b.Blocked = true
	want := `Nothing more happens until "Deploy?" is unblocked: stackyard job unblock j`
	if got := show(); !strings.Contains(got, "build 3 is blocked (failing)") || !strings.Contains(got, want) {
		t.Errorf("it prints %q, want the state and %q", got, want)
	}
	if got := show(); got != "" {
		t.Errorf("nothing changed, and it prints %q", got)
	}
}
