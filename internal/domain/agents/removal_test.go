package agents_test

import (
	"net/http"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// Deleting a cluster hides it and its agents at once. A task changes the many rows that refer to it.
func TestClusterRemoval_HappensInTheBackground(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const clusters, pipelines = "/v2/organizations/acme/clusters", "/v2/organizations/acme/pipelines"
		cluster := w.ada.Post(clusters, fields{"name": "Short-lived"}).Want(http.StatusCreated).String("id")
		at := clusters + "/" + cluster
		queue := w.ada.Post(at+"/queues", fields{"key": "default"}).Want(http.StatusCreated).String("id")
		w.ada.Patch(at, fields{"default_queue_id": queue}).Want(http.StatusOK)
		w.ada.Post(pipelines, fields{
			"name": "moves", "repository": "https://git.example.test/acme/moves.git", "cluster_id": cluster, "configuration": "steps: [{command: a}]",
		}).Want(http.StatusCreated)
		w.ada.Post(pipelines+"/moves/builds", fields{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		w.ada.Patch(pipelines+"/moves", fields{"cluster_id": nil}).Want(http.StatusOK)
		token := w.ada.Post(at+"/tokens", fields{"description": "boot"}).Want(http.StatusCreated).String("token")
		registered := w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusOK)
		session := w.AsAgent(t, registered.String("access_token"))
		session.Post("/v3/connect", fields{}).Want(http.StatusOK)
		agent := acmeAgents + "/" + registered.String("id")
		w.ada.Get(agent).Want(http.StatusOK)

		statements := dbtest.CountStatements(w.DB)
		w.ada.Delete(at).Want(http.StatusNoContent)
		if counts := statements.Take(); counts.Of("DELETE", "UPDATE builds", "UPDATE agents") > 0 {
			t.Errorf("the request removes rows: %v", counts)
		}
		w.ada.Get(at).Want(http.StatusNotFound)
		w.ada.Get(agent).Want(http.StatusNotFound)
		session.Get("/v3/ping").Want(http.StatusUnauthorized)
		w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusUnauthorized)
		w.ada.Post(clusters, fields{"name": "Short-lived"}).Want(http.StatusCreated)
		w.ada.Delete(at).Want(http.StatusNotFound)

		if err := w.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			`SELECT COUNT(*) FROM clusters WHERE id = $1`, `SELECT COUNT(*) FROM agents WHERE cluster_id = $1`, `SELECT COUNT(*) FROM queues WHERE cluster_id = $1`,
			`SELECT COUNT(*) FROM agent_tokens WHERE cluster_id = $1`, `SELECT COUNT(*) FROM builds WHERE cluster_id = $1`,
		} {
			var n int
			err := w.DB.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(text, cluster).Scan(&n) })
			if err != nil || n != 0 {
				t.Errorf("%s: %d, %v", text, n, err)
			}
		}
		w.ada.Get(pipelines + "/moves/builds/1").Want(http.StatusOK)
	})
}
