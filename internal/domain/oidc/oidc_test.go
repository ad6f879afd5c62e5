package oidc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// verify verifies a token as a relying party does, and returns its claims.
func (w *runningBuild) verify(token, audience string) map[string]any {
	w.T.Helper()
	provider, err := oidc.NewProvider(w.T.Context(), w.URL)
	w.WantNoError(err)
	checked, err := provider.Verifier(&oidc.Config{ClientID: audience, Now: w.Clock.Now}).Verify(w.T.Context(), token)
	w.WantNoError(err)
	var claims map[string]any
	w.WantNoError(checked.Claims(&claims))
	return claims
}

// requestToken requests a token of the job.
func (w *runningBuild) requestToken(asked fields) string {
	w.T.Helper()
	return w.Post(w.Path("/oidc/tokens"), asked).Want(http.StatusOK).String("token")
}

func wantClaims(t testing.TB, got map[string]any, want fields) {
	t.Helper()
	for name, value := range want {
		had, ok := got[name]
		if !ok || fmt.Sprint(had) != fmt.Sprint(value) {
			t.Errorf("the claim %s is %v, want %v", name, had, value)
		}
	}
}

func TestToken_DescribesTheJob(t *testing.T) {
	whileRunning(t, []string{"{command: a, key: build}"}, func(t *testing.T, w *runningBuild) {
		now := w.Clock.Now().Unix()
		claims := w.verify(w.requestToken(fields{}), w.URL+"/acme")
		wantClaims(t, claims, fields{
			"iss": w.URL, "aud": w.URL + "/acme", "sub": "organization:acme:pipeline:hello:ref:refs/heads/main:commit:HEAD:step:build",
			"iat": float64(now), "nbf": float64(now), "exp": float64(now + 300),
			"organization_slug": "acme", "pipeline_slug": "hello", "build_number": 1, "build_branch": "main", "build_commit": "HEAD", "build_source": "api",
			"step_key": "build", "job_id": w.Job.ID, "agent_id": w.Agent.ID, "runner_environment": "self-hosted",
		})
		for _, name := range []string{"build_tag", "organization_id", "https://aws.amazon.com/tags"} {
			if _, ok := claims[name]; ok {
				t.Errorf("the token has the claim %s without being asked", name)
			}
		}
		if claims["jti"] == w.verify(w.requestToken(fields{}), w.URL+"/acme")["jti"] {
			t.Error("two tokens have one id")
		}
	})
}

func TestToken_HasTheRequestedClaims(t *testing.T) {
	whileRunning(t, []string{"{command: a}"}, func(t *testing.T, w *runningBuild) {
		claims := w.verify(w.requestToken(fields{
			"audience": "sts.test", "lifetime": 60,
			"claims":           []string{"organization_id", "pipeline_id", "build_id", "cluster_id", "cluster_name", "queue_id", "queue_key", "agent_tag:queue", "agent_tag:none"},
			"aws_session_tags": []string{"organization_slug", "build_number", "step_key", "agent_tag:queue", "build_tag"},
			"subject_claim":    "pipeline_id",
		}), "sts.test")
		wantClaims(t, claims, fields{
			"sub": servertest.AcmePipelineID, "exp": claims["iat"].(float64) + 60, "step_key": nil,
			"organization_id": w.OrgID, "pipeline_id": servertest.AcmePipelineID, "build_id": w.Build,
			"cluster_id": servertest.AcmeClusterID, "cluster_name": "Default", "queue_id": servertest.AcmeQueueID, "queue_key": "default",
			"agent_tag:queue": "default", "agent_tag:none": nil,
		})
		tags, err := json.Marshal(claims["https://aws.amazon.com/tags"])
		w.WantNoError(err)
		servertest.WantEqual(t, "tags", string(tags), `{"principal_tags":{"agent_tag:queue":["default"],"build_number":["1"],"build_tag":[""],"organization_slug":["acme"],"step_key":[""]}}`)
		wantClaims(t, w.verify(w.requestToken(fields{"audience": "x", "subject_claim": "cluster_id"}), "x"), fields{"sub": servertest.AcmeClusterID, "cluster_id": servertest.AcmeClusterID})
	})
}

func TestToken_RefusesInvalidRequests(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		for _, c := range []struct {
			asked fields
			text  string
		}{
			{fields{"lifetime": -1}, "1 to 86400 seconds"},
			{fields{"lifetime": 86401}, "1 to 86400 seconds"},
			{fields{"claims": []string{"color"}}, `There is no claim "color"`},
			{fields{"aws_session_tags": []string{"color"}}, `There is no claim "color"`},
			{fields{"subject_claim": "pipeline_slug"}, `"pipeline_slug" cannot be the subject of a token`},
			{fields{"audience": strings.Repeat("x", 2000)}, "2000 bytes"},
			{fields{"claims": strings.Split(strings.Repeat("job_id ", 51), " ")}, "50 claims"},
		} {
			message := w.Post(w.Path("/oidc/tokens"), c.asked).Want(http.StatusUnprocessableEntity).String("message")
			if !strings.Contains(message, c.text) {
				t.Errorf("%v: %q does not say %q", c.asked, message, c.text)
			}
		}
		w.Post(w.Path("/oidc/tokens"), fields{"claims": "job_id"}).Want(http.StatusBadRequest)
	})
}

func TestKeys_AreCreatedOnceAndSealed(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { w.Ada.Get("/.well-known/jwks").Want(http.StatusOK) })
		}
		all.Wait()
		keys := w.As(t, "").Get("/.well-known/jwks").Want(http.StatusOK)
		servertest.WantEqual(t, "keys", keys.Len("keys"), 1)
		servertest.WantAt(t, keys, fields{"keys.0.kty": "RSA", "keys.0.use": "sig", "keys.0.alg": "RS256"})
		servertest.WantEqual(t, "private part", keys.Has("keys.0.d"), false)
		var private string
		w.WantNoError(w.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT private_key FROM oidc_keys`).Scan(&private)
		}))
		if _, err := w.Key.Open(private, "oidc_key:"+keys.String("keys.0.kid")); err != nil {
			t.Error(err)
		}
		discovery := w.As(t, "").Get("/.well-known/openid-configuration").Want(http.StatusOK)
		servertest.WantAt(t, discovery, fields{"issuer": w.URL, "jwks_uri": w.URL + "/.well-known/jwks", "id_token_signing_alg_values_supported": "[RS256]"})
	})
}

func TestKeys_CanBeReplaced(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		before := w.requestToken(fields{"audience": "x", "lifetime": 3600})
		w.WantNoError(w.DB.Write(context.WithoutCancel(t.Context()), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE oidc_keys SET retired_at = $1`, db.Micros(w.Clock.Now()))
			return err
		}))
		w.Clock.Advance(time.Minute)
		after := w.requestToken(fields{"audience": "x"})
		servertest.WantEqual(t, "keys", w.Ada.Get("/.well-known/jwks").Len("keys"), 2)
		w.verify(before, "x")
		w.verify(after, "x")
		if strings.Split(before, ".")[0] == strings.Split(after, ".")[0] {
			t.Error("the retired key signs on")
		}
	})
}
