package server_test

import (
	"net/http"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const retentionPath = "/v2/organizations/acme/retention"

func TestRetention_IsChangedOverRESTAndInFiles(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Patch(retentionPath, fields{"artifact_retention_days": 30, "artifact_bytes": 1 << 40, "at_artifact_limit": "remove_oldest"}).Want(http.StatusOK)
		s.Apply("organizations: [{slug: acme, limits: {build_retention_days: 90, audit_retention_days: 365}}]")
		got := ada.Get(retentionPath).Want(http.StatusOK)
		for field, want := range map[string]any{
			"build_retention_days": 90.0, "artifact_retention_days": 30.0, "test_retention_days": 90.0, "audit_retention_days": 365.0,
			"artifact_bytes": float64(1 << 40), "at_artifact_limit": "remove_oldest",
		} {
			if got.At(field) != want {
				t.Errorf("%s is %v, want %v", field, got.At(field), want)
			}
		}
		for field, bad := range map[string]any{
			"build_retention_days": -1, "artifact_retention_days": 36501, "audit_retention_days": 1, "artifact_bytes": -1, "at_artifact_limit": "panic",
		} {
			ada.Patch(retentionPath, fields{field: bad}).Want(http.StatusUnprocessableEntity)
		}
		s.As(t, servertest.Bo).Get(retentionPath).Want(http.StatusForbidden)
	})
}
