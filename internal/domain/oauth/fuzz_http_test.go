package oauth_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// FuzzEndpoints sends any body to the endpoints. Nobody but the client is ever to blame.
func FuzzEndpoints(f *testing.F) {
	for _, body := range []string{
		"", "=", "&&&", "client_id=tool&scope=read_user", "client_id=tool&client_id=tool", "grant_type=" + deviceCodeGrant + "&client_id=tool&device_code=x",
		"grant_type=refresh_token&client_id=cli&refresh_token=x&scope=%00", "grant_type=authorization_code&client_id=cli&code=x&redirect_uri=%ff&code_verifier=x",
		"client_id=tool&token=%F0%9F%98%80", "client_id=tool&scope=read_user&organization=%27&organization_uuid=%27", "scope=;", "%zz",
	} {
		for which := range 3 {
			f.Add(uint8(which), "", body)
			f.Add(uint8(which), "Basic dG9vbDo=", body)
		}
	}
	s := servertest.Start(f, dbtest.New(f, db.SQLite))
	s.Apply(servertest.World)
	s.Apply(applications)
	paths := []string{"/oauth/device_authorization", "/oauth/token", "/oauth/revoke"}
	f.Fuzz(func(t *testing.T, which uint8, authorization, body string) {
		r := httptest.NewRequest("POST", paths[int(which)%len(paths)], strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
