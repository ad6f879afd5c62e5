package testresults_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/testresults"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

var benchExecutions = flag.Int("executions", 50_000, "executions that BenchmarkUpload uploads; 1000000 for the long form")

const (
	benchBatch   = 5000 // executions of an upload, as published collectors send them
	benchTests   = 10_000
	benchClients = 2
)

// BenchmarkUpload uploads executions over HTTP and, in the same run, inserts as many rows of executions in batches of
// the same size with nothing around it. It reports both as rows a second, and their ratio.
func BenchmarkUpload(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			for range b.N {
				bare := insertBare(b, dbtest.New(b, engine))
				uploaded := uploadAll(b, dbtest.New(b, engine))
				b.ReportMetric(bare, "bare-rows/s")
				b.ReportMetric(uploaded, "rows/s")
				b.ReportMetric(uploaded/bare, "ratio")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// benchResult returns a result as collectors send it. One in 200 failed.
func benchResult(i int) map[string]any {
	test := i % benchTests
	r := map[string]any{
		"id": core.NewID(), "scope": fmt.Sprintf("Module%d::Class%d", test/100, test/10), "name": fmt.Sprintf("does what test %d says", test),
		"location": fmt.Sprintf("./spec/module%d/class%d_spec.rb:%d", test/100, test/10, test%10*7), "file_name": fmt.Sprintf("./spec/module%d/class%d_spec.rb", test/100, test/10),
		"result": "passed", "history": map[string]any{"section": "top", "start_at": float64(i), "end_at": float64(i) + 0.1, "duration": 0.1,
			"children": []map[string]any{{"section": "sql", "start_at": float64(i), "end_at": float64(i) + 0.01, "duration": 0.01, "detail": map[string]any{"query": "SELECT 1"}}}},
	}
	if i%200 == 0 {
		r["result"], r["failure_reason"] = "failed", "expected true, got false"
		r["failure_expanded"] = []map[string]any{{"expanded": []string{"expected true"}, "backtrace": []string{"./spec/a.rb:1"}}}
	}
	return r
}

// uploadAll returns how many executions a second a server takes.
func uploadAll(b *testing.B, d *db.DB) (perSecond float64) {
	s := servertest.Start(b, d)
	s.Apply(servertest.World)
	token := s.As(b, servertest.Ada).Post(acme, body{"name": "Unit", "default_branch": "main", "show_api_token": true}).Want(http.StatusCreated).String("api_token")
	uploads := make(chan []byte, benchClients)
	var clients sync.WaitGroup
	for range benchClients {
		clients.Go(func() {
			for content := range uploads {
				req, err := http.NewRequest("POST", s.URL+"/v1/uploads", bytes.NewReader(content))
				if err != nil {
					b.Error(err)
					continue
				}
				req.Header.Set("Authorization", `Token token="`+token+`"`)
				req.Header.Set("Content-Type", "application/json")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					b.Error(err)
					continue
				}
				if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
					b.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}
	// What clients do is not measured: the results of a run are encoded once.
	var data [benchTests / benchBatch][]byte
	for i := range data {
		results := make([]map[string]any, benchBatch)
		for j := range results {
			results[j] = benchResult(i*benchBatch + j)
		}
		var err error
		if data[i], err = json.Marshal(results); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	for i := range *benchExecutions / benchBatch {
		run := i / len(data)
		uploads <- fmt.Appendf(nil, `{"format": "json", "run_env": {"ci": "buildkite", "key": "run-%d", "branch": "main", "commit_sha": "commit-%d", "job_id": "job-%d"}, "data": %s}`,
			run, run, i, data[i%len(data)])
	}
	close(uploads)
	clients.Wait()
	return float64(*benchExecutions) / time.Since(start).Seconds()
}

// insertBare returns how many rows of executions a second the results database takes in batches.
func insertBare(b *testing.B, d *db.DB) (perSecond float64) {
	results, err := d.Results(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, benchTests)
	for i := range ids {
		ids[i] = testresults.TestID("suite", "", fmt.Sprint(i))
	}
	start := time.Now()
	for first := 0; first < *benchExecutions; first += benchBatch {
		rows := make([]int, benchBatch)
		for i := range rows {
			rows[i] = first + i
		}
		err := results.Write(b.Context(), func(q *db.Q) error {
			return db.InsertMany(q, `INSERT INTO test_executions (run, test_id, n, result, duration, failure_reason, failure_expanded, sections)`, rows, func(i int) []any {
				return []any{i / benchTests, ids[i%benchTests], i, "passed", 100_000, nil, nil, `{"sql":{"count":1,"duration":0.01}}`}
			}, "")
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return float64(*benchExecutions) / time.Since(start).Seconds()
}
