package visibility_test

import (
	"encoding/json"
	"testing"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/report"
	"stackyard/internal/domain/notifications/report/reporttest"
	"stackyard/internal/domain/notifications/visibility"
	"stackyard/internal/rules/flow"
)

func TestURL_IsThatOfTheSite(t *testing.T) {
	for _, c := range [][3]string{
		{"", "datadoghq.com", "https://api.datadoghq.com/api/v2/ci/pipeline"},
		{"", "app.datadoghq.eu", "https://api.datadoghq.eu/api/v2/ci/pipeline"},
		{"", "us3.datadoghq.com", "https://api.us3.datadoghq.com/api/v2/ci/pipeline"},
		{"http://proxy.example.test/", "datadoghq.com", "http://proxy.example.test/api/v2/ci/pipeline"},
	} {
		if got := visibility.URL(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %s", c, got)
		}
	}
}

var settings = notifications.PipelineVisibilitySettings{APIKey: "key", Tags: []string{"team:core", "env:prod"}}

// event returns the resource of an event after a check of what is around it.
func event(t *testing.T, b *report.Build, j *builds.Job) map[string]any {
	t.Helper()
	body, err := visibility.Body(settings, b, j)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Data struct {
			Type       string
			Attributes struct {
				Env      string
				Provider string `json:"provider_name"`
				Resource map[string]any
			}
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Data.Type != "cipipeline_resource_request" || sent.Data.Attributes.Env != "prod" || sent.Data.Attributes.Provider != "stackyard" {
		t.Errorf("got %s", body)
	}
	return sent.Data.Attributes.Resource
}

func wantFields(t *testing.T, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if got, err := json.Marshal(got[key]); err != nil || string(got) != value {
			t.Errorf("%s is %s, want %v", key, got, value)
		}
	}
}

func TestBody_DescribesABuild(t *testing.T) {
	wantFields(t, event(t, reporttest.Failed(), nil), map[string]any{
		"level":         `"pipeline"`,
		"unique_id":     `"` + reporttest.BuildID + `"`,
		"name":          `"Web"`,
		"url":           `"https://ci.example.test/acme/web/builds/7"`,
		"start":         `"2026-01-02T03:04:10Z"`,
		"end":           `"2026-01-02T03:05:05Z"`,
		"status":        `"error"`,
		"queue_time":    `5000`,
		"partial_retry": `false`,
		"is_manual":     `false`,
		"tags":          `["team:core","env:prod"]`,
		"git": `{"author_email":"bob@acme.test","author_name":"Bob","branch":"main","default_branch":"main","message":"Fix \u003cit\u003e",` +
			`"repository_url":"https://git.example.test/acme/web.git","sha":"7f263865994b76066c4612fd1965215e7dcb4cd2"}`,
	})
}

func TestBody_DescribesAJob(t *testing.T) {
	b := reporttest.Failed()
	wantFields(t, event(t, b, b.Jobs[2]), map[string]any{
		"level":              `"job"`,
		"id":                 `"` + reporttest.TestJob + `"`,
		"pipeline_unique_id": `"` + reporttest.BuildID + `"`,
		"pipeline_name":      `"Web"`,
		"name":               `"Test"`,
		"url":                `"https://ci.example.test/acme/web/builds/7#` + reporttest.TestJob + `"`,
		"start":              `"2026-01-02T03:04:45Z"`,
		"end":                `"2026-01-02T03:05:05Z"`,
		"status":             `"error"`,
		"queue_time":         `10000`,
		"error":              `{"domain":"user","message":"The job failed with exit status 2","type":"failed"}`,
		"node":               `{"name":"agent-1"}`,
	})
	wantFields(t, event(t, b, b.Jobs[1]), map[string]any{"error": `{"domain":"provider","message":"The job failed with exit status -1","type":"agent_lost"}`})
	wantFields(t, event(t, b, b.Jobs[0]), map[string]any{"status": `"success"`, "error": `null`})
	if _, err := visibility.Body(settings, b, b.Jobs[3]); err == nil {
		t.Error("a job that never ran is described")
	}
}

func TestBody_LeavesOutWhatTheVendorWouldRefuse(t *testing.T) {
	b := reporttest.Failed()
	b.Commit = "HEAD"
	if got := event(t, b, nil); got["git"] != nil {
		t.Errorf("got %v", got["git"])
	}
	b = reporttest.Failed()
	b.Tag = "v1"
	if git := event(t, b, nil)["git"].(map[string]any); git["tag"] != "v1" || git["branch"] != nil {
		t.Errorf("got %v", git)
	}
}

func TestBody_HasTheVendorsStatuses(t *testing.T) {
	for state, want := range map[flow.BuildState]string{
		flow.BuildPassed: "success", flow.BuildFailed: "error", flow.BuildCanceled: "canceled", flow.BuildSkipped: "skipped", flow.BuildNotRun: "skipped",
	} {
		b := reporttest.Failed()
		b.State = state
		if got := event(t, b, nil); got["status"] != want {
			t.Errorf("%s: %v", state, got["status"])
		}
	}
}
