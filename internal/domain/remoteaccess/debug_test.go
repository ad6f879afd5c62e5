package remoteaccess_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/runner"
)

// failedJob returns a job that has failed, in an organization that allows sessions.
func failedJob(t *testing.T, s *servertest.Server) *shellWorld {
	t.Helper()
	s.Apply("organizations: [{slug: acme, features: {self_hosted_sessions: true}}]")
	w := &shellWorld{&servertest.RealJob{Scenario: s.Scenario(t)}, t}
	w.Ada.Put(acme+"/pipeline-settings/hosted-agents-ssh", nil).Want(http.StatusOK)
	w.Steps(`{command: "echo evidence >left-behind; exit 5", timeout_in_minutes: 10, env: {SERVICE_SKIP_CHECKOUT: "true"}}`)
	_, w.ID = w.CreateBuild()
	w.StartJob(w.ID).Finish("5")
	return w
}

func (w *shellWorld) retry(body any) *servertest.Response {
	w.t.Helper()
	return w.Ada.Put(acme+"/jobs/"+w.ID+"/retry", body)
}

func TestDebug_KeepsAFailedJob(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := failedJob(t, s)
		w.ID = w.retry(map[string]any{"debug": true}).Want(http.StatusOK).String("id")
		w.RunAgent(s.URL)
		w.eventually("the job has failed and runs", func() bool {
			j := w.Show()
			return j.String("state") == "running" && strings.Contains(string(j.Body), `"promised_exit_status":5`)
		})
		out, err := w.open().run("cat left-behind; echo status $SERVICE_COMMAND_EXIT_STATUS")
		if err != nil || out != "evidence\nstatus 5\n" {
			t.Errorf("the shell printed %q, %v", out, err)
		}
		w.Ada.Put(acme+"/jobs/"+w.ID+"/cancel", nil).Want(http.StatusOK)
		w.eventually("the job ends when it is canceled", func() bool { return w.Show().String("state") == "canceled" })
		var minutes int
		w.QueryRow(`SELECT timeout_minutes FROM jobs WHERE id = $1`, &minutes, w.ID)
		servertest.WantEqual(t, "timeout", minutes, 40)
		w.ID = w.retry(nil).Want(http.StatusOK).String("id") // no longer kept
		w.QueryRow(`SELECT timeout_minutes FROM jobs WHERE id = $1`, &minutes, w.ID)
		servertest.WantEqual(t, "timeout of the next attempt", minutes, 10)
		w.RunAgent(s.URL)
		w.eventually("the job fails", func() bool { return w.Show().String("state") == "failed" })
	})
}

func TestDebug_EndsAfterAWhile(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := failedJob(t, s)
		w.ID = w.retry(map[string]any{"debug": true}).Want(http.StatusOK).String("id")
		w.RunAgent(s.URL, func(o *runner.Options) { o.DebugTime = time.Millisecond })
		w.eventually("the job has failed", func() bool { return w.Show().String("state") == "failed" })
		servertest.WantAt(t, w.Show(), map[string]any{"exit_status": 5})
	})
}

func TestDebug_NeedsRemoteAccess(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := failedJob(t, s)
		w.retry(map[string]any{"debug": "yes"}).Want(http.StatusUnprocessableEntity)
		refused := func(by *servertest.Client, status int, text string) {
			t.Helper()
			got := by.Put(acme+"/jobs/"+w.ID+"/retry", map[string]any{"debug": true}).Want(status).String("message")
			if !strings.Contains(got, text) {
				t.Errorf("the message is %q, want %q", got, text)
			}
		}
		refused(s.As(t, servertest.Bo), http.StatusForbidden, "manage_hosted_agents")
		w.Ada.Delete(acme + "/pipeline-settings/hosted-agents-ssh").Want(http.StatusOK)
		refused(w.Ada, http.StatusUnprocessableEntity, "cannot be kept for debugging: SSH access is unavailable")
		w.Ada.Put(acme+"/pipeline-settings/hosted-agents-ssh", nil).Want(http.StatusOK)
		s.Apply("organizations: [{slug: acme, features: {self_hosted_sessions: false}}]")
		refused(w.Ada, http.StatusUnprocessableEntity, "on a hosted agent with macOS or Linux")
	})
}
