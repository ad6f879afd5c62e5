package interop

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

func TestSuites(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, ctx := s.as(t, ada), t.Context()
		created := call(client.TestSuites.Create(ctx, "acme", buildkite.TestSuiteCreate{Name: "Unit Tests", DefaultBranch: "main", TeamUUIDs: []string{everyoneID}})).ok(t)
		if created.Slug != "unit-tests" || created.ID == "" || created.GraphQLID == "" || created.URL == "" || created.WebURL == "" || created.DefaultBranch != "main" {
			t.Errorf("the suite is %+v", created)
		}
		if got := call(client.TestSuites.Get(ctx, "acme", "unit-tests")).ok(t); got != created {
			t.Errorf("get answers %+v, create %+v", got, created)
		}
		list := call(client.TestSuites.List(ctx, "acme", &buildkite.TestSuiteListOptions{ListOptions: buildkite.ListOptions{PerPage: 1}})).ok(t)
		if len(list) != 1 || list[0] != created {
			t.Errorf("the suites are %+v", list)
		}
		// The client sends the whole suite back.
		created.Name = "Units"
		if updated := call(client.TestSuites.Update(ctx, "acme", "unit-tests", created)).ok(t); updated != created {
			t.Errorf("update answers %+v, want %+v", updated, created)
		}
		call(client.TestSuites.Create(ctx, "acme", buildkite.TestSuiteCreate{Name: "Other", DefaultBranch: "main"})).refused(t, http.StatusUnprocessableEntity, "Validation Failed")
		call(client.TeamSuites.Update(ctx, "acme", everyoneID, created.ID, buildkite.UpdateTeamSuites{AccessLevel: []string{"read"}})).ok(t)
		if access := call(client.TeamSuites.List(ctx, "acme", everyoneID, nil)).ok(t); len(access) != 1 || access[0].ID != created.ID || access[0].CreatedAt == nil || len(access[0].AccessLevel) != 1 {
			t.Errorf("the team has access to %+v", access)
		}
		do(client.TeamSuites.Delete(ctx, "acme", everyoneID, created.ID)).ok(t)
		call(client.TeamSuites.Create(ctx, "acme", everyoneID, buildkite.CreateTeamSuites{SuiteID: created.ID, AccessLevel: []string{"read", "edit"}})).ok(t)
		call(client.TeamSuites.Get(ctx, "acme", everyoneID, created.ID)).ok(t)
		do(client.TestSuites.Delete(ctx, "acme", "unit-tests")).ok(t)
		call(client.TestSuites.Get(ctx, "acme", "unit-tests")).refused(t, http.StatusNotFound, "No suite found")
	})
}

func TestFlakyTests(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client, ctx := s.as(t, ada), t.Context()
		token := newSuite(t, s, "Unit")
		for i, result := range []string{"passed", "failed"} {
			upload := fmt.Sprintf(`{"run_env": {"key": "%d", "commit_sha": "abc"}, "data": [{"scope": "Cart", "name": "adds", "location": "cart.js", "result": "%s"}]}`, i, result)
			req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/uploads", strings.NewReader(upload))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
				t.Fatalf("status %d", resp.StatusCode)
			}
		}
		flaky := call(client.FlakyTests.List(ctx, "acme", "unit", nil)).ok(t)
		if len(flaky) != 1 || flaky[0].Name != "adds" || flaky[0].Scope != "Cart" || flaky[0].Location != "cart.js" || flaky[0].Instances != 1 || flaky[0].MostRecentInstanceAt == nil {
			t.Errorf("the flaky tests are %+v", flaky)
		}
	})
}
