package oauth_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/identity"
)

const deviceCodeGrant = "urn:ietf:params:oauth:grant-type:device_code"

func TestDeviceAuthorization_AnswersWithEveryField(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		r := w.post("/oauth/device_authorization", "client_id", "tool", "scope", "read_builds").Want(http.StatusOK)
		code := r.String("user_code")
		if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(code) {
			t.Errorf("the user code is %s", code)
		}
		if r.String("verification_uri") != w.URL+"/oauth/device" || r.String("verification_uri_complete") != w.URL+"/oauth/device/"+code {
			t.Errorf("the addresses are %s", r.Body)
		}
		if r.At("expires_in") != 600.0 || r.At("interval") != 5.0 || r.String("device_code") == "" {
			t.Errorf("got %s", r.Body)
		}
		if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("headers %v", r.Header)
		}
	})
}

func TestDeviceAuthorization_KeepsNoCodeInTheDatabase(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		var row string
		w.QueryRow(`SELECT id || ' ' || user_code_hash FROM oauth_device_requests`, &row)
		if strings.Contains(row, d.deviceCode) || strings.Contains(row, d.userCode) || strings.Contains(row, strings.ReplaceAll(d.userCode, "-", "")) {
			t.Errorf("the row holds %s", row)
		}
	})
}

func TestDeviceAuthorization_ShowsThePageWhoAsks(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		r := w.As(t, "").With("User-Agent", "tool/1.0\t(Linux) \u00e9\u202e"+strings.Repeat("x", 500)).With("X-Forwarded-For", "203.0.113.9").
			PostForm("/oauth/device_authorization", form("client_id", "narrow", "scope", " read_user   read_builds read_user ", "organization", "rival")).Want(200)
		got, err := w.pages.DeviceRequest(t.Context(), ada, r.String("user_code"))
		if err != nil {
			t.Fatal(err)
		}
		if got.Application.Name != "Narrow" || got.Owner != "Acme Inc" || fmt.Sprint(got.Scopes) != "[read_user read_builds]" || got.Address != "203.0.113.9" || got.Preselected != w.rival {
			t.Errorf("got %+v", got)
		}
		if !strings.HasPrefix(got.UserAgent, "tool/1.0 (Linux)") || len([]rune(got.UserAgent)) > 120 || strings.ContainsAny(got.UserAgent, "\t\u202e") {
			t.Errorf("the user agent is %q", got.UserAgent)
		}
	})
}

func TestDeviceAuthorization_TakesOrganizationsAsHints(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		for _, c := range []struct{ slug, uuid, want string }{
			{"rival", "", w.rival},
			{"rival", w.OrgID, w.OrgID},
			{"rival", "0190c0de-0000-7000-8000-00000000ffff", w.rival},
			{"rival", "nonsense", w.rival},
			{"nobody", "", ""},
			{"A B/é", "", ""},
		} {
			d := w.start("tool", "organization", c.slug, "organization_uuid", c.uuid)
			got, err := w.pages.DeviceRequest(t.Context(), ada, d.userCode)
			if err != nil || got.Preselected != c.want {
				t.Errorf("%+v: %q, %v", c, got.Preselected, err)
			}
		}
		d := w.start("tool", "organization", "rival")
		if got, err := w.pages.DeviceRequest(t.Context(), bo, d.userCode); err != nil || got.Preselected != w.OrgID {
			t.Errorf("a hint at what bo may not authorize: %q, %v", got.Preselected, err)
		}
	})
}

func TestDeviceAuthorization_Refuses(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		for name, c := range map[string]struct {
			pairs  []string
			status int
			code   string
		}{
			"no client":                 {[]string{"scope", "read_builds"}, 401, "invalid_client"},
			"an unknown client":         {[]string{"scope", "read_builds", "client_id", "nobody"}, 401, "invalid_client"},
			"a client with spaces":      {[]string{"scope", "read_builds", "client_id", "no body"}, 401, "invalid_client"},
			"a disabled application":    {[]string{"scope", "read_builds", "client_id", "off"}, 401, "invalid_client"},
			"no secret":                 {[]string{"scope", "read_builds", "client_id", "robot"}, 401, "invalid_client"},
			"a wrong secret":            {[]string{"scope", "read_builds", "client_id", "robot", "client_secret", "x"}, 401, "invalid_client"},
			"no scope":                  {[]string{"client_id", "tool"}, 400, "invalid_scope"},
			"a scope of spaces":         {[]string{"client_id", "tool", "scope", "  "}, 400, "invalid_scope"},
			"an unknown scope":          {[]string{"client_id", "tool", "scope", "read_builds fly \"é\\"}, 400, "invalid_scope"},
			"every scope":               {[]string{"client_id", "tool", "scope", "*"}, 400, "invalid_scope"},
			"more than the application": {[]string{"client_id", "narrow", "scope", "read_builds write_builds"}, 400, "invalid_scope"},
			"too much":                  {[]string{"client_id", "tool", "scope", strings.Repeat("read_builds ", 10_000)}, 413, "invalid_request"},
		} {
			r := w.post("/oauth/device_authorization", c.pairs...)
			wantError(t, name, r, c.status, c.code)
			if d := r.String("error_description"); strings.ContainsFunc(d, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
				t.Errorf("%s: the description %q has characters it must not have", name, d)
			}
		}
	})
}

