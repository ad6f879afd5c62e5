package server_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
)

const retentionPath = "/v2/organizations/acme/retention"

func TestRetention_IsChangedOverRESTAndInFiles(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Patch(retentionPath, fields{"artifact_retention_days": 30, "artifact_bytes": 1 << 40, "at_artifact_limit": "remove_oldest"}).Want(http.StatusOK)
		ada.Patch(retentionPath, fields{"log_bytes": 1 << 30, "event_retention_days": 7}).Want(http.StatusOK)
		s.Apply("organizations: [{slug: acme, limits: {build_retention_days: 90, audit_retention_days: 365, log_retention_days: 14, delivery_retention_days: 3, log_bytes: 5000000000}}]")
		got := ada.Get(retentionPath).Want(http.StatusOK)
		for field, want := range map[string]any{
			"build_retention_days": 90.0, "artifact_retention_days": 30.0, "test_retention_days": 90.0, "audit_retention_days": 365.0,
			"log_retention_days": 14.0, "log_bytes": 5000000000.0, "event_retention_days": 7.0, "delivery_retention_days": 3.0,
			"artifact_bytes": float64(1 << 40), "at_artifact_limit": "remove_oldest",
		} {
			if got.At(field) != want {
				t.Errorf("%s is %v, want %v", field, got.At(field), want)
			}
		}
		for field, bad := range map[string]any{
			"build_retention_days": -1, "artifact_retention_days": 36501, "audit_retention_days": 1, "artifact_bytes": -1, "log_retention_days": -1, "event_retention_days": 1, "delivery_retention_days": 36501, "log_bytes": -1, "at_artifact_limit": "panic",
		} {
			ada.Patch(retentionPath, fields{field: bad}).Want(http.StatusUnprocessableEntity)
		}
		s.As(t, servertest.Bo).Get(retentionPath).Want(http.StatusForbidden)
	})
}

// What a day used stays when its builds are removed.
func TestUsage_CountsBuildsAndMinutesOfDays(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := s.Scenario(t)
		ada := s.As(t, servertest.Ada)
		now := s.Clock.Now().UTC()
		tomorrow := now.Truncate(24 * time.Hour).Add(34 * time.Hour) // in the morning, so that all of it is on one day
		s.Clock.Advance(tomorrow.Sub(now))
		for range 2 {
			_, id := w.CreateBuild()
			job := w.StartJob(id)
			s.Clock.Advance(2 * time.Minute)
			job.Finish("0")
		}
		want := fields{"date": tomorrow.Format(time.DateOnly), "builds": 2.0, "jobs": 2.0, "job_minutes": 4.0}
		check := func() {
			t.Helper()
			if err := s.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got struct{ Days []fields }
			ada.Get("/v2/organizations/acme/usage").Want(http.StatusOK).JSON(&got)
			if len(got.Days) != 1 || !maps.Equal(got.Days[0], want) {
				t.Errorf("days are %v, want only %v", got.Days, want)
			}
		}
		s.Clock.Advance(time.Hour)
		check()
		ada.Patch(retentionPath, fields{"build_retention_days": 1}).Want(http.StatusOK)
		s.Clock.Advance(26 * time.Hour)
		check()
		check()
	})
}
