package oidc

import (
	"net/http"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"stackyard/internal/domain/agents"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

const jwksPath = "jwks"

// Routes returns the route that issues tokens and those that let others verify them.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: agents.JobPath + "/oidc/tokens", Tag: agents.JobTag, Summary: "Get an OpenID Connect token of the job",
			Description: "Services that trust this server accept the token as proof of which job runs.",
			Auth:        route.Job,
			Handler:     route.OnBody(s.agents.LoadFullJob, s.postIdentityToken),
		},
		{
			Method: http.MethodGet, Path: "/.well-known/openid-configuration", Tag: "OpenID Connect", Summary: "Get the OpenID Connect discovery document",
			Auth:    route.Open,
			Handler: route.Do(s.getDiscovery),
		},
		{
			Method: http.MethodGet, Path: "/.well-known/" + jwksPath, Tag: "OpenID Connect", Summary: "List the keys that sign job tokens",
			Auth:    route.Open,
			Errors:  []int{http.StatusServiceUnavailable},
			Handler: route.Do(s.getKeys),
		},
	}
}

type identityTokenView struct {
	Token string `json:"token"`
}

func (s *Service) postIdentityToken(r *route.Request, h agents.FullJob, body identityTokenCreate) (identityTokenView, error) {
	if h.Build.FromFork(h.Pipeline) {
		return identityTokenView{}, core.Errorf(core.Forbidden, "Builds of pull requests from other repositories get no OpenID Connect tokens")
	}
	w := workload{FullJob: h, org: r.Org}
	var err error
	if w.agent, err = s.agents.Agent(r.Context(), r.Org.ID, r.Session.AgentID); err != nil {
		return identityTokenView{}, err
	}
	if w.cluster, w.queue, err = s.clusters.ClusterAndQueue(r.Context(), r.Org.ID, h.Build.ClusterID, h.Job.QueueID); err != nil {
		return identityTokenView{}, err
	}
	claims, err := s.tokenClaims(w, body)
	if err != nil {
		return identityTokenView{}, err
	}
	keys, err := s.keys.current(r.Context())
	if err != nil {
		return identityTokenView{}, err
	}
	r.SetHeader("Cache-Control", "no-store")
	token, err := jwt.Signed(keys.signer).Claims(claims).Serialize()
	return identityTokenView{token}, err
}

// discoveryView is the document of OpenID Connect Discovery 1.0 for an issuer without sign-in.
type discoveryView struct {
	Issuer                string   `json:"issuer"`
	JWKSURI               string   `json:"jwks_uri"`
	ResponseTypes         []string `json:"response_types_supported"`
	SubjectTypes          []string `json:"subject_types_supported"`
	SigningAlgorithms     []string `json:"id_token_signing_alg_values_supported"`
	Scopes                []string `json:"scopes_supported"`
	Claims                []string `json:"claims_supported"`
	AuthorizationEndpoint string   `json:"authorization_endpoint" doc:"Required by the standard. Jobs request tokens over the agent API."`
}

// keysMaxAge lets clients cache the keys and the discovery document.
const keysMaxAge = "public, max-age=300"

func (s *Service) getDiscovery(r *route.Request) (discoveryView, error) {
	r.SetHeader("Cache-Control", keysMaxAge)
	return discoveryView{
		Issuer:                string(s.public),
		JWKSURI:               s.public.To(".well-known", jwksPath),
		AuthorizationEndpoint: s.public.To("oauth", "authorize"),
		ResponseTypes:         []string{"id_token"},
		SubjectTypes:          []string{"public"},
		SigningAlgorithms:     []string{string(jose.RS256)},
		Scopes:                []string{"openid"},
		Claims: []string{
			"iss", "sub", "aud", "exp", "nbf", "iat", "jti",
			"organization_slug", "pipeline_slug", "build_number", "build_branch", "build_tag", "build_commit", "build_source",
			"step_key", "job_id", "agent_id", "runner_environment",
			"organization_id", "pipeline_id", "build_id", "cluster_id", "cluster_name", "queue_id", "queue_key",
		},
	}, nil
}

type keySetView struct {
	Keys []jsonWebKey `json:"keys"`
}

// jsonWebKey is the public part of a key in the format of RFC 7517.
type jsonWebKey struct{ jose.JSONWebKey }

// JSONSchema describes the key.
func (jsonWebKey) JSONSchema() map[string]any {
	return map[string]any{"type": "object", "required": []string{"kty", "kid", "use", "alg", "n", "e"}}
}

func (s *Service) getKeys(r *route.Request) (keySetView, error) {
	keys, err := s.keys.current(r.Context())
	if err != nil {
		return keySetView{}, err
	}
	r.SetHeader("Cache-Control", keysMaxAge)
	v := keySetView{Keys: make([]jsonWebKey, len(keys.public.Keys))}
	for i, key := range keys.public.Keys {
		v.Keys[i] = jsonWebKey{key}
	}
	return v, nil
}