func TestDeviceAuthorization_KnowsEveryScope(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		all := strings.Join(identity.Scopes{identity.EveryScope}.Names(), " ")
		d := w.start("5214b230f06b48938ab5", "scope", all)
		w.approve(ada, d, w.OrgID)
		if got := w.poll("5214b230f06b48938ab5", d).Want(200).String("scope"); got != all {
			t.Errorf("granted %s", got)
		}
	})
}

// Errors in the request itself are reported before anything is looked up.
func TestEndpoints_RefuseWhatIsNotAForm(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		const good = "grant_type=" + deviceCodeGrant + "&client_id=tool&device_code=x&scope=read_builds&token=x"
		for _, path := range []string{"/oauth/device_authorization", "/oauth/token", "/oauth/revoke"} {
			for name, c := range map[string]struct {
				kind, body string
				status     int
			}{
				"JSON":                  {"application/json", `{"client_id": "tool"}`, 400},
				"no type":               {"", good, 400},
				"parts":                 {"multipart/form-data; boundary=x", good, 400},
				"a repeated client":     {"application/x-www-form-urlencoded", good + "&client_id=tool", 400},
				"a repeated empty":      {"application/x-www-form-urlencoded", good + "&client_secret=&client_secret=", 400},
				"a bad escape":          {"application/x-www-form-urlencoded", good + "&a=%zz", 400},
				"a semicolon":           {"application/x-www-form-urlencoded", good + ";a=b", 400},
				"bytes that are not":    {"application/x-www-form-urlencoded; charset=utf-8", good + "&a=%ff", 400},
				"the character nothing": {"application/x-www-form-urlencoded", good + "&a=%00", 400},
				"too much":              {"application/x-www-form-urlencoded", good + "&a=" + strings.Repeat("a", 70_000), 413},
			} {
				r := w.As(t, "").With("Content-Type", c.kind).Do("POST", path, c.body)
				wantError(t, path+" with "+name, r, c.status, "invalid_request")
			}
			r := w.As(t, "").Do("GET", path, nil)
			wantError(t, "GET "+path, r, 405, "invalid_request")
		}
		r := w.As(t, "").With("Content-Type", "application/x-www-form-urlencoded").Do("POST", "/oauth/device_authorization?"+good, "")
		wantError(t, "parameters in the query", r, 401, "invalid_client")
	})
}

func TestToken_Refuses(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		robots := w.start("robot", "client_secret", robotSecret)
		for name, c := range map[string]struct {
			pairs  []string
			status int
			code   string
		}{
			"nothing":                  {nil, 400, "invalid_request"},
			"another grant type":       {[]string{"grant_type", "password", "client_id", "tool"}, 400, "unsupported_grant_type"},
			"nearly the grant type":    {[]string{"grant_type", "device_code", "client_id", "tool"}, 400, "unsupported_grant_type"},
			"no client":                {[]string{"grant_type", deviceCodeGrant, "device_code", d.deviceCode}, 401, "invalid_client"},
			"an unknown client":        {[]string{"grant_type", deviceCodeGrant, "device_code", d.deviceCode, "client_id", "nobody"}, 401, "invalid_client"},
			"a disabled application":   {[]string{"grant_type", deviceCodeGrant, "device_code", d.deviceCode, "client_id", "off"}, 401, "invalid_client"},
			"no secret":                {[]string{"grant_type", deviceCodeGrant, "device_code", robots.deviceCode, "client_id", "robot"}, 401, "invalid_client"},
			"a wrong secret":           {[]string{"grant_type", deviceCodeGrant, "device_code", robots.deviceCode, "client_id", "robot", "client_secret", "x"}, 401, "invalid_client"},
			"no device code":           {[]string{"grant_type", deviceCodeGrant, "client_id", "tool"}, 400, "invalid_request"},
			"an unknown device code":   {[]string{"grant_type", deviceCodeGrant, "client_id", "tool", "device_code", "x"}, 400, "invalid_grant"},
			"the user code":            {[]string{"grant_type", deviceCodeGrant, "client_id", "tool", "device_code", d.userCode}, 400, "invalid_grant"},
			"another application's":    {[]string{"grant_type", deviceCodeGrant, "client_id", "narrow", "device_code", d.deviceCode}, 400, "invalid_grant"},
			"one that nobody approved": {[]string{"grant_type", deviceCodeGrant, "client_id", "tool", "device_code", d.deviceCode}, 400, "authorization_pending"},
		} {
			wantError(t, name, w.post("/oauth/token", c.pairs...), c.status, c.code)
		}
	})
}

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

