package interop

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/buildkite/go-buildkite/v4"
)

// installed returns a folder with the packages of the folder collector, installed from the npm registry once for all
// tests.
var installed = sync.OnceValues(func() (folder string, err error) {
	folder = filepath.Join(filepath.Dir(binary), "collector")
	if err := os.CopyFS(folder, os.DirFS("collector")); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--fetch-timeout=20000")
	npm.Dir = folder
	if output, err := npm.CombinedOutput(); err != nil {
		return "", &installError{err, string(output)}
	}
	return folder, nil
})

// installTimeout bounds what the npm registry may take.
const installTimeout = 4 * time.Minute

type installError struct {
	err    error
	output string
}

func (e *installError) Error() string { return "npm ci: " + e.err.Error() + "\n" + e.output }

// collect runs the tests of the folder collector, has their results uploaded to a server, and returns what was printed.
func collect(t *testing.T, s *server, token string, env ...string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed; the collector comes from its registry")
	}
	folder, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	mocha := exec.Command("node", "node_modules/mocha/bin/mocha.js", "--reporter", "mocha-multi-reporters", "--reporter-options", "configFile=reporters.json", "cart.js")
	mocha.Dir = folder
	mocha.Env = append(append(os.Environ(), "BUILDKITE_ANALYTICS_TOKEN="+token, "BUILDKITE_ANALYTICS_BASE_URL="+s.url+"/v1/uploads", "BUILDKITE_ANALYTICS_DEBUG_ENABLED=true"), env...)
	output, err := mocha.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 { // as many tests failed
		t.Fatalf("mocha: %v\n%s", err, output)
	}
	return string(output)
}

// newSuite creates a suite and returns its API token.
func newSuite(t *testing.T, s *server, name string) string {
	t.Helper()
	client := s.as(t, ada)
	call(client.TestSuites.Create(t.Context(), "acme", buildkite.TestSuiteCreate{Name: name, DefaultBranch: "main", TeamUUIDs: []string{everyoneID}})).ok(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v2/analytics/organizations/acme/suites?show_api_token=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+ada)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `"api_token":"`)
	token, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no token in %s", text)
	}
	return token
}

func TestCollector_UploadsItsResults(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, ctx := s.as(t, ada), t.Context()
		token := newSuite(t, s, "Unit")
		build := call(client.Builds.Create(ctx, "acme", "hello", buildkite.CreateBuild{Commit: "HEAD", Branch: "main", Message: "Test"})).ok(t)
		output := collect(t, s, token, "BUILDKITE_BUILD_ID="+build.ID, "BUILDKITE_BRANCH=main", "BUILDKITE_COMMIT=abc", "BUILDKITE_BUILD_NUMBER=1", "BUILDKITE_MESSAGE=Test")
		if !strings.Contains(output, "Test Engine success response") {
			t.Fatalf("the collector did not report success:\n%s", output)
		}

		runs := call(client.TestRuns.List(ctx, "acme", "unit", nil)).ok(t)
		if len(runs) != 1 || runs[0].BuildID != build.ID || runs[0].Branch != "main" || runs[0].CommitSHA != "abc" || runs[0].Result != "failed" || runs[0].State != "finished" || runs[0].CreatedAt == nil {
			t.Fatalf("the runs are %+v", runs)
		}
		if run := call(client.TestRuns.Get(ctx, "acme", "unit", runs[0].ID)).ok(t); run.WebURL != runs[0].WebURL {
			t.Errorf("the run is %+v", run)
		}
		failed := call(client.TestRuns.GetFailedExecutions(ctx, "acme", "unit", runs[0].ID, &buildkite.FailedExecutionsOptions{IncludeFailureExpanded: true})).ok(t)
		if len(failed) != 1 || failed[0].TestName != "Cart removes an item" || !strings.Contains(failed[0].FailureReason, "the cart still has the item") ||
			len(failed[0].FailureExpanded) != 1 || len(failed[0].FailureExpanded[0].Backtrace) == 0 || failed[0].RunID != runs[0].ID {
			t.Errorf("the failed executions are %+v", failed)
		}
		test := call(client.Tests.Get(ctx, "acme", "unit", failed[0].TestID)).ok(t)
		if test.Scope != "Cart" || test.Name != "removes an item" || !strings.HasSuffix(test.Location, "cart.js") {
			t.Errorf("the test is %+v", test)
		}
		tests := call(client.BuildTests.List(ctx, "acme", build.ID, &buildkite.BuildTestsListOptions{Result: "failed", Include: "latest_fail"})).ok(t)
		if len(tests) != 1 || tests[0].Name != "removes an item" || tests[0].ExecutionsCountByResult.Failed != 1 || tests[0].LatestFail == nil || tests[0].LatestFail.FailureReason == "" {
			t.Errorf("the tests of the build are %+v", tests)
		}
		if all := call(client.BuildTests.List(ctx, "acme", build.ID, nil)).ok(t); len(all) != 4 {
			t.Errorf("the build has %d tests", len(all))
		}
	})
}

func TestCollector_ReportsARefusedToken(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		output := collect(t, s, "svcst_unknown")
		if !strings.Contains(output, "401 Unauthorized") || !strings.Contains(output, "API token of a suite") {
			t.Errorf("the collector prints %s", output)
		}
	})
}
