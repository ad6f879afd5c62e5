package oauth

import (
	"net/http"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/db"
	"stackyard/internal/route"
)

const tag = "OAuth"

// The grant types.
const (
	deviceCodeGrant = "urn:ietf:params:oauth:grant-type:device_code"
)

// Routes returns the room's part of the route table.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: "/oauth/device_authorization", Tag: tag,
			Summary:     "Ask for access from a device without a browser",
			Description: "The device shows the user code and the address, and polls for a token while a person decides (RFC 8628).",
			Auth:        route.Open,
			OAuth:       true,
			Handler:     route.DoForm(s.deviceAuthorization),
		},
		{
			Method: http.MethodPost, Path: "/oauth/token", Tag: tag,
			Summary: "Get a token",
			Auth:    route.Open,
			OAuth:   true,
			Handler: route.DoForm(s.token),
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
	d := device{application: a, address: r.Address.String(), userAgent: oneLine(r.UserAgent())}
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

// maxUserAgent is how much of a user agent is shown to a person, in characters.
const maxUserAgent = 120

// oneLine returns what can be shown of a text that a stranger has sent.
func oneLine(text string) string {
	shown := []rune(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }), " "))
	return string(shown[:min(len(shown), maxUserAgent)])
}

type tokenForm struct {
	clientForm
	GrantType  string `json:"grant_type"`
	DeviceCode string `json:"device_code" doc:"From the device authorization."`
}

func (s *Service) token(r *route.Request, f tokenForm) (tokenView, error) {
	redeem, ok := map[string]func(*route.Request, tokenForm) (tokenView, error){
		deviceCodeGrant: s.deviceToken,
	}[f.GrantType]
	switch {
	case f.GrantType == "":
		return tokenView{}, errorf(invalidRequest, "grant_type is missing.")
	case !ok:
		return tokenView{}, errorf(unsupportedGrantType, "There is no such grant_type here.")
	}
	return redeem(r, f)
}

func (s *Service) deviceToken(r *route.Request, f tokenForm) (tokenView, error) {
	a, place, err := s.client(r, f.clientForm)
	switch {
	case err != nil:
		return tokenView{}, err
	case f.DeviceCode == "":
		return tokenView{}, errorf(invalidRequest, "device_code is missing.")
	}
	return s.redeemDevice(r.Context(), a, f.DeviceCode, place)
}