func TestClient_AuthenticatesInTheBodyOrWithBasic(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		ask := func(authorization string, pairs ...string) *servertest.Response {
			c := w.As(t, "")
			if authorization != "" {
				c = c.With("Authorization", authorization)
			}
			return c.PostForm("/oauth/device_authorization", form(append(pairs, "scope", "read_user")...))
		}
		ask("", "client_id", "robot", "client_secret", robotSecret).Want(200)
		ask(basic("robot", robotSecret)).Want(200)
		ask(basic("robot", robotSecret), "client_id", "robot").Want(200)
		ask(strings.Replace(basic("robot", robotSecret), "Basic", "basic", 1)).Want(200)
		ask(basic("tool", "")).Want(200)
		for name, c := range map[string]struct {
			r      *servertest.Response
			status int
			code   string
		}{
			"a wrong secret":       {ask(basic("robot", "x")), 401, "invalid_client"},
			"no secret":            {ask(basic("robot", "")), 401, "invalid_client"},
			"an unknown client":    {ask(basic("nobody", "x")), 401, "invalid_client"},
			"a secret as it is":    {ask("Basic " + base64.StdEncoding.EncodeToString([]byte("robot:"+robotSecret))), 401, "invalid_client"},
			"another scheme":       {ask("Bearer svcua_ada", "client_id", "tool"), 401, "invalid_client"},
			"what is not base64":   {ask("Basic !", "client_id", "tool"), 401, "invalid_client"},
			"what has no colon":    {ask("Basic " + base64.StdEncoding.EncodeToString([]byte("robot"))), 401, "invalid_client"},
			"bytes nobody has":     {ask(basic("\x00\xff", "\x00")), 401, "invalid_client"},
			"secrets in both":      {ask(basic("robot", robotSecret), "client_secret", robotSecret), 400, "invalid_request"},
			"two different client": {ask(basic("robot", robotSecret), "client_id", "tool"), 400, "invalid_request"},
		} {
			wantError(t, name, c.r, c.status, c.code)
		}
	})
}

func TestToken_IsOmittedWhatTheApplicationDoesNotHave(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		w.approve(ada, d, w.OrgID)
		r := w.poll("tool", d).Want(200)
		if r.String("token_type") != "Bearer" || r.String("scope") != "read_builds read_user" || !strings.HasPrefix(r.String("access_token"), "svcua_") || r.Has("expires_in") || r.Has("refresh_token") {
			t.Errorf("a plain application got %s", r.Body)
		}
		if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Pragma") != "no-cache" {
			t.Errorf("headers %v", r.Header)
		}
		d = w.start("robot", "client_secret", robotSecret)
		w.approve(ada, d, w.OrgID)
		r = w.poll("robot", d, "client_secret", robotSecret).Want(200)
		if r.At("expires_in") != 3600.0 || r.String("refresh_token") == "" {
			t.Errorf("an application with everything got %s", r.Body)
		}
	})
}

func TestToken_ReachesTheChosenOrganizationWithTheGrantedScopes(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		w.approve(ada, d, w.rival)
		api := w.As(t, w.poll("tool", d).Want(200).String("access_token"))
		if r := api.Get("/v2/access-token").Want(200); r.String("description") != "Tool" || fmt.Sprint(r.At("scopes")) != "[read_builds read_user]" || r.At("expires_at") != nil {
			t.Errorf("the token is %s", r.Body)
		}
		api.Get("/v2/user").Want(200)
		api.Get("/v2/organizations/rival/builds").Want(200)
		api.Get("/v2/organizations/acme/builds").Want(404)
		api.Get("/v2/organizations/rival/pipelines").Want(403)
	})
}

