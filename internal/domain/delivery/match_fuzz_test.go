package delivery

import (
	"strings"
	"testing"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// FuzzCovers checks rules that hold for every receiver and event.
func FuzzCovers(f *testing.F) {
	f.Add("p1 p2", "p1", "c1", "t1 t2", "main !old", "main", true)
	f.Add("", "", "", "", "", "", false)
	f.Fuzz(func(t *testing.T, ids, pipeline, cluster, teams, branches, branch string, build bool) {
		provider := &Provider{Names: func(*notifications.Receiver, notifications.Settings) events.Names {
			return events.NamesOf(events.BuildFinished)
		}}
		e := events.Event{Name: events.BuildFinished, PipelineID: pipeline, ClusterID: cluster, Branch: branch}
		if build {
			e.BuildID = "b"
		}
		target := notifications.Target{PipelineID: pipeline, ClusterID: cluster, TeamIDs: strings.Fields(teams)}
		covers := func(scope notifications.Scope, branches string) bool {
			r := &notifications.Receiver{Scope: scope, ScopeIDs: strings.Fields(ids), Branches: core.BranchFilter(branches)}
			return openReceiver{Receiver: r, provider: provider}.covers(e, target)
		}
		all := covers(notifications.All, branches)
		if want := !build || core.BranchFilter(branches).Match(branch); all != want {
			t.Errorf("scope all covers: %v, want %v", all, want)
		}
		for _, scope := range []notifications.Scope{notifications.SomeProjects, notifications.ExcludeProjects, notifications.SomeTeams, notifications.SomeClusters} {
			if covers(scope, branches) && !all {
				t.Errorf("scope %s covers what all does not", scope)
			}
			if covers(scope, branches) && !covers(scope, "") {
				t.Errorf("scope %s covers less without a branch filter", scope)
			}
		}
		some, rest := covers(notifications.SomeProjects, ""), covers(notifications.ExcludeProjects, "")
		if pipeline != "" && some == rest {
			t.Errorf("some_projects covers: %v, exclude_projects: %v", some, rest)
		}
		if pipeline == "" && (some || rest) {
			t.Error("an event without a pipeline is covered by a scope of pipelines")
		}
	})
}
