package settings_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

const path = "/v2/organizations/acme/pipeline-settings"

func TestGet_ShowsDefaults(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		off := map[string]any{"enabled": false, "enabled_at": nil, "enabled_by": nil}
		want := map[string]any{
			"url":                             s.URL + path,
			"default_branch":                  "main",
			"default_cluster_id":              nil,
			"default_timeout_in_minutes":      nil,
			"maximum_timeout_in_minutes":      nil,
			"scheduled_job_expiry_in_minutes": nil,
			"hosted_agents_terminal_access":   off,
			"public_pipeline_creation":        off,
			"advanced_queue_metrics":          map[string]any{"enabled": false, "enabled_at": nil, "enabled_by": nil, "disable_supported": false},
			"build_exports": map[string]any{
				"available": true, "enabled": false, "location": nil, "strategy_id": nil,
				"supported_strategies": []any{"s3", "gcs"},
			},
		}
		got := s.As(t, servertest.Ada).Get(path).Want(http.StatusOK)
		if !reflect.DeepEqual(got.At(""), want) {
			t.Errorf("got %s", got.Body)
		}
	})
}

func TestPatch_ChangesOnlyWhatIsSent(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		want := ada.Get(path).Want(http.StatusOK).At("").(map[string]any)
		for _, step := range []struct {
			field      string
			sent, then any
		}{
			{"default_branch", " trunk ", "trunk"},
			{"default_cluster_id", servertest.AcmeClusterID, servertest.AcmeClusterID},
			{"default_timeout_in_minutes", 30, 30.0},
			{"maximum_timeout_in_minutes", 60, 60.0},
			{"scheduled_job_expiry_in_minutes", 1440, 1440.0},
			{"default_branch", "", "main"},
			{"default_branch", "trunk", "trunk"},
			{"default_branch", nil, "main"},
			{"default_cluster_id", nil, nil},
			{"default_timeout_in_minutes", nil, nil},
			{"maximum_timeout_in_minutes", nil, nil},
			{"scheduled_job_expiry_in_minutes", nil, nil},
		} {
			want[step.field] = step.then
			response := ada.Patch(path, map[string]any{step.field: step.sent}).Want(http.StatusOK)
			if got := response.At(""); !reflect.DeepEqual(got, any(want)) {
				t.Fatalf("after %s = %v: %s", step.field, step.sent, response.Body)
			}
			if later := ada.Get(path).Want(http.StatusOK); !reflect.DeepEqual(later.At(""), any(want)) {
				t.Fatalf("read after %s = %v: %s", step.field, step.sent, later.Body)
			}
		}
		if got := ada.Patch(path, `{}`).Want(http.StatusOK); !reflect.DeepEqual(got.At(""), any(want)) {
			t.Errorf("an empty change gives %s", got.Body)
		}
		s.As(t, servertest.Cy).Get("/v2/organizations/rival/pipeline-settings").Want(http.StatusOK)
	})
}

func TestPatch_RefusesWrongValues(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		before := ada.Get(path).Want(http.StatusOK)
		for _, c := range []struct{ body, field, text string }{
			{`{"default_branch": 5}`, "default_branch", "must be a string, not a number"},
			{`{"default_branch": "a..b"}`, "default_branch", "must be the name of a git branch"},
			{`{"default_cluster_id": "nope"}`, "default_cluster_id", "must be a UUID, or null for none"},
			{`{"default_cluster_id": ""}`, "default_cluster_id", "must be a UUID, or null for none"},
			{`{"default_cluster_id": 7}`, "default_cluster_id", "must be a string, not a number"},
			{`{"default_cluster_id": "` + servertest.RivalClusterID + `"}`, "default_cluster_id", "must be the id of a cluster of this organization"},
			{`{"default_cluster_id": "0190c0de-0000-7000-8000-00000000ffff"}`, "default_cluster_id", "must be the id of a cluster of this organization"},
			{`{"default_timeout_in_minutes": 0}`, "default_timeout_in_minutes", "must be an integer from 1 to 525600"},
			{`{"default_timeout_in_minutes": "10"}`, "default_timeout_in_minutes", "must be an integer, not a string"},
			{`{"maximum_timeout_in_minutes": 1.5}`, "maximum_timeout_in_minutes", "must be an integer, not a number"},
			{`{"maximum_timeout_in_minutes": 99999999999999999999}`, "maximum_timeout_in_minutes", "must be an integer, not a number"},
			{`{"scheduled_job_expiry_in_minutes": -1}`, "scheduled_job_expiry_in_minutes", "must be an integer from 1 to 525600"},
			{`{"scheduled_job_expiry_in_minutes": true}`, "scheduled_job_expiry_in_minutes", "must be an integer, not a boolean"},
			{`{"default_timeout_in_minutes": 2, "maximum_timeout_in_minutes": 1}`, "default_timeout_in_minutes", "must not exceed maximum_timeout_in_minutes, which is 1"},
		} {
			ada.Patch(path, c.body).WantFieldError(c.field, c.text)
		}
		ada.Patch(path, `[]`).Want(http.StatusBadRequest)
		if after := ada.Get(path).Want(http.StatusOK); string(after.Body) != string(before.Body) {
			t.Errorf("refused changes left %s", after.Body)
		}
	})
}

