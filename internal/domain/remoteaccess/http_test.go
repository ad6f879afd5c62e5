package remoteaccess_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

const (
	acme = "/v2/organizations/acme"
	// agentID is the id of the agent that runs all jobs.
	agentID = "0190c0de-0000-7000-8000-0000000000b1"
)

// sessions are the last path segments of the two kinds of sessions.
var sessions = []string{"vnc-session", "ssh-session"}

// A world is a server on which acme has hosted queues, in a self-hosted and in a hosted cluster, and a build
// with a job in each. Remote access is allowed.
type world struct {
	*servertest.Server
	t       *testing.T
	ada     *servertest.Client
	service *lifecycle.Service
	org     string
	jobs    map[string]string // by command
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), jobs: map[string]string{}}
		w.service = s.Builds()
		s.Apply(`
organizations:
  - slug: acme
    clusters:
      - name: Default
        queues: [{key: linux, hosted: {platform: linux}}, {key: macos, hosted: {platform: macos}}]
      - {name: Cloud, hosted: true, queues: [{key: default, default: true}]}
    pipelines:
      - slug: hello
        configuration: |
          steps:
            - {command: own}
            - {command: linux, agents: {queue: linux}}
            - {command: macos, agents: {queue: macos}}
            - {command: idle, agents: {queue: macos}}
            - {block: Go}
      - slug: cloud
        name: Cloud
        repository: https://git.example.test/acme/cloud.git
        cluster: Cloud
        configuration: "steps: [{command: cloud}]"
`)
		w.ada.Put(acme+"/pipeline-settings/hosted-agents-ssh", nil).Want(http.StatusOK)
		err := s.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT id FROM organizations WHERE slug = 'acme'`).Scan(&w.org)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, slug := range []string{"hello", "cloud"} {
			w.build(slug)
		}
		fn(t, w)
	})
}

// build creates a build and starts its command jobs, all but idle.
func (w *world) build(slug string) {
	w.t.Helper()
	var build struct {
		ID   string
		Jobs []struct{ ID, Command, Type string }
	}
	w.ada.Post(acme+"/pipelines/"+slug+"/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).JSON(&build)
	for _, j := range build.Jobs {
		w.jobs[j.Command+strings.TrimPrefix(j.Type, "script")] = j.ID
		if j.Type == "script" && j.Command != "idle" {
			w.start(build.ID, j.ID)
		}
	}
}

// start moves a job to running, as an agent does.
func (w *world) start(buildID, id string) {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.service.Assign(ctx, w.org, buildID, []flow.Offer{{JobID: id, AgentID: agentID}})
	if err == nil {
		err = w.service.Accept(ctx, w.org, id, agentID)
	}
	if err == nil {
		err = w.service.Start(ctx, w.org, id, agentID)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) path(job, session string) string {
	return fmt.Sprintf("%s/jobs/%s/%s", acme, w.jobs[job], session)
}

func TestSession_NeedsAnAgentThatAnswers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, at := range []string{w.path("macos", "vnc-session"), w.path("macos", "ssh-session"), w.path("linux", "ssh-session"), w.path("cloud", "ssh-session")} {
			got := w.ada.Post(at, nil)
			got.WantMessage(http.StatusServiceUnavailable, "The session could not be created: the agent of the job does not support sessions")
			if got.Header.Get("Retry-After") == "" || got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: headers %v", at, got.Header)
			}
		}
	})
}

func TestSession_NeedsARunningCommandJobOnASupportedHostedAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const vnc = "VNC access needs a running command job on a hosted agent with macOS"
		const ssh = "SSH access needs a running command job on a hosted agent with macOS or Linux"
		refused := func(job, session, message string) {
			t.Helper()
			got := w.ada.Post(w.path(job, session), nil)
			got.WantMessage(http.StatusUnprocessableEntity, message)
			if got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s of %s can be cached", session, job)
			}
		}
		for _, job := range []string{"own", "idle", "manual"} {
			refused(job, "vnc-session", vnc)
			refused(job, "ssh-session", ssh)
		}
		refused("linux", "vnc-session", vnc)
		refused("cloud", "vnc-session", vnc)
		if err := w.service.Finish(t.Context(), w.org, w.jobs["macos"], agentID, flow.Exit{}, ""); err != nil {
			t.Fatal(err)
		}
		refused("macos", "vnc-session", vnc)
		w.ada.Put(acme+"/jobs/"+w.jobs["linux"]+"/cancel", nil).Want(http.StatusOK)
		refused("linux", "ssh-session", ssh)
	})
}

func TestSession_IsUnavailableWhereTheOrganizationHasItOff(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		unavailable := func(why string) {
			t.Helper()
			for _, session := range sessions {
				for _, job := range []string{"macos", "own"} { // whatever the job is
					name := strings.ToUpper(session[:3])
					w.ada.Post(w.path(job, session), nil).WantMessage(http.StatusNotFound, name+" access is unavailable: "+why)
				}
			}
		}
		w.ada.Delete(acme + "/pipeline-settings/hosted-agents-ssh").Want(http.StatusOK)
		unavailable("the organization's pipeline settings do not allow remote access to hosted agents")
		w.ada.Put(acme+"/pipeline-settings/hosted-agents-ssh", nil).Want(http.StatusOK)
		w.Apply("organizations: [{slug: acme, features: {hosted_agents: false}}]")
		unavailable("the organization has no hosted agents")
	})
}

func TestSession_NeedsAJobOfTheOrganization(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Delete(acme + "/pipeline-settings/hosted-agents-ssh").Want(http.StatusOK)
		for _, session := range sessions {
			for _, id := range []string{core.NewID(), "x"} {
				w.ada.Post(acme+"/jobs/"+id+"/"+session, nil).WantMessage(http.StatusNotFound, "No job found")
			}
			cy := w.As(t, servertest.Cy)
			cy.Post("/v2/organizations/rival/jobs/"+w.jobs["macos"]+"/"+session, nil).WantMessage(http.StatusNotFound, "No job found")
			cy.Post(w.path("macos", session), nil).WantMessage(http.StatusNotFound, "No organization found")
		}
	})
}

func TestSession_NeedsTheScopeAndThenThePermission(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply(`
organizations:
  - slug: acme
    members:
      - {email: bo@acme.test, access_tokens: [{description: few, token: svcua_few, scopes: [read_builds]}]}
