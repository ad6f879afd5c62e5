package agents_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/identity"
)

func TestRegister_AnswersWithWhatAgentsCannotDoWithout(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		resp := s.AsAgent(t, servertest.AcmeAgent).Post("/v3/register", map[string]any{
			"name": "%hostname-%pid-%random", "hostname": "builder", "pid": 42, "meta_data": []string{"os=linux"}, "priority": "3",
			"os": "x", "arch": "amd64", "version": "3.1", "build": "9", "script_eval_enabled": true, "features": []string{"a"},
		}).Want(http.StatusOK)
		if token := resp.String("access_token"); !strings.HasPrefix(token, identity.SessionTokenPrefix) {
			t.Errorf("the session token is %q", token)
		}
		if name := resp.String("name"); !regexp.MustCompile(`^builder-42-[a-z0-9]{8}$`).MatchString(name) {
			t.Errorf("the name is %q", name)
		}
		for _, interval := range []string{"ping_interval", "job_status_interval", "heartbeat_interval"} {
			if seconds := resp.At(interval).(float64); seconds < 1 {
				t.Errorf("%s is %v", interval, seconds)
			}
		}
		if tags := resp.String("meta_data"); tags != "[os=linux queue=default]" {
			t.Errorf("the tags are %s", tags)
		}
	})
}

func TestRegister_FindsANameForAnAgentWithoutOne(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for hostname, want := range map[string]string{"": `^agent-[a-z0-9]{8}$`, "mill": `^mill-[a-z0-9]{8}$`} {
			name := s.Register(t, map[string]any{"name": "", "hostname": hostname}).Name
			if !regexp.MustCompile(want).MatchString(name) {
				t.Errorf("on the host %q it is named %q", hostname, name)
			}
		}
	})
}

func TestRegister_RefusesWithASentence(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(`
organizations:
  - slug: acme
    clusters:
      - name: Default
        queues:
          - {key: cloud, hosted: {platform: linux}}
      - name: Bare
        agent_tokens: [{description: bare, token: svcct_bare}]
`)
		for _, c := range []struct {
			name, token string
			said        map[string]any
			status      int
			want        string
		}{
			{"no such queue", servertest.AcmeAgent, map[string]any{"meta_data": []string{"queue=gpu"}}, 422, `no queue with the key "gpu"`},
			{"two queues", servertest.AcmeAgent, map[string]any{"meta_data": []string{"queue=a", "queue=b"}}, 422, "one queue"},
			{"a hosted queue", servertest.AcmeAgent, map[string]any{"meta_data": []string{"queue=cloud"}}, 422, "hosted"},
			{"no default queue", "svcct_bare", map[string]any{}, 422, "no default queue"},
			{"a priority in words", servertest.AcmeAgent, map[string]any{"priority": "high"}, 422, "whole number"},
			{"a name without end", servertest.AcmeAgent, map[string]any{"name": strings.Repeat("x", 300)}, 422, "at most 255"},
			{"too many tags", servertest.AcmeAgent, map[string]any{"meta_data": make([]string, 101)}, 422, "at most 100 tags"},
			{"tags that are not texts", servertest.AcmeAgent, map[string]any{"meta_data": []int{1}}, 400, "meta_data"},
			{"an unknown token", "svcct_nobody", map[string]any{}, 401, "agent token"},
		} {
			resp := s.AsAgent(t, c.token).Post("/v3/register", c.said)
			if resp.Status != c.status || !strings.Contains(resp.String("message"), c.want) {
				t.Errorf("%s: %d %s, want %d and %q", c.name, resp.Status, resp.Body, c.status, c.want)
			}
		}
	})
}

func TestRegister_ChecksTheTokensEndAndAddresses(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		tokens := "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/tokens"
		ada := s.As(t, servertest.Ada)
		short := ada.Post(tokens, map[string]any{"description": "short", "expires_at": s.Clock.Now().Add(time.Hour).Format(time.RFC3339)}).Want(201).String("token")
		bound := ada.Post(tokens, map[string]any{"description": "bound", "allowed_ip_addresses": "10.0.0.0/8"}).Want(201).String("token")
		s.AsAgent(t, short).Post("/v3/register", nil).Want(200)
		s.Clock.Advance(time.Hour)
		s.AsAgent(t, short).Post("/v3/register", nil).Want(401)
		s.AsAgent(t, bound).Post("/v3/register", nil).Want(401)
		s.AsAgent(t, bound).With("X-Forwarded-For", "10.1.2.3").Post("/v3/register", nil).Want(200)
	})
}

func TestSession_SpeaksUntilItDisconnects(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		a := s.Register(t, nil)
		a.Post("/v3/connect", nil).Want(200)
		beat := a.Post("/v3/heartbeat", map[string]any{"sent_at": "2026-01-02T03:04:05.123456789+02:00"}).Want(200)
		if beat.String("sent_at") != "2026-01-02T03:04:05.123456789+02:00" || beat.String("received_at") == "" {
			t.Errorf("the heartbeat was answered with %s", beat.Body)
		}
		a.Post("/v3/disconnect", nil).Want(200)
		a.Post("/v3/disconnect", nil).Want(200)
		a.Post("/v3/heartbeat", map[string]any{}).Want(401)
		a.Post("/v3/connect", nil).Want(401)
	})
}

func TestSession_OfARevokedTokenGoesOn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		tokens := "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID + "/tokens"
		ada := s.As(t, servertest.Ada)
		token := ada.Post(tokens, map[string]any{"description": "soon gone"}).Want(201)
		session := s.AsAgent(t, token.String("token")).Post("/v3/register", nil).Want(200).String("access_token")
		ada.Delete(tokens + "/" + token.String("id")).Want(204)
		s.AsAgent(t, session).Post("/v3/connect", nil).Want(200)
	})
}

func TestSession_OfASuspendedOrganizationGetsARetryTime(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		a := s.Register(t, nil)
		s.Apply("organizations: [{slug: acme, suspended: true}]")
		a.Post("/v3/heartbeat", nil).Want(503)
		s.Apply("organizations: [{slug: acme, suspended: false}]")
		a.Post("/v3/heartbeat", nil).Want(200)
	})
}
