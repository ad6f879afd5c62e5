package buildapi_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestCreate_SeesEveryChangeToThePipelineAndItsQueues(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		create := func() *servertest.Response {
			return w.Ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"})
		}
		create().Want(http.StatusCreated) // and now everything is in memory
		w.Steps("{command: a, key: a, agents: {queue: fast}}")
		create().Want(http.StatusUnprocessableEntity)
		w.Ada.Post(acme+"/clusters/"+servertest.AcmeClusterID+"/queues", map[string]any{"key": "fast"}).Want(http.StatusCreated)
		create().Want(http.StatusCreated)
		w.Ada.Post(acme+"/pipelines/hello/archive", nil).Want(http.StatusOK)
		create().Want(http.StatusUnprocessableEntity)
		w.Ada.Post(acme+"/pipelines/hello/unarchive", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "number", create().Want(http.StatusCreated).String("number"), "3")
	})
}
