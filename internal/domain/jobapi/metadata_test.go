package jobapi_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/lifecycle"
)

func TestMetaData_IsSetAndReadByJobs(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.Post(w.Path("/data/exists"), fields{"key": "a"}).Want(http.StatusOK)
		w.Post(w.Path("/data/get"), fields{"key": "a"}).WantMessage(http.StatusNotFound, `No meta-data has been set under the key "a"`)
		servertest.WantEqual(t, "keys", w.Post(w.Path("/data/keys"), nil).Want(http.StatusOK).Len(""), 0)
		w.Post(w.Path("/data/set"), fields{"key": "a", "value": "1"}).Want(http.StatusOK)
		w.Post(w.Path("/data/set-batch"), fields{"items": []fields{{"key": "b", "value": "two\nlines"}, {"key": "c", "value": ""}}}).Want(http.StatusOK)
		for _, path := range []string{w.Path("/data/"), "/v3/builds/" + w.Build + "/data/"} {
			servertest.WantAt(t, w.Post(path+"get", fields{"key": "b"}).Want(http.StatusOK), fields{"key": "b", "value": "two\nlines"})
			servertest.WantAt(t, w.Post(path+"get", fields{"key": "c"}).Want(http.StatusOK), fields{"key": "c", "value": ""})
			servertest.WantAt(t, w.Post(path+"exists", fields{"key": "c"}).Want(http.StatusOK), fields{"exists": true})
			servertest.WantAt(t, w.Post(path+"exists", fields{"key": "d"}).Want(http.StatusOK), fields{"exists": false})
			servertest.WantEqual(t, "keys", string(w.Post(path+"keys", nil).Want(http.StatusOK).Body), "[\"a\",\"b\",\"c\"]\n")
			w.Post(path+"get", fields{"key": "d"}).Want(http.StatusNotFound)
		}
		servertest.WantAt(t, w.Show(), fields{"meta_data.a": "1", "meta_data.c": ""})
	})
}

func TestMetaData_ReportsProblems(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.Post(w.Path("/data/set"), fields{"value": "x"}).WantMessage(http.StatusUnprocessableEntity, "A meta-data key must have 1 to 255 characters, not 0")
		w.Post(w.Path("/data/set"), fields{"key": "a", "value": 1}).WantMessage(http.StatusBadRequest, "value must be a string, not a number")
		w.Post(w.Path("/data/set-batch"), fields{"items": "x"}).Want(http.StatusBadRequest)
		w.Post(w.Path("/data/set-batch"), fields{"items": []fields{{"key": "a", "value": "1"}, {"key": "b", "value": strings.Repeat("x", 100_001)}}}).
			WantMessage(http.StatusUnprocessableEntity, `The meta-data value of "b" has 100001 bytes; 100000 are the most`)
		w.Post(w.Path("/data/get"), fields{"key": "a"}).Want(http.StatusNotFound)
		w.Post(w.Path("/data/set-batch"), nil).Want(http.StatusOK)
	})
}

func TestMetaData_ReportsTheCommit(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		sha := strings.Repeat("0123456789abcdef", 3)[:40]
		w.Post(w.Path("/data/set"), fields{"key": lifecycle.GitCommitKey, "value": "commit " + sha + "\nabbrev-commit " + sha[:10] + "\nAuthor: A <a@b.test>\n\n    Say it\n"}).Want(http.StatusOK)
		servertest.WantAt(t, w.Show(), fields{"commit": sha, "message": "Say it"})
		servertest.WantAt(t, w.Post(w.Path("/data/exists"), fields{"key": lifecycle.GitCommitKey}), fields{"exists": true})
	})
}
