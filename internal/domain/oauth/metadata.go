package oauth

import (
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// authorizationServerView is the authorization server metadata (RFC 8414, and RFC 8628, 4).
type authorizationServerView struct {
	Issuer                        string   `json:"issuer"`
	AuthorizationEndpoint         string   `json:"authorization_endpoint"`
	DeviceAuthorizationEndpoint   string   `json:"device_authorization_endpoint"`
	TokenEndpoint                 string   `json:"token_endpoint"`
	RevocationEndpoint            string   `json:"revocation_endpoint"`
	ScopesSupported               []string `json:"scopes_supported"`
	ResponseTypesSupported        []string `json:"response_types_supported"`
	ResponseModesSupported        []string `json:"response_modes_supported"`
	GrantTypesSupported           []string `json:"grant_types_supported"`
	CodeChallengeMethodsSupported []string `json:"code_challenge_methods_supported"`
	TokenEndpointAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	RevocationEndpointAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
}

func (s *Service) metadata(*route.Request) (authorizationServerView, error) {
	methods := []string{"none", "client_secret_basic", "client_secret_post"}
	return authorizationServerView{
		Issuer:                        string(s.public),
		AuthorizationEndpoint:         s.public.To("oauth", "authorize"),
		DeviceAuthorizationEndpoint:   s.public.To("oauth", "device_authorization"),
		TokenEndpoint:                 s.public.To("oauth", "token"),
		RevocationEndpoint:            s.public.To("oauth", "revoke"),
		ScopesSupported:               identity.Scopes{identity.EveryScope}.Names(),
		ResponseTypesSupported:        []string{"code"},
		ResponseModesSupported:        []string{"query"},
		GrantTypesSupported:           []string{authorizationCodeGrant, refreshTokenGrant, deviceCodeGrant},
		CodeChallengeMethodsSupported: []string{"S256"},
		TokenEndpointAuthMethods:      methods,
		RevocationEndpointAuthMethods: methods,
	}, nil
}
