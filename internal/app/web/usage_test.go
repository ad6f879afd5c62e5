package web_test

import (
	"testing"

	"stackyard/internal/app/server/servertest"
)

func TestUsagePage_ShowsAndChangesWhatIsKept(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		const page = "/organizations/acme/settings/usage"
		ada := signIn(t, s, "ada@acme.test")
		ada.get(page).want(200, "Artifacts", "0 bytes in 0 files", "Logs", "Last 30 days", "Keep events, in days")
		ada.post(page, "log_retention_days", "14", "log_bytes", "1000", "artifact_bytes", "2000").wantRedirect(page)
		ada.get(page).want(200, "0% of")
		ada.post(page, "event_retention_days", "1").want(422, "must be 0, which keeps events as long as the server does")
		signIn(t, s, "bo@acme.test").get(page).want(403, "Only administrators")
	})
}
