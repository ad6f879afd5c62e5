package delivery_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// receivedBy returns the paths of the receiver that were sent something, each once. Services have a path each.
func (w *world) receivedBy() string {
	var paths []string
	for _, r := range w.receiver.take() {
		paths = append(paths, strings.TrimPrefix(r.Path, "/"))
	}
	slices.Sort(paths)
	return strings.Join(slices.Compact(paths), " ")
}

func TestMatch_ByScopeBranchAndEvent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply("organizations: [{slug: acme, features: {teams: true}}]")
		w.ada.Post("/v2/organizations/acme/pipelines", fields{
			"name": "Other", "repository": "https://git.example.test/acme/other.git", "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: a}]",
		}).Want(http.StatusCreated)
		other := w.ada.Get("/v2/organizations/acme/pipelines/other").Want(200).String("id")
		team := w.ada.Post("/v2/organizations/acme/teams", fields{"name": "Builders"}).Want(201).String("id")
		w.ada.Post("/v2/organizations/acme/teams/"+team+"/pipelines", fields{"pipeline_id": servertest.AcmePipelineID, "access_level": "read_only"}).Want(201)
		cluster := w.ada.Post("/v2/organizations/acme/clusters", fields{"name": "Empty"}).Want(201).String("id")
		create := func(name string, more fields, events ...string) {
			w.service("webhook", fields{"url": w.receiver.URL + "/" + name, "events": events}, more)
		}
		const scheduled, connected = "build.scheduled", "agent.connected"
		create("all", nil, scheduled, connected)
		create("main", fields{"branch_configuration": "main !nothing"}, scheduled, connected)
		create("hello", fields{"scope": "some_projects", "scope_uuids": []string{servertest.AcmePipelineID}}, scheduled, connected)
		create("other", fields{"scope": "some_projects", "scope_uuids": []string{other}}, scheduled)
		create("not-hello", fields{"scope": "exclude_projects", "scope_uuids": []string{servertest.AcmePipelineID}}, scheduled, connected)
		create("team", fields{"scope": "some_teams", "scope_uuids": []string{team}}, scheduled, connected)
		create("no-team", fields{"scope": "some_teams", "scope_uuids": []string{servertest.AcmeTeamID}}, scheduled)
		create("cluster", fields{"scope": "some_clusters", "scope_uuids": []string{servertest.AcmeClusterID}}, scheduled, connected)
		create("empty-cluster", fields{"scope": "some_clusters", "scope_uuids": []string{cluster}}, scheduled, connected)
		create("running", nil, "build.running")
		create("nothing", nil)
		w.receivedBy()

		w.build(nil)
		w.runDue()
		servertest.WantEqual(t, "a build of hello on main", w.receivedBy(), "all cluster hello main team")
		w.build(fields{"branch": "feature"})
		w.runDue()
		servertest.WantEqual(t, "a build of hello on feature", w.receivedBy(), "all cluster hello team")
		w.ada.Post("/v2/organizations/acme/pipelines/other/builds", fields{"commit": "HEAD", "branch": "main"}).Want(201)
		w.runDue()
		servertest.WantEqual(t, "a build of other on main", w.receivedBy(), "all cluster main not-hello other")
		w.Register(t, nil)
		w.runDue()
		servertest.WantEqual(t, "an agent", w.receivedBy(), "all cluster main")
	})
}

func TestMatch_OfAnotherOrganizationGetsNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.As(t, servertest.Cy).Post("/v2/organizations/rival/services", fields{
			"provider": "webhook", "settings": fields{"url": w.receiver.URL, "events": []string{"build.scheduled"}},
		}).Want(201)
		w.runDue()
		w.receiver.wantEvents("ping")
		w.build(nil)
		w.runDue()
		w.receiver.wantEvents()
	})
}

func TestMatch_OfChatsIsByBuildStates(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		states := []string{"build_passed", "build_fixed", "build_failed", "build_blocked", "build_canceled", "build_failing", "job_activated"}
		for _, state := range states {
			w.service("chat_webhook", fields{"url": w.receiver.URL + "/" + state}, fields{"build_states": fields{state: true}})
		}
		w.service("chat_webhook", fields{"url": w.receiver.URL + "/either"}, fields{"build_states": fields{"build_passed": true, "build_fixed": true}})
		w.service("chat_webhook", fields{"url": w.receiver.URL + "/none"}, nil)
		servertest.WantEqual(t, "after creation", w.receivedBy(), "") // chats are not pinged

		check := func(what, want string) {
			t.Helper()
			w.runDue()
			servertest.WantEqual(t, what, w.receivedBy(), want)
		}
		w.finish(w.build(nil, "{command: a}"), "0")
		check("passed", "build_passed either")
		w.finish(w.build(nil), "1")
		check("failed", "build_failed")
		w.finish(w.build(nil), "0")
		if n := len(w.receiver.take()); n != 0 {
			t.Errorf("%d requests before anything was sent", n)
		}
		check("fixed", "build_fixed build_passed either")
		build := w.build(nil, "{command: a}", "{command: b}")
		w.finish(build, "1")
		check("failing", "build_failing")
		w.ada.Put(servertest.HelloPath+"/builds/"+build.String("number")+"/cancel", nil).Want(200)
		check("canceled", "build_canceled")
		build = w.build(nil, "{block: go}", "{command: a}")
		check("blocked", "build_blocked")
		w.ada.Put("/v2/organizations/acme/jobs/"+build.String("jobs.0.id")+"/unblock", nil).Want(200)
		check("activated", "job_activated")
		w.build(nil, `{command: a, if: "false"}`)
		check("not run", "")
	})
}
