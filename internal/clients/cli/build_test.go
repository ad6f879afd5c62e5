package cli

import (
	"strings"
	"testing"
	"time"

	"stackyard/api"
)

func TestChangePrinter_ShowsHowToUnblockABuild(t *testing.T) {
	var out strings.Builder
	printer := &changePrinter{r: &remote{out: &out}, seen: map[string]string{}}
	b := build{Build: api.Build{ID: "b", Number: 3, State: "failing"}, Jobs: []job{{ID: "j", Type: "manual", Label: "Deploy?", State: "blocked"}}}
	show := func() string {
		t.Helper()
		out.Reset()
		if err := printer.print(b); err != nil {
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

func TestTree_ShowsGroupsDurationsAndWhatIsNeeded(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *time.Time { x := now.Add(-ago); return &x }
	two, one, three := 2, 1, 3
	b := build{Build: api.Build{ID: "b", Number: 3, State: "failing", Blocked: true, StartedAt: at(100 * time.Second)}, Jobs: []job{
		{ID: "1", Type: "script", Name: "lint", State: "passed", StartedAt: at(100 * time.Second), FinishedAt: at(96 * time.Second)},
		{ID: "2", Type: "script", Name: "test", State: "failed", ExitStatus: &two, GroupKey: "tests", ParallelIndex: &one, ParallelTotal: &three, StartedAt: at(90 * time.Second), FinishedAt: at(20 * time.Second)},
		{ID: "3", Type: "waiter", State: "waiting"},
		{ID: "4", Type: "script", Name: "e2e", State: "broken", BrokenReason: "branch_mismatch"},
		{ID: "5", Type: "manual", Name: "Deploy?", State: "blocked"},
	}}
	b.Pipeline.Slug = "web"
	text := func(most int) string {
		var lines []string
		for _, l := range (&remote{}).tree(b, now, most) {
			lines = append(lines, l.paint(false))
		}
		return strings.Join(lines, "\n")
	}
	want := `web build 3: blocked (failing), 1m40s
  ✓ lint       passed, 4.0s
  tests
    ✗ test 2/3   failed (2), 1m10s
  - e2e        broken, branch_mismatch
  ? Deploy?    blocked
Nothing more happens until "Deploy?" is unblocked:
  stackyard job unblock web 3 'Deploy?'`
	if got := text(100); got != want {
		t.Errorf("it shows\n%s\nwant\n%s", got, want)
	}
	if got := text(5); strings.Contains(got, "lint") || !strings.Contains(got, "more passed") || !strings.Contains(got, "test 2/3") {
		t.Errorf("on a small screen it shows\n%s", got)
	}
}

func TestTail_KeepsTheLastLines(t *testing.T) {
	end := &tail{most: 2}
	end.Write([]byte("one\ntwo\n10%\r50%\r100%\r\nfour"))
	if got := strings.Join(end.lines(), "|"); got != "100%|four" {
		t.Errorf("it keeps %q", got)
	}
}