`)
		bo := w.As(t, servertest.Bo)
		for _, session := range sessions {
			w.As(t, "").Post(w.path("macos", session), nil).Want(http.StatusUnauthorized)
			for _, at := range []string{w.path("macos", session), acme + "/jobs/" + core.NewID() + "/" + session} { // before the job
				if got := w.As(t, "svcua_few").Post(at, nil).Want(http.StatusForbidden).String("message"); !strings.Contains(got, "write_builds") {
					t.Errorf("the scope is not named: %s", got)
				}
				if got := bo.Post(at, nil).Want(http.StatusForbidden).String("message"); !strings.Contains(got, "manage_hosted_agents") {
					t.Errorf("the permission is not named: %s", got)
				}
			}
		}
		w.Apply("organizations: [{slug: acme, members: [{email: bo@acme.test, permissions: [manage_hosted_agents]}]}]")
		bo.Post(w.path("macos", "ssh-session"), nil).Want(http.StatusServiceUnavailable)
		// A job that the caller cannot see is not there.
		w.Apply("organizations: [{slug: acme, features: {teams: true}}]")
		bo.Post(w.path("macos", "ssh-session"), nil).WantMessage(http.StatusNotFound, "No job found")
	})
}

func TestSession_IsNotFoundUnderABuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, session := range sessions {
			at := acme + "/pipelines/hello/builds/1/jobs/" + w.jobs["macos"] + "/" + session
			if got := w.ada.Do(http.MethodPost, at, nil).Status; got != http.StatusNotFound {
				t.Errorf("%s has status %d", at, got)
			}
		}
	})
}

func TestSession_IsDocumentedWithEveryField(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		document := w.ada.Get("/openapi.json").Want(http.StatusOK)
		for schema, fields := range map[string]string{
			"VncSession": "endpoint access_token expires_at vnc",
			"VncLogin":   "username password",
			"SshSession": "endpoint access_token expires_at transport ssh",
			"SshLogin":   "username private_key host_keys",
		} {
			if got := document.At("components.schemas." + schema + ".required"); fmt.Sprint(got) != "["+fields+"]" {
				t.Errorf("%s has the fields %v, want %s", schema, got, fields)
			}
		}
	})
}
