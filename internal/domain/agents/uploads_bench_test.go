package agents_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

var uploadRate = flag.Int("upload-rate", 2000, "test executions that BenchmarkLifecycleBesideUploads uploads in a second; a million a day are 12")

// BenchmarkLifecycleBesideUploads runs the jobs of BenchmarkLifecycle with and without uploads of test results beside
// them, alternately.
func BenchmarkLifecycleBesideUploads(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) { benchmarkBesideUploads(b, engine) })
	}
}

const (
	uploadRounds = 3
	uploadSize   = 1000 // executions
)

func benchmarkBesideUploads(b *testing.B, engine db.Engine) {
	s := serve(b, onDisk(b, engine), func(time.Duration) time.Duration { return 100 * time.Millisecond })
	ada := s.As(b, servertest.Ada)
	ada.Patch(servertest.HelloPath, fields{"configuration": fmt.Sprintf("steps: [{command: work, parallelism: %d}]", lifecycleJobs)}).Want(200)
	fleet := newMembers(b, s.URL, lifecycleAgents)
	suite := ada.Post("/v2/analytics/organizations/acme/suites", fields{"name": "Unit", "default_branch": "main", "show_api_token": true}).Want(201)
	uploader := uploader{url: s.URL + "/v1/uploads", token: suite.String("api_token")}
	var with, without time.Duration
	for b.Loop() {
		for range uploadRounds {
			without += timeSecondBuild(b, s, fleet)
			stop := uploader.start(b)
			with += timeSecondBuild(b, s, fleet)
			stop()
		}
	}
	jobs := float64(b.N * uploadRounds * lifecycleJobs)
	b.ReportMetric(jobs/with.Seconds(), "jobs/s")
	b.ReportMetric(jobs/without.Seconds(), "jobs/s-without")
	b.ReportMetric(without.Seconds()/with.Seconds(), "rate/without")
	b.ReportMetric(float64(uploader.executions)/uploader.took.Seconds(), "executions/s")
	b.ReportMetric(0, "ns/op")
}

// An uploader uploads test results at a rate.
type uploader struct {
	url, token string
	uploads    int
	executions int
	took       time.Duration
}

// start uploads until the function that it returns is called.
func (u *uploader) start(b *testing.B) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		began := time.Now()
		defer func() { u.took += time.Since(began) }()
		tick := time.NewTicker(time.Duration(float64(time.Second) * uploadSize / float64(*uploadRate)))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := u.upload(); err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// upload uploads the results of one job in a run of its own.
func (u *uploader) upload() error {
	var content bytes.Buffer
	fmt.Fprintf(&content, `{"format": "json", "run_env": {"ci": "buildkite", "key": "run-%d", "branch": "main", "commit_sha": "commit-%d"}, "data": [`, u.uploads, u.uploads)
	for i := range uploadSize {
		if i > 0 {
			content.WriteByte(',')
		}
		fmt.Fprintf(&content, `{"scope": "Class%d", "name": "does what test %d says", "location": "./spec/class%d_spec.rb:%d", "result": "passed", "history": {"duration": 0.1}}`, i/10, i, i/10, i)
	}
	content.WriteString("]}")
	req, err := http.NewRequest("POST", u.url, &content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", `Token token="`+u.token+`"`)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	u.uploads++
	u.executions += uploadSize
	return nil
}
