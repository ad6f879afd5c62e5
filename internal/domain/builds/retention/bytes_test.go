package retention_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
)

// putBlob keeps a blob of a build of hello, and returns its key.
func (w *world) putBlob(number int, name string) string {
	w.T.Helper()
	var pipelineID string
	id := w.Build(number).String("id")
	w.WantNoError(w.DB.Read(w.T.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT pipeline_id FROM builds WHERE id = $1`, id).Scan(&pipelineID)
	}))
	key := builds.Prefix(w.OrgID, pipelineID, id) + "/" + name
	w.WantNoError(w.Blobs.Put(w.T.Context(), key, strings.NewReader("bytes"), 5))
	return key
}

// blobs returns the keys of all that acme has.
func (w *world) blobs() []string {
	w.T.Helper()
	found := []string{}
	for o, err := range w.Blobs.List(w.T.Context(), w.OrgID) {
		w.WantNoError(err)
		found = append(found, o.Key)
	}
	return found
}

func TestRetention_RemovesTheBytesOfABuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.keep(30)
		w.Create(nil)
		w.Create(nil)
		w.Run(1, "echo hello", 0)
		w.putBlob(1, "a/log")
		w.putBlob(1, "b")
		kept := w.putBlob(2, "a/log")
		w.Pass(31 * day)
		w.Pass(time.Minute)
		if left := w.blobs(); !slices.Equal(left, []string{kept}) {
			t.Errorf("left are %q, want %q", left, kept)
		}
	})
}

func TestPipelineRemoval_RemovesTheBytesOfItsBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		w.Create(nil)
		w.putBlob(1, "log")
		w.putBlob(2, "log")
		w.Ada.Delete(acme + "/pipelines/hello").Want(http.StatusNoContent)
		w.Pass(0) // rows first
		w.Pass(time.Minute)
		if left := w.blobs(); len(left) != 0 {
			t.Errorf("left are %q", left)
		}
	})
}