func TestToken_ExpiresWhereTheApplicationSaysSo(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("robot", "client_secret", robotSecret)
		w.approve(ada, d, w.OrgID)
		api := w.As(t, w.poll("robot", d, "client_secret", robotSecret).Want(200).String("access_token"))
		w.Clock.Advance(3599 * time.Second)
		api.Get("/v2/user").Want(200)
		w.Clock.Advance(time.Second)
		api.Get("/v2/user").Want(401)
	})
}

func TestToken_ReportsHowTheRequestStands(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		wantError(t, "undecided", w.poll("tool", d), 400, "authorization_pending")
		if err := w.pages.DenyDevice(t.Context(), ada, d.userCode); err != nil {
			t.Fatal(err)
		}
		wantError(t, "denied", w.poll("tool", d), 400, "access_denied")
		wantError(t, "denied, again", w.poll("tool", d), 400, "access_denied")

		d = w.start("tool")
		w.Clock.Advance(599 * time.Second)
		wantError(t, "just in time", w.poll("tool", d), 400, "authorization_pending")
		w.Clock.Advance(time.Second)
		wantError(t, "expired", w.poll("tool", d), 400, "expired_token")

		d = w.start("tool")
		w.approve(ada, d, w.OrgID)
		w.Clock.Advance(600 * time.Second)
		wantError(t, "approved, then expired", w.poll("tool", d), 400, "expired_token")

		d = w.start("tool")
		w.approve(ada, d, w.OrgID)
		w.poll("tool", d).Want(200)
		wantError(t, "used", w.poll("tool", d), 400, "invalid_grant")
		w.Clock.Advance(600 * time.Second)
		wantError(t, "used, then expired", w.poll("tool", d), 400, "invalid_grant")
	})
}

func TestToken_SlowsDownMoreWithEachPollThatIsTooFast(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		for i, c := range []struct {
			after time.Duration
			want  string
		}{
			{0, "authorization_pending"}, // the first is never too fast
			{5 * time.Second, "authorization_pending"},
			{4500 * time.Millisecond, "authorization_pending"}, // a fast network
			{3 * time.Second, "slow_down"},                     // 10 s from now on
			{5 * time.Second, "slow_down"},                     // 15 s
			{10 * time.Second, "slow_down"},                    // 20 s
			{20 * time.Second, "authorization_pending"},
			{20 * time.Second, "authorization_pending"}, // it stays at 20 s
			{15 * time.Second, "slow_down"},
			{25 * time.Second, "authorization_pending"},
		} {
			w.Clock.Advance(c.after)
			r := w.poll("tool", d)
			wantError(t, fmt.Sprintf("poll %d, %s after the last", i, c.after), r, 400, c.want)
		}
		other := w.start("tool")
		wantError(t, "another device", w.poll("tool", other), 400, "authorization_pending")
		w.approve(ada, d, w.OrgID)
		w.poll("tool", d).Want(200) // however fast
	})
}

// Some clients answer every error by asking again with the credentials in the other place.
func TestToken_ForgivesTheSearchForThePlaceOfCredentials(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		header := func() *servertest.Response {
			return w.As(t, "").With("Authorization", basic("tool", "")).PostForm("/oauth/token", form("grant_type", deviceCodeGrant, "client_id", "tool", "device_code", d.deviceCode))
		}
		for range 3 {
			wantError(t, "in the header", header(), 400, "authorization_pending")
			wantError(t, "at once in the body", w.poll("tool", d), 400, "authorization_pending")
			w.Clock.Advance(5 * time.Second)
		}
		wantError(t, "in the header", header(), 400, "authorization_pending")
		wantError(t, "at once in the body", w.poll("tool", d), 400, "authorization_pending")
		wantError(t, "and again in the header", header(), 400, "slow_down")
		wantError(t, "with the same credentials in the body", w.poll("tool", d), 400, "slow_down")
		w.Clock.Advance(9 * time.Second)
		wantError(t, "after what one slow_down adds", header(), 400, "authorization_pending")
	})
}

func TestToken_IsGivenOnceWhenManyAsk(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		w.approve(ada, d, w.OrgID)
		var given atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if r := w.poll("tool", d); r.Status == 200 {
					given.Add(1)
				} else if r.String("error") != "invalid_grant" {
					t.Errorf("the others got %s", r.Body)
				}
			})
		}
		all.Wait()
		var tokens int
		w.QueryRow(`SELECT COUNT(*) FROM access_tokens WHERE grant_id IS NOT NULL`, &tokens)
		if given.Load() != 1 || tokens != 1 {
			t.Errorf("given %d times, %d tokens", given.Load(), tokens)
		}
	})
}

