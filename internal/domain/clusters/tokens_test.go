package clusters_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const tokens = home + "/tokens"

func TestAgentTokens_ShowEveryFieldAndTheTokenOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		end := s.Clock.Now().Add(time.Hour).Truncate(time.Millisecond)
		made := ada.Post(tokens, body{
			"description": "Office", "allowed_ip_addresses": " 10.1.0.0/16  ::1 ", "expires_at": end.Add(900 * time.Nanosecond).Format(time.RFC3339Nano),
		}).Want(http.StatusCreated)
		id, value := made.String("id"), made.String("token")
		if !strings.HasPrefix(value, "svcct_") {
			t.Errorf("the token is %q", value)
		}
		shown := ada.Get(tokens + "/" + id).Want(http.StatusOK)
		for path, want := range map[string]any{
			"id":                   id,
			"graphql_id":           core.GraphQLID("ClusterToken", id),
			"description":          "Office",
			"allowed_ip_addresses": "10.1.0.0/16 ::1/128",
			"expires_at":           end.Format("2006-01-02T15:04:05.000Z"),
			"url":                  s.URL + tokens + "/" + id,
			"cluster_url":          s.URL + home,
			"created_at":           s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"created_by.id":        servertest.AdaID,
		} {
			if made.At(path) != want || shown.At(path) != want {
				t.Errorf("%s is %v and %v, want %v", path, made.At(path), shown.At(path), want)
			}
		}
		list := ada.Get(tokens).Want(http.StatusOK)
		changed := ada.Patch(tokens+"/"+id, body{"description": "Home"}).Want(http.StatusOK)
		for _, got := range []*servertest.Response{shown, list, changed} {
			if strings.Contains(string(got.Body), value) {
				t.Errorf("the token is shown again: %s", got.Body)
			}
		}
		s.DB.Read(t.Context(), func(q *db.Q) error {
			var row string
			if err := q.QueryRow(`SELECT hash FROM agent_tokens WHERE id = $1`, id).Scan(&row); err != nil || strings.Contains(row, value) {
				t.Errorf("the database holds %q, %v", row, err)
			}
			return nil
		})
		plain := ada.Post(tokens, body{"description": "Anywhere", "allowed_ip_addresses": "", "expires_at": nil}).Want(http.StatusCreated)
		if plain.At("allowed_ip_addresses") != nil || plain.At("expires_at") != nil {
			t.Errorf("a token without bounds is %s", plain.Body)
		}
	})
}

func TestAgentTokens_AreListedInPagesOldestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, description := range []string{"z", "a"} {
			s.Clock.Advance(time.Second)
			ada.Post(tokens, body{"description": description}).Want(http.StatusCreated)
		}
		var all []string
		for page := range 3 {
			all = append(all, ada.Get(fmt.Sprintf("%s?per_page=1&page=%d", tokens, page+1)).Want(http.StatusOK).String("0.description"))
		}
		if got := strings.Join(all, " "); got != "boot z a" {
			t.Errorf("listed are %s", got)
		}
	})
}

func TestCreateAgentToken_ReportsProblems(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		in := func(d time.Duration) string { return s.Clock.Now().Add(d).Format(time.RFC3339Nano) }
		for _, c := range []struct {
			sent        any
			field, text string
		}{
			{nil, "description", "is required"},
			{body{"description": " "}, "description", "is required"},
			{body{"description": strings.Repeat("a", 2049)}, "description", "must have at most 2048 characters"},
			{body{"description": "x", "expires_at": "tomorrow"}, "expires_at", "must be a time such as 2030-01-02T03:04:05Z"},
			{body{"description": "x", "expires_at": 1}, "expires_at", "must be a string, not a number"},
			{body{"description": "x", "expires_at": in(10*time.Minute - time.Second)}, "expires_at", "must be at least 10 minutes from now"},
			{body{"description": "x", "expires_at": "0001-01-01T00:00:00Z"}, "expires_at", "must be at least 10 minutes from now"},
			{body{"description": "x", "allowed_ip_addresses": "10.0.0.1,10.0.0.2"}, "allowed_ip_addresses", `"10.0.0.1,10.0.0.2" is not one`},
			{body{"description": "x", "allowed_ip_addresses": "10.0.0.0/8 home"}, "allowed_ip_addresses", `"home" is not one`},
			{body{"description": "x", "allowed_ip_addresses": strings.Repeat("10.0.0.1 ", 25)}, "allowed_ip_addresses", "must be at most 24 address blocks, not 25"},
			{body{"description": "x", "allowed_ip_addresses": []string{"10.0.0.1"}}, "allowed_ip_addresses", "must be a string, not an array"},
		} {
			ada.Post(tokens, c.sent).WantFieldError(c.field, c.text)
		}
		ada.Post(tokens, body{"description": "x", "expires_at": in(10*time.Minute + time.Millisecond)}).Want(http.StatusCreated)
		ada.Post(tokens, body{"description": "x", "allowed_ip_addresses": strings.Repeat("10.0.0.1 ", 24)}).Want(http.StatusCreated)
	})
}

