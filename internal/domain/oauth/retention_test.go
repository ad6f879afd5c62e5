package oauth_test

import (
	"testing"
	"time"
)

func TestRemoveOld_LeavesWhatIsNeededAndNothingElse(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		sweep := func(after time.Duration) {
			t.Helper()
			w.Clock.Advance(after)
			if err := w.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := func(table string, want int) {
			t.Helper()
			var got int
			w.QueryRow(`SELECT COUNT(*) FROM `+table, &got)
			if got != want {
				t.Errorf("%d rows in %s, want %d", got, table, want)
			}
		}
		waiting, unused := w.start("tool"), w.start("tool")
		w.approve(ada, unused, w.OrgID) // never polled
		w.authorize("tool", local)      // never exchanged
		tool := w.start("tool")
		w.approve(ada, tool, w.OrgID)
		lasting := w.As(t, w.poll("tool", tool).Want(200).String("access_token"))
		_, refresh := w.signIn()
		w.pages.DeviceRequest(t.Context(), ada, "BBBB-BBBB")
		want("oauth_grants", 4)
		want("tries", 3) // two of wrong codes, one of requests

		sweep(15 * time.Minute)
		wantError(t, "an expired code is still known", w.poll("tool", waiting), 400, "expired_token")
		want("oauth_device_requests", 4)
		want("tries", 0)

		sweep(time.Hour)
		wantError(t, "and forgotten later", w.poll("tool", waiting), 400, "invalid_grant")
		want("oauth_device_requests", 0)
		want("oauth_authorization_codes", 0)
		want("oauth_grants", 2)
		want("access_tokens WHERE grant_id IS NOT NULL", 1) // robot's has expired
		want("oauth_refresh_tokens", 1)

		w.refresh(refresh).Want(200)
		want("oauth_refresh_tokens", 2)
		sweep(31 * 24 * time.Hour)
		want("oauth_refresh_tokens", 1) // the used one is forgotten
		want("oauth_grants", 2)
		sweep(181 * 24 * time.Hour)
		want("oauth_refresh_tokens", 0)
		want("oauth_grants", 1)
		lasting.Get("/v2/user").Want(200)
	})
}
