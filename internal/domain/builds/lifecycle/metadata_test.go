package lifecycle_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// set gives a build meta-data.
func (w *world) set(buildID string, pairs ...string) error {
	var data []metadata.Entry
	for i := 0; i < len(pairs); i += 2 {
		data = append(data, metadata.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return w.Service.SetMetaData(w.T.Context(), w.OrgID, buildID, data)
}

func TestSetMetaData_KeepsTheLastValueOfEachKey(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(map[string]any{"meta_data": map[string]any{"a": "1"}}).String("id")
		w.WantNoError(w.set(id, "b", "2", "a", "3", "b", "4", "empty", ""))
		all, err := w.Service.MetaDataKeys(t.Context(), w.OrgID, id)
		w.WantNoError(err)
		servertest.WantEqual(t, "keys", strings.Join(all, " "), "a b empty")
		for key, want := range map[string]string{"a": "3", "b": "4", "empty": ""} {
			value, ok, err := w.Service.MetaData(t.Context(), w.OrgID, id, key)
			w.WantNoError(err)
			servertest.WantEqual(t, key, fmt.Sprint(value, ok), fmt.Sprint(want, true))
		}
		_, ok, err := w.Service.MetaData(t.Context(), w.OrgID, id, "none")
		w.WantNoError(err)
		servertest.WantEqual(t, "an unset key", ok, false)
		servertest.WantAt(t, w.Build(1), map[string]any{"meta_data.a": "3"})
	})
}

func TestSetMetaData_TakesAllOrNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(nil).String("id")
		for name, c := range map[string]struct {
			pairs []string
			text  string
		}{
			"no key":      {[]string{"a", "1", "", "2"}, "must have 1 to 255 characters, not 0"},
			"a long key":  {[]string{"a", "1", strings.Repeat("ä", 256), "2"}, "not 256"},
			"a long text": {[]string{"a", "1", "b", strings.Repeat("x", 100_001)}, `"b" has 100001 bytes`},
		} {
			t.Run(name, func(t *testing.T) { wantRefused(t, w.set(id, c.pairs...), c.text) })
		}
		var many []string
		for i := range 1001 {
			many = append(many, fmt.Sprint("key", i), "x")
		}
		wantRefused(t, w.set(id, many...), "1001 meta-data keys")
		large := strings.Repeat("x", 100_000)
		many = nil
		for i := range 42 {
			many = append(many, fmt.Sprint("key", i), large)
		}
		wantRefused(t, w.set(id, many...), "bytes of meta-data")
		all, err := w.Service.MetaDataKeys(t.Context(), w.OrgID, id)
		w.WantNoError(err)
		servertest.WantEqual(t, "keys", len(all), 0)
	})
}

func TestSetMetaData_LosesNothingWhenManySetAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(nil).String("id")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if err := w.set(id, fmt.Sprint("own", i), "x", "shared", "x", "another", "y"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		set, err := w.Service.MetaDataKeys(t.Context(), w.OrgID, id)
		w.WantNoError(err)
		servertest.WantEqual(t, "keys", len(set), 22)
	})
}

func TestMetaData_IsOfItsOrganizationAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(map[string]any{"meta_data": map[string]any{"a": "1"}}).String("id")
		other := ""
		w.WantNoError(w.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT id FROM organizations WHERE slug = 'rival'`).Scan(&other)
		}))
		_, ok, err := w.Service.MetaData(t.Context(), other, id, "a")
		w.WantNoError(err)
		servertest.WantEqual(t, "seen", ok, false)
		all, err := w.Service.MetaDataKeys(t.Context(), other, id)
		w.WantNoError(err)
		servertest.WantEqual(t, "keys", len(all), 0)
		err = w.Service.SetMetaData(t.Context(), other, id, []metadata.Entry{{Key: "a", Value: "2"}})
		if core.KindOf(err) != core.NotFound {
			t.Errorf("got %v", err)
		}
	})
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
		w.WantNoError(w.set(id, lifecycle.GitCommitKey, reported))
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
		w.WantNoError(w.set(id, lifecycle.GitCommitKey, reported))
		servertest.WantAt(t, w.Build(1), map[string]any{"commit": given, "message": "Mine", "author.name": "Ada"})
	})
}

func TestSetMetaData_TakesAnythingAsTheCommit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.Create(nil).String("id")
		for _, text := range []string{"", "HEAD", "commit nonsense\n\n\n", "Author: \n\n", "\n\n\n\n", "commit " + fullSHA[:39]} {
			w.WantNoError(w.set(id, lifecycle.GitCommitKey, text))
		}
		servertest.WantAt(t, w.Build(1), map[string]any{"commit": "HEAD", "message": nil, "author.name": "Ada"})
	})
}