func TestUpdateAgentToken_ChangesWhatIsSentByPutAndPatch(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		end := s.Clock.Now().Add(time.Hour).Format(time.RFC3339Nano)
		made := ada.Post(tokens, body{"description": "x", "expires_at": end}).Want(http.StatusCreated)
		path := made.String("url")
		for _, method := range []string{http.MethodPut, http.MethodPatch} {
			got := ada.Do(method, path, body{"allowed_ip_addresses": "10.0.0.0/8"}).Want(http.StatusOK)
			if got.String("description") != "x" || got.String("allowed_ip_addresses") != "10.0.0.0/8" {
				t.Errorf("%s addresses: %s", method, got.Body)
			}
			got = ada.Do(method, path, body{"description": "y", "expires_at": made.At("expires_at")}).Want(http.StatusOK)
			if got.String("description") != "y" || got.String("allowed_ip_addresses") != "10.0.0.0/8" || got.At("expires_at") != made.At("expires_at") {
				t.Errorf("%s description: %s", method, got.Body)
			}
			got = ada.Do(method, path, body{"description": "x", "allowed_ip_addresses": nil}).Want(http.StatusOK)
			if got.At("allowed_ip_addresses") != nil {
				t.Errorf("%s back: %s", method, got.Body)
			}
		}
		for _, end := range []any{nil, "", "soon", s.Clock.Now().Add(2 * time.Hour).Format(time.RFC3339)} {
			ada.Patch(path, body{"expires_at": end}).WantFieldError("expires_at", "cannot be changed once the token exists")
		}
		forever := ada.Post(tokens, body{"description": "forever"}).Want(http.StatusCreated).String("url")
		ada.Patch(forever, body{"expires_at": nil}).Want(http.StatusOK)
		ada.Patch(forever, body{"expires_at": end}).WantFieldError("expires_at", "cannot be changed once the token exists")
		ada.Patch(path, body{"description": nil}).WantFieldError("description", "is required")
		ada.Patch(path, body{"allowed_ip_addresses": "x"}).WantFieldError("allowed_ip_addresses", `"x" is not one`)
	})
}

func TestAgentToken_ReportsWhatItIsFor(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(tokens, body{"description": "Office"}).Want(http.StatusCreated)
		got := s.AsAgent(t, made.String("token")).Get("/v3/token").Want(http.StatusOK)
		for path, want := range map[string]any{
			"uuid":                    made.At("id"),
			"description":             "Office",
			"token_type":              "cluster",
			"organization_slug":       "acme",
			"cluster_uuid":            servertest.AcmeClusterID,
			"cluster_name":            "Default",
			"organization_queue_uuid": "",
			"organization_queue_key":  "",
		} {
			if got.At(path) != want {
				t.Errorf("%s is %v, want %v", path, got.At(path), want)
			}
		}
		if _, ok := core.ParseID(got.String("organization_uuid")); !ok {
			t.Errorf("organization_uuid is %q", got.String("organization_uuid"))
		}
	})
}

func TestAgentToken_WorksUntilItIsRevoked(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(tokens, body{"description": "x"}).Want(http.StatusCreated)
		agent := s.AsAgent(t, made.String("token"))
		agent.Get("/v3/token").Want(http.StatusOK)
		s.As(t, servertest.Bo).Delete(made.String("url")).Want(http.StatusForbidden)
		agent.Get("/v3/token").Want(http.StatusOK)
		ada.Delete(made.String("url")).Want(http.StatusNoContent)
		refused := agent.Get("/v3/token").WantMessage(http.StatusUnauthorized, "Authentication required. Supply a valid agent token.")
		if !strings.HasPrefix(refused.Header.Get("WWW-Authenticate"), "Token") {
			t.Errorf("the challenge is %q", refused.Header.Get("WWW-Authenticate"))
		}
		ada.Delete(made.String("url")).WantMessage(http.StatusNotFound, "No agent token found")
	})
}

func TestAgentToken_WorksUntilItExpires(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		made := s.As(t, servertest.Ada).Post(tokens, body{"description": "x", "expires_at": s.Clock.Now().Add(time.Hour).Format(time.RFC3339Nano)}).Want(http.StatusCreated)
		agent := s.AsAgent(t, made.String("token"))
		s.Clock.Advance(time.Hour - time.Minute)
		agent.Get("/v3/token").Want(http.StatusOK)
		s.Clock.Advance(time.Minute)
		agent.Get("/v3/token").Want(http.StatusUnauthorized)
	})
}

func TestAgentToken_WorksFromAllowedAddressesOnly(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(tokens, body{"description": "x", "allowed_ip_addresses": "10.1.0.0/16 2001:db8::/32"}).Want(http.StatusCreated)
		agent := s.AsAgent(t, made.String("token"))
		for from, status := range map[string]int{
			"10.1.2.3":        http.StatusOK,
			"::ffff:10.1.2.3": http.StatusOK,
			"2001:db8::1":     http.StatusOK,
			"10.2.0.1":        http.StatusUnauthorized,
			"2001:db9::1":     http.StatusUnauthorized,
		} {
			agent.With("X-Forwarded-For", from).Get("/v3/token").Want(status)
		}
		agent.Get("/v3/token").WantMessage(http.StatusUnauthorized, "This agent token may not be used from the address 127.0.0.1.")
		ada.Patch(made.String("url"), body{"allowed_ip_addresses": nil}).Want(http.StatusOK)
		agent.Get("/v3/token").Want(http.StatusOK)
		ada.Patch(made.String("url"), body{"allowed_ip_addresses": "10.1.0.0/16"}).Want(http.StatusOK)
		agent.Get("/v3/token").Want(http.StatusUnauthorized)
	})
}

func TestAgentToken_IsNoAccessTokenNorTheOtherWayRound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.As(t, servertest.AcmeAgent).Get(acme).Want(http.StatusUnauthorized)
		s.As(t, servertest.AcmeAgent).Get("/v3/token").Want(http.StatusUnauthorized)
		s.AsAgent(t, servertest.Ada).Get("/v3/token").Want(http.StatusUnauthorized)
		s.As(t, "").Get("/v3/token").Want(http.StatusUnauthorized)
	})
}

func TestAgentToken_OfASuspendedOrganizationWaits(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`organizations: [{slug: acme, suspended: true}]`)
		got := s.AsAgent(t, servertest.AcmeAgent).Get("/v3/token").Want(http.StatusServiceUnavailable)
		if got.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
}
