package oauth

import (
	"net/http"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

const tag = "OAuth"

// Grant types.
const (
	authorizationCodeGrant = "authorization_code"
	refreshTokenGrant      = "refresh_token"
	deviceCodeGrant        = "urn:ietf:params:oauth:grant-type:device_code"
)

// Routes returns the package's routes.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: "/oauth/device_authorization", Tag: tag,
			Summary:     "Start device authorization",
			Description: "The device shows the user code and the address, and polls for a token while a person decides (RFC 8628).",
			Auth:        route.Open,
			OAuth:       true,
			Handler:     route.DoForm(s.deviceAuthorization),
		},
		{
			Method: http.MethodPost, Path: "/oauth/token", Tag: tag,
			Summary: "Get a token",
			Description: "With a device code, repeated until a person has decided; with an authorization code and its code verifier; " +
				"or with a refresh token, which is replaced by the one in the answer. Using a refresh token or an authorization code twice revokes all that came of it.",
			Auth:    route.Open,
			OAuth:   true,
			Handler: route.DoForm(s.token),
		},
		{
			Method: http.MethodPost, Path: "/oauth/revoke", Tag: tag,
			Summary:     "Revoke a token",
			Description: "Revokes all tokens of the same approval. An unknown token is not an error (RFC 7009).",
			Auth:        route.Open,
			OAuth:       true,
			Handler:     route.DoForm(s.revokeToken),
		},
		{
			Method: http.MethodGet, Path: "/.well-known/oauth-authorization-server", Tag: tag,
			Summary: "Get the OAuth server metadata",
			Auth:    route.Open,
			Handler: route.Do(s.metadata),
		},
	}
}

type deviceAuthorizationForm struct {
	clientForm
	Scope            string `json:"scope" doc:"The scopes to ask for, with spaces between them; at least one."`
	Organization     string `json:"organization" doc:"The slug of the organization to preselect, where the user may choose it."`
	OrganizationUUID string `json:"organization_uuid" doc:"The UUID of the organization to preselect; goes before organization where both are one."`
}

type deviceAuthorizationView struct {
	DeviceCode              string `json:"device_code" doc:"What the device polls the token endpoint with."`
	UserCode                string `json:"user_code" doc:"What the user enters: XXXX-XXXX."`
	VerificationURI         string `json:"verification_uri" doc:"Where the user enters it."`
	VerificationURIComplete string `json:"verification_uri_complete" doc:"The same with the code filled in."`
	ExpiresIn               int    `json:"expires_in" doc:"Seconds until the codes expire."`
	Interval                int    `json:"interval" doc:"Seconds to wait between two polls."`
}

func (s *Service) deviceAuthorization(r *route.Request, f deviceAuthorizationForm) (deviceAuthorizationView, error) {
	var view deviceAuthorizationView
	a, _, err := s.client(r, f.clientForm)
	if err != nil {
		return view, err
	}
	d := device{application: a, address: r.Address, userAgent: oneLine(r.UserAgent())}
	if d.scopes, err = a.ask(f.Scope); err != nil {
		return view, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		d.hintID, err = hint(q, f.OrganizationUUID, f.Organization)
		return err
	})
	if err != nil {
		return view, err
	}
	deviceCode, userCode, err := s.addDevice(r.Context(), d)
	return deviceAuthorizationView{
		DeviceCode:              deviceCode,
		UserCode:                userCode,
		VerificationURI:         s.public.To("oauth", "device"),
		VerificationURIComplete: s.public.To("oauth", "device", userCode),
		ExpiresIn:               int(deviceLife / time.Second),
		Interval:                int(pollInterval / time.Second),
	}, err
}

// maxUserAgent is how many characters of a user agent are shown.
const maxUserAgent = 120

// oneLine returns the printable first part of untrusted text.
func oneLine(text string) string {
	shown := []rune(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }), " "))
	return string(shown[:min(len(shown), maxUserAgent)])
}

type tokenForm struct {
	clientForm
	GrantType    string `json:"grant_type" doc:"authorization_code, refresh_token or urn:ietf:params:oauth:grant-type:device_code."`
	DeviceCode   string `json:"device_code" doc:"From the device authorization."`
	Code         string `json:"code" doc:"The authorization code."`
	RedirectURI  string `json:"redirect_uri" doc:"The one that the authorization code was asked with."`
	CodeVerifier string `json:"code_verifier" doc:"The text that code_challenge is the SHA-256 of."`
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope" doc:"With a refresh token: fewer scopes than were granted, for this access token alone."`
}

func (s *Service) token(r *route.Request, f tokenForm) (tokenView, error) {
	if err := f.check(); err != nil {
		return tokenView{}, err
	}
	a, place, err := s.client(r, f.clientForm)
	if err != nil {
		return tokenView{}, err
	}
	switch f.GrantType {
	case authorizationCodeGrant:
		return s.exchange(r.Context(), a, f.Code, f.RedirectURI, f.CodeVerifier)
	case refreshTokenGrant:
		return s.refresh(r.Context(), a, f.RefreshToken, f.Scope)
	default:
		return s.redeemDevice(r.Context(), a, f.DeviceCode, place)
	}
}

// check returns an error for an unknown grant type or a missing parameter.
func (f tokenForm) check() error {
	type parameter struct{ name, value string }
	var needed []parameter
	switch f.GrantType {
	case "":
		return errorf(invalidRequest, "grant_type is missing.")
	case authorizationCodeGrant:
		needed = []parameter{{"code", f.Code}, {"redirect_uri", f.RedirectURI}, {"code_verifier", f.CodeVerifier}}
	case refreshTokenGrant:
		needed = []parameter{{"refresh_token", f.RefreshToken}}
	case deviceCodeGrant:
		needed = []parameter{{"device_code", f.DeviceCode}}
	default:
		return errorf(unsupportedGrantType, "grant_type must be %s, %s or %s.", authorizationCodeGrant, refreshTokenGrant, deviceCodeGrant)
	}
	for _, p := range needed {
		if p.value == "" {
			return errorf(invalidRequest, "%s is missing.", p.name)
		}
	}
	return nil
}

type revokeForm struct {
	clientForm
	Token         string `json:"token" doc:"An access token or a refresh token."`
	TokenTypeHint string `json:"token_type_hint" doc:"Not needed."`
}

func (s *Service) revokeToken(r *route.Request, f revokeForm) (route.Nothing, error) {
	a, _, err := s.client(r, f.clientForm)
	switch {
	case err != nil:
		return route.Nothing{}, err
	case f.Token == "":
		return route.Nothing{}, errorf(invalidRequest, "token is missing.")
	}
	return route.Nothing{}, s.revoke(r.Context(), a, f.Token)
}