func TestSwitches_RememberWhoEnabledThemAndWhen(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`
organizations:
  - slug: acme
    name: Acme Inc
    members:
      - email: di@acme.test
        name: Di
        role: admin
        access_tokens:
          - {description: everything, token: svcua_di, scopes: ["*"]}
`)
		ada, di := s.As(t, servertest.Ada), s.As(t, "svcua_di")
		for segment, field := range map[string]string{
			"/hosted-agents-ssh":      "hosted_agents_terminal_access",
			"/public-pipelines":       "public_pipeline_creation",
			"/advanced-queue-metrics": "advanced_queue_metrics",
		} {
			first := s.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z")
			for _, c := range []*servertest.Client{ada, di, ada} {
				c.Put(path+segment, nil).Want(http.StatusOK)
				got := ada.Get(path).Want(http.StatusOK)
				if !got.At(field+".enabled").(bool) || got.String(field+".enabled_at") != first ||
					got.String(field+".enabled_by.id") != servertest.AdaID || got.String(field+".enabled_by.name") != "Ada" {
					t.Fatalf("%s: %s", field, got.Body)
				}
				s.Clock.Advance(time.Minute)
			}
		}
	})
}

func TestSwitches_CanBeDisabledButForQueueMetrics(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for segment, field := range map[string]string{
			"/hosted-agents-ssh": "hosted_agents_terminal_access",
			"/public-pipelines":  "public_pipeline_creation",
		} {
			ada.Put(path+segment, nil).Want(http.StatusOK)
			for range 2 {
				got := ada.Delete(path + segment).Want(http.StatusOK)
				if got.At(field+".enabled").(bool) || got.At(field+".enabled_at") != nil || got.At(field+".enabled_by") != nil {
					t.Errorf("%s after disabling: %s", field, got.Body)
				}
			}
		}
		ada.Put(path+"/advanced-queue-metrics", nil).Want(http.StatusOK)
		ada.Delete(path + "/advanced-queue-metrics").Want(http.StatusMethodNotAllowed)
		if got := ada.Get(path); !got.At("advanced_queue_metrics.enabled").(bool) {
			t.Errorf("after trying to disable: %s", got.Body)
		}
	})
}

func TestEveryRoute_IsForAdministratorsOfTheOrganization(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, r := range []struct{ method, path string }{
			{"GET", path}, {"PATCH", path},
			{"PUT", path + "/hosted-agents-ssh"}, {"DELETE", path + "/hosted-agents-ssh"},
			{"PUT", path + "/public-pipelines"}, {"DELETE", path + "/public-pipelines"},
			{"PUT", path + "/advanced-queue-metrics"},
			{"PUT", path + "/build-export"}, {"DELETE", path + "/build-export"},
		} {
			s.As(t, "").Do(r.method, r.path, nil).Want(http.StatusUnauthorized)
			s.As(t, servertest.Cy).Do(r.method, r.path, nil).WantMessage(http.StatusNotFound, "No organization found")
			s.As(t, servertest.Bo).Do(r.method, r.path, nil).
				WantMessage(http.StatusForbidden, "Forbidden: this needs an organization administrator (permission change_organization)")
		}
	})
}
