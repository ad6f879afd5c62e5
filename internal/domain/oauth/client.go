package oauth

import (
	"crypto/subtle"
	"net/http"
	"net/url"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// clientForm identifies the application in a form, as an alternative to HTTP Basic.
type clientForm struct {
	ClientID     string `json:"client_id" doc:"The client id of the application; may be left out where HTTP Basic has it."`
	ClientSecret string `json:"client_secret" doc:"The secret of a confidential application, unless HTTP Basic has it."`
}

// credentialPlace is where a client sent its credentials.
type credentialPlace string

// Places for credentials.
const (
	inBody   credentialPlace = "body"
	inHeader credentialPlace = "header"
)

// credentials identify and authenticate an application.
type credentials struct {
	id, secret string
	place      credentialPlace
}

// credentials returns the credentials of a request, which must be in one place only.
func (f clientForm) credentials(header http.Header) (credentials, error) {
	given := header.Values("Authorization")
	if len(given) == 0 {
		return credentials{f.ClientID, f.ClientSecret, inBody}, nil
	}
	id, secret, ok := basicAuth(header)
	switch {
	case !ok || len(given) > 1:
		return credentials{}, errorf(invalidClient, "The Authorization header must be HTTP Basic, with client id and secret in form encoding.")
	case f.ClientSecret != "":
		return credentials{}, errorf(invalidRequest, "The client secret must be in the body or in the Authorization header, not in both.")
	case f.ClientID != "" && f.ClientID != id:
		return credentials{}, errorf(invalidRequest, "The client_id in the body is not the one in the Authorization header.")
	}
	return credentials{id, secret, inHeader}, nil
}

// basicAuth reads the form-encoded client id and secret from HTTP Basic (RFC 6749, 2.3.1).
func basicAuth(header http.Header) (id, secret string, ok bool) {
	user, password, ok := (&http.Request{Header: header}).BasicAuth()
	if !ok {
		return "", "", false
	}
	id, err := url.QueryUnescape(user)
	if err != nil {
		return "", "", false
	}
	secret, err = url.QueryUnescape(password)
	return id, secret, err == nil
}

// client authenticates the application that sent a request.
func (s *Service) client(r *route.Request, f clientForm) (a Application, place credentialPlace, err error) {
	c, err := f.credentials(r.Header)
	if err != nil {
		return a, "", err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		a, err = c.verify(q)
		return err
	})
	return a, c.place, err
}

// verify returns the application that the credentials belong to.
func (c credentials) verify(q *db.Q) (Application, error) {
	if c.id == "" {
		return Application{}, errorf(invalidClient, "client_id is missing.")
	}
	a, err := ByClientID(q, c.id)
	switch {
	case core.KindOf(err) == core.NotFound:
		return a, errorf(invalidClient, "No application has this client_id.")
	case err != nil:
		return a, err
	case !a.Enabled:
		return a, errorf(invalidClient, "This application is disabled.")
	case !a.Confidential:
		return a, nil
	case c.secret == "":
		return a, errorf(invalidClient, "This application is confidential: its client_secret is missing.")
	case subtle.ConstantTimeCompare([]byte(a.secretHash), []byte(seal.HashToken(c.secret))) != 1:
		return a, errorf(invalidClient, "The client_secret is wrong.")
	}
	return a, nil
}