func TestToken_DiesWithItsGrantInEveryReplica(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		token := func() string {
			d := w.start("tool")
			w.approve(ada, d, w.OrgID)
			return w.poll("tool", d).Want(200).String("access_token")
		}
		one, two := token(), token()
		for _, of := range []string{one, two} {
			w.As(t, of).Get("/v2/user").Want(200)
		}
		list, err := w.pages.AuthorizedApplications(t.Context(), servertest.AdaID)
		if err != nil || len(list) != 1 || list[0].Approvals != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		// The pages are those of another replica, so the server has half a second to notice.
		if err := w.pages.RevokeApplication(t.Context(), servertest.AdaID, list[0].Application.ID, w.OrgID); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(500 * time.Millisecond)
		for _, of := range []string{one, two} {
			w.As(t, of).Get("/v2/user").Want(401)
		}
		w.As(t, servertest.Ada).Get("/v2/user").Want(200)
	})
}

func TestToken_RevokedByItselfEndsItsGrant(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("robot", "client_secret", robotSecret)
		w.approve(ada, d, w.OrgID)
		api := w.As(t, w.poll("robot", d, "client_secret", robotSecret).Want(200).String("access_token"))
		api.Delete("/v2/access-token").Want(204)
		api.Get("/v2/user").Want(401)
		if list, err := w.pages.AuthorizedApplications(t.Context(), servertest.AdaID); err != nil || len(list) != 0 {
			t.Errorf("still authorized: %+v, %v", list, err)
		}
	})
}

func TestToken_StopsWhileItsApplicationIsDisabled(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		w.approve(ada, d, w.OrgID)
		api := w.As(t, w.poll("tool", d).Want(200).String("access_token"))
		waiting := w.start("tool")
		set := func(enabled bool) {
			w.Apply(fmt.Sprintf("organizations: [{slug: acme, oauth_applications: [{client_id: tool, enabled: %v}]}]", enabled))
		}
		set(false)
		api.Get("/v2/user").Want(401)
		wantError(t, "polling for a disabled application", w.poll("tool", waiting), 401, "invalid_client")
		set(true)
		api.Get("/v2/user").Want(200)
		wantError(t, "polling for it when it is enabled again", w.poll("tool", waiting), 400, "authorization_pending")
	})
}

func TestToken_WaitsWhileTheOrganizationIsSuspended(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		w.approve(ada, d, w.OrgID)
		set := func(suspended bool) {
			w.Apply(fmt.Sprintf("organizations: [{slug: acme, suspended: %v}]", suspended))
		}
		set(true)
		r := w.poll("tool", d)
		wantError(t, "suspended", r, 503, "server_error")
		if r.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		set(false)
		w.poll("tool", d).Want(200)
	})
}

func TestToken_IsNotForWhoLeftTheOrganization(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		redeemed, waiting := w.start("tool"), w.start("tool")
		w.approve(bo, redeemed, w.OrgID)
		w.approve(bo, waiting, w.OrgID)
		token := w.poll("tool", redeemed).Want(200).String("access_token")
		w.As(t, token).Get("/v2/user").Want(200)
		w.As(t, servertest.Ada).Delete("/v2/organizations/acme/members/" + servertest.BoID).Want(204)
		w.As(t, token).Get("/v2/user").Want(401)
		wantError(t, "approved by who left", w.poll("tool", waiting), 400, "invalid_grant")
		if list, _ := w.pages.AuthorizedApplications(t.Context(), servertest.BoID); len(list) != 0 {
			t.Errorf("still authorized: %+v", list)
		}
	})
}

func TestToken_IsNotForgottenByTheOrganizationFile(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		w.approve(ada, d, w.OrgID)
		token := w.poll("tool", d).Want(200).String("access_token")
		w.Apply(`organizations: [{slug: acme, members: [{email: ada@acme.test, access_tokens: [{description: Tool, token: svcua_own, scopes: ["*"]}]}]}]`)
		w.As(t, token).Get("/v2/user").Want(200) // the file means another token of that name
		w.As(t, "svcua_own").Get("/v2/user").Want(200)
	})
}

func TestEndpoints_ReportServerErrorWhenTheDatabaseIsAway(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		d := w.start("tool")
		if err := w.DB.Close(); err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]*servertest.Response{
			"asking":  w.post("/oauth/device_authorization", "client_id", "tool", "scope", "read_user"),
			"polling": w.poll("tool", d),
		} {
			wantError(t, name, r, 503, "server_error")
			if r.Header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", name)
			}
		}
	})
}
