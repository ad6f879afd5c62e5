package jobapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// search returns the paths and jobs of the artifacts that a search finds, such as "a.txt@first".
func (w *runningBuild) search(query string, names map[string]string) string {
	w.T.Helper()
	found := w.Get("/v3/builds/" + w.Build + "/artifacts/search?" + query).Want(http.StatusOK)
	var list []string
	for i := range found.Len("") {
		list = append(list, found.String(fmt.Sprintf("%d.path", i))+"@"+names[found.String(fmt.Sprintf("%d.job_id", i))])
	}
	return strings.Join(list, " ")
}

func TestSearch_FindsByPathStepAndAttempt(t *testing.T) {
	steps := []string{"{command: a, key: first, label: The first}", "{command: b, key: second, label: The second, retry: {automatic: true}}"}
	whileRunning(t, steps, func(t *testing.T, w *runningBuild) {
		second := w.Show().String("jobs.1.id")
		old := w.StartJob(second)
		w.upload(old, file{"log/a.txt", "", "old"}, file{"only-once", "", "old"})
		old.Finish("1")
		retried := w.Show().String("jobs.1.id")
		w.upload(w.StartJob(retried), file{"log/a.txt", "", "new"}, file{"log/deep/b.txt", "", "x"})
		w.upload(w.Job, file{"log/a.txt", "", "mine"}, file{"100%_[x]?.bin", "", "x"})
		w.Post(w.Path("/artifacts"), batch(file{"unfinished", "", "x"})).Want(http.StatusOK)
		names := map[string]string{w.Job.ID: "first", second: "old", retried: "second"}
		for query, want := range map[string]string{
			"state=finished":                         "100%_[x]?.bin@first log/a.txt@first log/deep/b.txt@second",
			"":                                       "unfinished@first 100%_[x]?.bin@first log/a.txt@first log/deep/b.txt@second",
			"state=finished&include_duplicates=true": "100%_[x]?.bin@first log/a.txt@first log/deep/b.txt@second log/a.txt@second",
			"state=finished&include_retried_jobs=true":                      "100%_[x]?.bin@first log/a.txt@first log/deep/b.txt@second only-once@old",
			"query=log/*&include_retried_jobs=true&include_duplicates=true": "log/a.txt@first log/deep/b.txt@second log/a.txt@second log/a.txt@old",
			"query=*.txt":                               "log/a.txt@first log/deep/b.txt@second",
			"query=log/a.txt&scope=second":              "log/a.txt@second",
			"query=log/a.txt&scope=The+second":          "log/a.txt@second",
			"query=log/a.txt&scope=" + w.Job.ID:         "log/a.txt@first",
			"query=log/a.txt&scope=" + second:           "",
			"query=log/a.txt&scope=none":                "",
			"query=log":                                 "",
			"query=" + url.QueryEscape("100%_[x]?.bin"): "100%_[x]?.bin@first",
			"query=" + url.QueryEscape("1?0*"):          "",
		} {
			servertest.WantEqual(t, query, w.search(query, names), want)
		}
	})
}
