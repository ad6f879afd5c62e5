package oauth

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

const (
	// codeLife is how long an authorization code is valid.
	codeLife   = 2 * time.Minute
	codePrefix = "svcac_"
	maxState   = 2000
)

// An AuthorizationRequest is an authorization code request as the approval page shows it.
type AuthorizationRequest struct {
	Consent
	// RedirectHost is where the browser goes next: the program's host, or the user's machine.
	RedirectHost string
}

// A Redirect is an error to report to the application: the page redirects the browser to URL. All other errors
// are shown to the user only, because the redirect URI is not known to belong to the application.
type Redirect struct {
	URL   string
	cause error
}

func (r *Redirect) Error() string { return r.cause.Error() }

// AuthorizationRequest checks the query of a visit to /oauth/authorize. An error is a *Redirect, or a
// core.Error with a message for the page. The page posts its form to an address with the same query, which is
// checked again. A form-action policy must allow RedirectHost, because browsers apply it to redirects too.
func (s *Service) AuthorizationRequest(ctx context.Context, v Visitor, query url.Values) (AuthorizationRequest, error) {
	var shown AuthorizationRequest
	err := s.db.Read(ctx, func(q *db.Q) error {
		a, err := readAuthorization(q, query)
		if err != nil {
			return err
		}
		shown = AuthorizationRequest{Consent: Consent{Application: a.application, Scopes: a.scopes}, RedirectHost: a.redirectHost()}
		if err := ownerName(q, a.application, &shown.Owner); err != nil {
			return err
		}
		return shown.ask(q, v.UserID, a.hintID)
	})
	return shown, err
}

// ApproveAuthorization grants the application access to an organization on behalf of the visitor and returns
// where to redirect the browser. Errors are those of AuthorizationRequest, Unprocessable when the visitor is
// not a member of the organization, and Unavailable when it is suspended.
func (s *Service) ApproveAuthorization(ctx context.Context, v Visitor, query url.Values, organizationID string) (to string, err error) {
	code := seal.NewToken(codePrefix)
	err = s.db.Write(ctx, func(q *db.Q) error {
		a, err := readAuthorization(q, query)
		if err != nil {
			return err
		}
		if err := mayAuthorize(q, v.UserID, organizationID); err != nil {
			return err
		}
		now := s.clock()
		g := grant{
			id:             core.NewID(),
			applicationID:  a.application.ID,
			userID:         v.UserID,
			organizationID: organizationID,
			scopes:         a.scopes,
			createdAt:      now,
		}
		if err := insertGrant(q, g); err != nil {
			return err
		}
		to = a.back(url.Values{"code": {code}})
		return insertCode(q, authorizationCode{
			id:          seal.HashToken(code),
			grantID:     g.id,
			redirectURI: a.redirectURI,
			challenge:   a.challenge,
			expiresAt:   now.Add(codeLife),
		})
	})
	return to, err
}

// DenyAuthorization returns where to redirect the browser when the visitor denies the request. Errors are those
// of AuthorizationRequest.
func (s *Service) DenyAuthorization(ctx context.Context, query url.Values) (to string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		a, err := readAuthorization(q, query)
		if err == nil {
			to = a.refusal(errorf(accessDenied, "The user has denied access."))
		}
		return err
	})
	return to, err
}

// An authorization is a checked request for an authorization code.
type authorization struct {
	application Application
	redirectURI string
	state       string
	scopes      identity.Scopes
	challenge   string
	hintID      string
}

// validChallenge matches the base64 of a SHA-256.
var validChallenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// readAuthorization checks a request, starting with client and redirect URI: they decide whether later errors
// can be reported to the application.
func readAuthorization(q *db.Q, query url.Values) (authorization, error) {
	var a authorization
	ask, err := authorizationAsk(query)
	if err != nil {
		return a, err
	}
	if a.application, err = ByClientID(q, ask.ClientID); err != nil {
		return a, unknownApplication(err)
	}
	if !a.application.Enabled {
		return a, core.Errorf(core.Gone, "%s has been disabled by an administrator.", a.application.Name)
	}
	if !a.application.redirectsTo(ask.RedirectURI) {
		return a, core.Errorf(core.BadRequest, "%s sent a redirect_uri that is not registered for it.", a.application.Name)
	}
	a.redirectURI, a.state, a.challenge = ask.RedirectURI, ask.State, ask.CodeChallenge
	if err := a.check(ask); err != nil {
		return a, &Redirect{URL: a.refusal(err), cause: err}
	}
	a.scopes, err = a.application.ask(ask.Scope)
	if err != nil {
		return a, &Redirect{URL: a.refusal(err), cause: err}
	}
	a.hintID, err = hint(q, ask.OrganizationUUID, ask.Organization)
	return a, err
}

func unknownApplication(err error) error {
	if core.KindOf(err) == core.NotFound {
		return core.Errorf(core.NotFound, "The application that sent you here is unknown: no application has its client_id.")
	}
	return err
}

// check returns errors to report to the application.
func (a *authorization) check(ask authorizationQuery) error {
	switch {
	case len(ask.State) > maxState:
		a.state = ""
		return errorf(invalidRequest, "state must not be longer than %d bytes.", maxState)
	case ask.ResponseType == "":
		return errorf(invalidRequest, "response_type is missing.")
	case ask.ResponseType != "code":
		return errorf(unsupportedResponseType, "response_type must be code.")
	case ask.CodeChallengeMethod != "S256":
		return errorf(invalidRequest, "code_challenge_method must be S256.")
	case !validChallenge.MatchString(ask.CodeChallenge):
		return errorf(invalidRequest, "code_challenge must be the SHA-256 of the code verifier in base64url, without padding.")
	}
	return nil
}

// back returns the redirect URL with an answer.
func (a authorization) back(answer url.Values) string {
	if a.state != "" {
		answer.Set("state", a.state)
	}
	return sendBack(a.redirectURI, answer)
}

// refusal returns the redirect URL with an error.
func (a authorization) refusal(err error) string {
	answer := url.Values{"error": {string(serverError)}, "error_description": {err.Error()}}
	if e, ok := errors.AsType[*core.Error](err); ok && e.Code != "" {
		answer.Set("error", e.Code)
	}
	return a.back(answer)
}

func (a authorization) redirectHost() string {
	u, err := url.Parse(a.redirectURI)
	if err != nil {
		panic(err) // already validated
	}
	return u.Host
}
