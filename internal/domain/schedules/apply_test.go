package schedules_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
)

func TestApply_DeclaresSchedulesOfAPipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		file := func(more string) string {
			return `organizations: [{slug: acme, pipelines: [{slug: hello, schedules: [{label: Nightly, ` + more + `}]}]}]`
		}
		servertest.WantEqual(t, "lines", strings.Join(w.Apply(file(`cronline: "0 9 * * *", env: {FULL: "yes"}, branch: release`)), "; "), "created schedule acme/hello Nightly")
		list := w.ada.Get(schedules).Want(http.StatusOK)
		servertest.WantAt(t, list, map[string]any{"0.label": "Nightly", "0.cronline": "0 9 * * *", "0.branch": "release", "0.env": map[string]any{"FULL": "yes"}, "0.enabled": true, "0.created_by": nil})
		at := w.advanceTo(9, 0)
		w.runDue()
		servertest.WantEqual(t, "failed", w.ada.Get(schedules).At("0.failed_message"), nil)
		w.wantBuilds(at)

		servertest.WantEqual(t, "lines of the same file", len(w.Apply(file(`cronline: "0 9 * * *", env: {FULL: "yes"}, branch: release`))), 0)
		servertest.WantEqual(t, "lines", strings.Join(w.Apply(file(`enabled: false`)), "; "), "changed schedule acme/hello Nightly")
		servertest.WantAt(t, w.ada.Get(schedules), map[string]any{"0.cronline": "0 9 * * *", "0.enabled": false, "0.next_build_at": nil, "0.id": list.String("0.id")})
		w.advanceTo(9, 0)
		w.runDue()
		w.wantBuilds(at)
	})
}

func TestApply_ReportsWrongSchedulesByLine(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		_, err := orgfile.Apply(t.Context(), s.DB, s.Key, s.Clock.Now, []byte(`organizations:
  - slug: acme
    pipelines:
      - slug: hello
        schedules:
          - {label: A, cronline: "at nine"}
          - {cronline: "@daily"}
          - {label: B, cronline: "@daily"}
          - {label: B, cronline: "@daily"}
`))
		_, err2 := orgfile.Apply(t.Context(), s.DB, s.Key, s.Clock.Now, []byte("organizations: [{slug: acme, pipelines: [{slug: hello, schedules: [{label: C}]}]}]"))
		if err == nil || err2 == nil {
			t.Fatal(err, err2)
		}
		text := err.Error() + err2.Error()
		for _, want := range []string{"line 6: schedule A: cronline ", "line 7: a schedule needs a label", "line 9: ", "schedule C: cronline is required"} {
			if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return strings.Contains(line, want) }) {
				t.Errorf("nothing says %q in %s", want, text)
			}
		}
	})
}
