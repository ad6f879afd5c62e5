package settings_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/app/server/servertest"
)

const exportPath = path + "/build-export"

func TestBuildExport_KeepsTheLocationWithoutItsPrefix(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		store := startObjectStore(t, "builds")
		ada := s.As(t, servertest.Ada)
		for location, want := range map[string]string{
			"builds":                          "builds",
			" builds/ ":                       "builds",
			"s3://builds":                     "builds",
			"s3://builds/2026/all/":           "builds/2026/all",
			"arn:aws:s3:::builds":             "builds",
			"https://builds.s3.amazonaws.com": "builds",
			store + "/builds/x":               "builds/x",
		} {
			ada.Put(exportPath, map[string]any{"location": location, "strategy_id": "s3"}).Want(http.StatusOK)
			got := ada.Get(path).Want(http.StatusOK)
			if got.String("build_exports.location") != want || got.String("build_exports.strategy_id") != "s3" || !got.At("build_exports.enabled").(bool) {
				t.Errorf("%q: %s", location, got.Body)
			}
		}
		for range 2 {
			got := ada.Delete(exportPath).Want(http.StatusOK)
			if got.At("build_exports.location") != nil || got.At("build_exports.strategy_id") != nil || got.At("build_exports.enabled").(bool) {
				t.Errorf("after clearing: %s", got.Body)
			}
		}
	})
}

func TestBuildExport_RefusesWhatCannotBeADestination(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		startObjectStore(t, "builds")
		ada := s.As(t, servertest.Ada)
		before := ada.Put(exportPath, `{"location": "builds", "strategy_id": "s3"}`).Want(http.StatusOK)
		for _, c := range []struct{ body, field, text string }{
			{`{"strategy_id": "s3"}`, "location", "is required"},
			{`{"location": "", "strategy_id": "s3"}`, "location", "is required"},
			{`{"location": " \t", "strategy_id": "s3"}`, "location", "is required"},
			{`{"location": null, "strategy_id": "s3"}`, "location", "is required"},
			{`{"location": 1, "strategy_id": "s3"}`, "location", "must be a string, not a number"},
			{`{"location": "Not A Bucket", "strategy_id": "s3"}`, "location", "is not a bucket name"},
			{`{"location": "gs://builds", "strategy_id": "s3"}`, "location", "give it with the strategy gcs"},
			{`{"location": "builds"}`, "strategy_id", "is required"},
			{`{"location": "builds", "strategy_id": null}`, "strategy_id", "is required"},
			{`{"location": "builds", "strategy_id": ["s3"]}`, "strategy_id", "must be a string, not an array"},
			{`{"location": "builds", "strategy_id": "azure"}`, "strategy_id", "must be one of s3, gcs"},
			{`{"location": "missing", "strategy_id": "s3"}`, "location", `has no bucket "missing"; create it, or correct its name`},
			{`{"location": "builds", "strategy_id": "gcs"}`, "location", "there are no credentials for Google Cloud Storage"},
		} {
			ada.Put(exportPath, c.body).WantFieldError(c.field, c.text)
		}
		ada.Put(exportPath, `{}`).WantFieldError("location", "is required").WantFieldError("strategy_id", "is required")
		ada.Put(exportPath, nil).WantFieldError("location", "is required")
		if after := ada.Get(path); string(after.Body) != string(before.Body) {
			t.Errorf("refused destinations left %s", after.Body)
		}
	})
}

func TestBuildExport_RefusesABucketThatCannotBeReached(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		startObjectStore(t, "builds")
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		t.Setenv("AWS_ENDPOINT_URL_S3", gone.URL)
		s.As(t, servertest.Ada).Put(exportPath, `{"location": "builds", "strategy_id": "s3"}`).
			WantFieldError("location", "could not be validated: cannot write to s3://builds: cannot reach "+gone.URL)
	})
}

func TestBuildExport_NeedsThePlan(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		startObjectStore(t, "builds")
		ada := s.As(t, servertest.Ada)
		ada.Put(exportPath, `{"location": "builds", "strategy_id": "s3"}`).Want(http.StatusOK)
		s.Apply(`
organizations:
  - slug: acme
    name: Acme Inc
    features: {build_exports: false}
`)
		const message = "Forbidden: the plan of this organization does not include build exports"
		ada.Put(exportPath, `{"location": "builds", "strategy_id": "s3"}`).WantMessage(http.StatusForbidden, message)
		ada.Put(exportPath, `{"location": 1}`).WantMessage(http.StatusForbidden, message)
		ada.Delete(exportPath).WantMessage(http.StatusForbidden, message)
		got := ada.Get(path).Want(http.StatusOK)
		if got.At("build_exports.available").(bool) || got.At("build_exports.enabled").(bool) || got.String("build_exports.location") != "builds" {
			t.Errorf("without the plan: %s", got.Body)
		}
	})
}

// startObjectStore starts an S3 server, points the test's environment to it, and returns its URL.
func startObjectStore(t *testing.T, bucket string) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3":   server.URL,
		"AWS_REGION":            "us-east-1",
		"AWS_ACCESS_KEY_ID":     "key",
		"AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN":     "",
		"GCS_ACCESS_KEY_ID":     "",
		"GCS_SECRET_ACCESS_KEY": "",
		"GCS_ENDPOINT_URL":      "",
	} {
		t.Setenv(name, value)
	}
	return server.URL
}
