package lifecycle_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/db"
)

// reportCommit sets the meta-data with which an agent reports the commit of a build.
func (w *world) reportCommit(buildID, text string) {
	w.T.Helper()
	w.WantNoError(w.Service.SetMetaData(w.T.Context(), w.OrgID, buildID, []metadata.Entry{{Key: lifecycle.GitCommitKey, Value: text}}))
}

const (
	fullSHA  = "0123456789abcdef0123456789abcdef01234567"
	reported = "commit " + fullSHA + "\nabbrev-commit 0123456789\nAuthor: Grace Hopper <grace@navy.test>\n\n    Find the moth\n\n    It was in the relay.\n"
)

func TestSetMetaData_FillsInTheCommitOfTheBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(nil).String("id")
		// The creator of a build over REST is its author; a webhook may have none.
		w.WantNoError(w.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE build_details SET author = NULL WHERE build_id = $1`, id)
			return err
		}))
		w.reportCommit(id, reported)
		servertest.WantAt(t, w.Build(1), map[string]any{
			"commit": fullSHA, "message": "Find the moth\n\nIt was in the relay.", "author.name": "Grace Hopper", "author.email": "grace@navy.test",
		})
		env := w.Ada.Get(acme + "/jobs/" + w.Build(1).String("jobs.0.id") + "/env").Want(http.StatusOK)
		servertest.WantAt(t, env, map[string]any{"env.SERVICE_COMMIT": fullSHA, "env.SERVICE_BUILD_AUTHOR": "Grace Hopper"})
	})
}

func TestSetMetaData_LeavesAloneWhatIsKnownOfTheCommit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		given := strings.Repeat("f", 40)
		id := w.Create(map[string]any{"commit": given, "message": "Mine"}).String("id")
		w.reportCommit(id, reported)
		servertest.WantAt(t, w.Build(1), map[string]any{"commit": given, "message": "Mine", "author.name": "Ada"})
	})
}

func TestSetMetaData_TakesAnythingAsTheCommit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(nil).String("id")
		for _, text := range []string{"", "HEAD", "commit nonsense\n\n\n", "Author: \n\n", "\n\n\n\n", "commit " + fullSHA[:39]} {
			w.reportCommit(id, text)
		}
		servertest.WantAt(t, w.Build(1), map[string]any{"commit": "HEAD", "message": nil, "author.name": "Ada"})
	})
}
