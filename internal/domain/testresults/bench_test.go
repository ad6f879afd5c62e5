package testresults_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	benchTests   = 5000
	benchClients = 4
	benchTurn    = 8 // batches
)

// BenchmarkUpload uploads executions over HTTP and, in the same run, inserts as many rows of executions in batches of
// the same size with nothing around it. It reports both as rows a second, and their ratio. The two take turns, so that
// what else the machine does slows both.
func BenchmarkUpload(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			for range b.N {
				insert, upload := bareInserts(b, dbtest.New(b, engine)), uploads(b, dbtest.New(b, engine))
				var inserting, uploading time.Duration
				batches := *benchExecutions / benchBatch
				for first := 0; first < batches; first += benchTurn {
					last := min(first+benchTurn, batches)
					inserting += timed(func() { insert(first, last) })
					uploading += timed(func() { upload(first, last) })
				}
				rows := float64(batches * benchBatch)
				b.ReportMetric(rows/inserting.Seconds(), "bare-rows/s")
				b.ReportMetric(rows/uploading.Seconds(), "rows/s")
				b.ReportMetric(inserting.Seconds()/uploading.Seconds(), "rate/bare-inserts")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// timed returns how long fn takes.
func timed(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
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

// uploads returns a function that uploads batches, by their numbers, to a server on a database.
func uploads(b *testing.B, d *db.DB) func(first, last int) {
	s := servertest.Start(b, d)
	s.Apply(servertest.World)
	token := s.As(b, servertest.Ada).Post(acme, body{"name": "Unit", "default_branch": "main", "show_api_token": true}).Want(http.StatusCreated).String("api_token")
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
	send := func(i int) error {
		run := i / len(data)
		head := fmt.Sprintf(`{"format": "json", "run_env": {"ci": "buildkite", "key": "run-%d", "branch": "main", "commit_sha": "commit-%d", "job_id": "job-%d"}, "data": `, run, run, i)
		content := io.MultiReader(strings.NewReader(head), bytes.NewReader(data[i%len(data)]), strings.NewReader("}"))
		req, err := http.NewRequest("POST", s.URL+"/v1/uploads", content)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", `Token token="`+token+`"`)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}
	return func(first, last int) {
		var clients sync.WaitGroup
		for c := range benchClients {
			clients.Go(func() {
				for i := first + c; i < last; i += benchClients {
					if err := send(i); err != nil {
						b.Error(err)
					}
				}
			})
		}
		clients.Wait()
	}
}

// bareInserts returns a function that inserts batches of executions, by their numbers, into a database.
func bareInserts(b *testing.B, d *db.DB) func(first, last int) {
	results, err := d.Results(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, benchTests)
	for i := range ids {
		ids[i] = testresults.TestID("suite", "", fmt.Sprint(i))
	}
	return func(first, last int) {
		for batch := first; batch < last; batch++ {
			rows := make([]int, benchBatch)
			for i := range rows {
				rows[i] = batch*benchBatch + i
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
	}
}
