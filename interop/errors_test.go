package interop

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

const (
	unauthorized     = "Authentication required. Supply a valid API access token."
	validationFailed = "Validation Failed"
	rateLimited      = "You have exceeded your rate limit; try again later"
)

func TestErrors_CarryTheServersMessage(t *testing.T) {
	get := func(org, slug string) func(*testing.T, *buildkite.Client) error {
		return func(t *testing.T, client *buildkite.Client) error {
			_, _, err := client.Pipelines.Get(t.Context(), org, slug)
			return err
		}
	}
	create := func(p buildkite.CreatePipeline) func(*testing.T, *buildkite.Client) error {
		return func(t *testing.T, client *buildkite.Client) error {
			_, _, err := client.Pipelines.Create(t.Context(), "acme", p)
			return err
		}
	}
	page := func(options buildkite.ListOptions) func(*testing.T, *buildkite.Client) error {
		return func(t *testing.T, client *buildkite.Client) error {
			_, _, err := client.Clusters.List(t.Context(), "acme", &buildkite.ClustersListOptions{ListOptions: options})
			return err
		}
	}
	tests := []struct {
		name    string
		token   string
		call    func(*testing.T, *buildkite.Client) error
		status  int
		message string
	}{
		{"unknown token", "svcua_nobody", get("acme", "hello"), http.StatusUnauthorized, unauthorized},
		{"no token", "", get("acme", "hello"), http.StatusUnauthorized, unauthorized},
		{"expired token", expired, get("acme", "hello"), http.StatusUnauthorized, unauthorized},
		{"missing scope", reader, create(deploy()), http.StatusForbidden, "Forbidden: your access token needs the scope write_pipelines"},
		{"unknown organization", ada, get("nowhere", "hello"), http.StatusNotFound, "No organization found"},
		{"other organization", cy, get("acme", "hello"), http.StatusNotFound, "No organization found"},
		{"unknown pipeline", ada, get("acme", "gone"), http.StatusNotFound, "No pipeline found"},
		{"page out of range", ada, page(buildkite.ListOptions{Page: -1}), http.StatusBadRequest, "page must be an integer from 1 to 1000000"},
		{"page too large", ada, page(buildkite.ListOptions{PerPage: 101}), http.StatusBadRequest, "per_page must be an integer from 1 to 100"},
		{"broken rule", ada, create(buildkite.CreatePipeline{}), http.StatusUnprocessableEntity, validationFailed},
		{"nothing there", ada, func(t *testing.T, client *buildkite.Client) error {
			_, _, err := client.PackageRegistriesService.List(t.Context(), "acme")
			return err
		}, http.StatusNotFound, "Not Found: there is nothing at /v2/packages/organizations/acme/registries"},
	}
	each(t, func(t *testing.T, s *server) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				do(nil, test.call(t, s.as(t, test.token))).refused(t, test.status, test.message)
			})
		}
	})
}

// The client keeps the body, which names the invalid fields.
func TestErrors_NameEveryFieldThatBrokeARule(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		create := buildkite.CreatePipeline{ClusterID: unknownID, Configuration: "steps:\n  - comand: make\n"}
		_, _, err := s.as(t, ada).Pipelines.Create(t.Context(), "acme", create)
		refusal, ok := errors.AsType[*buildkite.ErrorResponse](err)
		if !ok {
			t.Fatalf("got error %v, want an ErrorResponse", err)
		}
		var body struct {
			Errors []struct{ Field, Code string }
		}
		if err := json.Unmarshal(refusal.RawBody, &body); err != nil {
			t.Fatal(err)
		}
		wrong := make(map[string]string)
		for _, e := range body.Errors {
			wrong[e.Field] = e.Code
		}
		for _, field := range []string{"name", "repository", "cluster_id", "configuration"} {
			if wrong[field] == "" {
				t.Errorf("nothing is said about %s in %s", field, refusal.RawBody)
			}
		}
	})
}

func TestErrors_RateLimitIsWaitedForOrReported(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		client := s.as(t, hurried)
		// The client retries reads until the rate limit allows them.
		for range 4 {
			limit := call(client.RateLimit.Get(t.Context(), "busy")).ok(t).Scopes.REST
			if limit.Limit != 2 || limit.Current < 1 || limit.Current > 2 || !limit.Enforced || limit.ResetAt.IsZero() {
				t.Errorf("the rate limit is %+v", limit)
			}
		}
		// It does not retry writes.
		var response *buildkite.Response
		var err error
		for range 100 {
			response, err = client.Pipelines.Archive(t.Context(), "busy", "none")
			if response == nil || response.StatusCode != http.StatusNotFound {
				break
			}
		}
		do(response, err).refused(t, http.StatusTooManyRequests, rateLimited)
	})
}
