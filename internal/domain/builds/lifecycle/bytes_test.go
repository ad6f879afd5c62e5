package lifecycle_test

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
	w.t.Helper()
	var pipelineID string
	id := w.build(number).String("id")
	w.ok(w.DB.Read(w.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT pipeline_id FROM builds WHERE id = $1`, id).Scan(&pipelineID)
	}))
	key := builds.Prefix(w.orgID, pipelineID, id) + "/" + name
	w.ok(w.Blobs.Put(w.t.Context(), key, strings.NewReader("bytes"), 5))
	return key
}

// blobs returns the keys of all that acme has.
func (w *world) blobs() []string {
	w.t.Helper()
	found := []string{}
	for o, err := range w.Blobs.List(w.t.Context(), w.orgID) {
		w.ok(err)
		found = append(found, o.Key)
	}
	return found
}

func TestRetention_RemovesTheBytesOfABuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.keep(30)
		w.create(nil)
		w.create(nil)
		w.run(1, "echo hello", 0)
		w.putBlob(1, "a/log")
		w.putBlob(1, "b")
		kept := w.putBlob(2, "a/log")
		w.pass(31 * day)
		w.pass(time.Minute)
		if left := w.blobs(); !slices.Equal(left, []string{kept}) {
			t.Errorf("left are %q, want %q", left, kept)
		}
	})
}

func TestPipelineRemoval_RemovesTheBytesOfItsBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
		w.create(nil)
		w.putBlob(1, "log")
		w.putBlob(2, "log")
		w.ada.Delete(acme + "/pipelines/hello").Want(http.StatusNoContent)
		w.pass(0) // rows first
		w.pass(time.Minute)
		if left := w.blobs(); len(left) != 0 {
			t.Errorf("left are %q", left)
		}
	})
}
