package lifecycle_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
)

// triggerAs has a user build the pipeline of a slug, whose only step triggers another, and returns the
// trigger job.
func (w *world) triggerAs(who *servertest.Client, slug string) *servertest.Response {
	w.T.Helper()
	build := who.Post(acme+"/pipelines/"+slug+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
	w.Follow()
	return w.Ada.Get(acme + "/jobs/" + build.String("jobs.0.id")).Want(http.StatusOK)
}

// withTeam makes a team that Bo is in, and returns its id.
func (w *world) withTeam() string {
	w.T.Helper()
	w.Apply("organizations: [{slug: acme, features: {teams: true}, teams: [{name: Bo, slug: bo, members: [bo@acme.test]}]}]")
	return w.Ada.Get(acme + "/teams/bo").Want(http.StatusOK).String("id")
}

// wantRefused fails the test unless a trigger job failed and its explanation says why.
func (w *world) wantRefused(job *servertest.Response, why string) {
	w.T.Helper()
	servertest.WantAt(w.T, job, map[string]any{"state": "failed", "exit_status": 1, "detail": why, "triggered_build": nil})
	if got := w.Ada.Get(acme + "/jobs/" + job.String("id") + "/explain").String("reason"); !strings.Contains(got, why) {
		w.T.Errorf("explained with %q, want %q in it", got, why)
	}
}

func TestTrigger_WithTeamsNeedsTheCreatorsAccess(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		bo, team := w.As(t, servertest.Bo), w.withTeam()
		for target, level := range map[string]string{"unseen": "", "read": "read_only", "built": "build_and_read", "managed": "manage_build_and_read"} {
			teams := map[string]string{servertest.AcmeTeamID: "manage_build_and_read"}
			if level != "" {
				teams[team] = level
			}
			w.AddPipeline(target, map[string]any{"teams": teams}, "command: a")
			w.AddPipeline("from-"+target, map[string]any{"teams": map[string]string{team: "build_and_read"}}, "{trigger: "+target+", key: go}")
		}
		w.AddPipeline("from-nowhere", map[string]any{"teams": map[string]string{team: "build_and_read"}}, "{trigger: nowhere, key: go}")
		// One that Bo cannot see is to him as one that does not exist.
		w.wantRefused(w.triggerAs(bo, "from-unseen"), `There is no pipeline "unseen" that Bo, who created this build, has access to`)
		w.wantRefused(w.triggerAs(bo, "from-nowhere"), `There is no pipeline "nowhere" that Bo, who created this build, has access to`)
		w.wantRefused(w.triggerAs(w.Ada, "from-nowhere"), `There is no pipeline "nowhere" in the organization`)
		w.wantRefused(w.triggerAs(bo, "from-read"), `Bo, who created this build, cannot build the pipeline "read"`)
		for _, target := range []string{"built", "managed"} {
			servertest.WantEqual(t, target, w.triggerAs(bo, "from-"+target).String("state"), "running")
		}
		// An administrator builds everything, also again what Bo could not.
		servertest.WantEqual(t, "by an administrator", w.triggerAs(w.Ada, "from-unseen").String("state"), "running")
		rebuilt := w.Ada.Put(acme+"/pipelines/from-unseen/builds/1/rebuild", nil).Want(http.StatusOK)
		w.Follow()
		servertest.WantEqual(t, "rebuilt", w.Ada.Get(acme+"/jobs/"+rebuilt.String("jobs.0.id")).String("state"), "running")
		// Without teams every member does.
		w.Apply("organizations: [{slug: acme, features: {teams: false}}]")
		servertest.WantEqual(t, "without teams", w.triggerAs(bo, "from-unseen").String("state"), "running")
	})
}

func TestTrigger_OfABuildWithoutCreatorNeedsATeamOfBothPipelines(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		team := w.withTeam()
		triggered := func(slug string) *servertest.Response {
			t.Helper()
			var p *pipelines.Pipeline
			w.WantNoError(w.DB.Read(t.Context(), func(q *db.Q) (err error) {
				p, err = pipelines.BySlug(q, pipelines.System(w.OrgID), slug)
				return err
			}))
			_, err := w.Service.Create(t.Context(), p, lifecycle.Creation{Commit: "HEAD", Branch: "main", Source: builds.FromWebhook})
			w.WantNoError(err)
			w.Follow()
			return w.Ada.Get(acme + "/jobs/" + w.Ada.Get(acme+"/pipelines/"+slug+"/builds").String("0.jobs.0.id"))
		}
		w.AddPipeline("target", map[string]any{"teams": map[string]string{team: "build_and_read"}}, "command: a")
		for slug, teams := range map[string]map[string]string{
			"apart": {servertest.AcmeTeamID: "manage_build_and_read"}, "reads": {team: "read_only"}, "builds": {team: "build_and_read"},
		} {
			w.AddPipeline(slug, map[string]any{"teams": teams}, "{trigger: target, key: go}")
		}
		const why = `This build has no known creator, and no team can build both its pipeline and the pipeline "target"`
		w.wantRefused(triggered("apart"), why)
		w.wantRefused(triggered("reads"), why)
		servertest.WantEqual(t, "with a team of both", triggered("builds").String("state"), "running")
	})
}
