package accountpages

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A Provider is an OpenID Connect provider with which users can sign in. The operator trusts it to verify
// emails.
type Provider struct {
	Issuer       string
	ClientID     string
	ClientSecret string // "" where the provider asks for none
}

// providerTimeout limits one request to the provider.
const providerTimeout = 10 * time.Second

// singleSignOn signs users in with a provider. It discovers the provider at the first sign-in and not at start:
// the provider may be unavailable then, or be run by this installation.
type singleSignOn struct {
	Provider
	client *http.Client
	back   string // redirect URI
	clock  core.Clock

	mu    sync.Mutex
	known *oidc.Provider
}

func newSingleSignOn(p *Provider, public core.PublicURL, clock core.Clock) *singleSignOn {
	if p == nil {
		return nil
	}
	return &singleSignOn{Provider: *p, client: &http.Client{Timeout: providerTimeout}, back: public.To("login", "oidc", "callback"), clock: clock}
}

// Name returns the name of the provider for users: its host.
func (o *singleSignOn) Name() string {
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return o.Issuer
	}
	return u.Host
}

// config returns the provider's configuration, discovered at the first call.
func (o *singleSignOn) config() (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		// The verifier fetches keys later with the same context, so it must not be a request's.
		found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), o.client), o.Issuer)
		if err != nil {
			return nil, nil, o.unavailable(err)
		}
		o.known = found
	}
	return &oauth2.Config{
		ClientID:     o.ClientID,
		ClientSecret: o.ClientSecret,
		Endpoint:     o.known.Endpoint(),
		RedirectURL:  o.back,
		Scopes:       []string{oidc.ScopeOpenID, "email"},
	}, o.known.Verifier(&oidc.Config{ClientID: o.ClientID, Now: o.clock}), nil
}

// unavailable returns an error for the user and logs its cause.
func (o *singleSignOn) unavailable(cause error) error {
	said := &core.Error{Kind: core.Unavailable, Message: fmt.Sprintf("Sign-in with %s failed. Try again in a moment; the reason is in the server's log.", o.Name()), RetryAfter: 10}
	return fmt.Errorf("single sign-on: %w: %w", said, cause)
}

func (s *Site) providerRoutes() []route.Route {
	if s.provider == nil {
		return nil
	}
	return []route.Route{
		s.Get("/login/oidc", s.toProvider),
		s.Get("/login/oidc/callback", s.fromProvider),
	}
}

// An attempt is the state of a sign-in with a provider, stored encrypted in a cookie. Only the browser that
// started it can complete it.
type attempt struct {
	State    string
	Nonce    string
	Verifier string
	ReturnTo string
	EndsAt   time.Time
}

const attemptContext = "sign-in attempt"

func (s *Site) toProvider(v *pages.Visit) error {
	config, _, err := s.provider.config()
	if err != nil {
		return err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), ReturnTo: pages.LocalPath(v.FormQuery("return_to")), EndsAt: s.Clock().Add(pages.AttemptLife)}
	if err := v.KeepSealed(s.Cookies.OIDC, a, attemptContext); err != nil {
		return err
	}
	return v.Leave(config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)))
}

// takeAttempt returns the attempt in the browser's cookie and ends it.
func (s *Site) takeAttempt(v *pages.Visit) (a attempt, ok bool) {
	if !v.TakeSealed(s.Cookies.OIDC, &a, attemptContext) {
		return a, false
	}
	return a, subtle.ConstantTimeCompare([]byte(v.FormQuery("state")), []byte(a.State)) == 1 && s.Clock().Before(a.EndsAt)
}

func (s *Site) fromProvider(v *pages.Visit) error {
	a, ok := s.takeAttempt(v)
	if !ok {
		return core.Errorf(core.BadRequest, "This sign-in was started in another browser or took too long. Sign in again.")
	}
	if why := v.FormQuery("error"); why != "" {
		return core.Errorf(core.Forbidden, "%s did not let you in. It says: %.200q", s.provider.Name(), why)
	}
	email, err := s.provider.email(v.Context(), v.FormQuery("code"), a)
	if err != nil {
		return err
	}
	value, err := s.Accounts.SignInVerified(v.Context(), email, v.Origin(), v.CookieValue(s.Cookies.Session))
	if err != nil {
		return err
	}
	s.Cookies.SetSession(v.W, value)
	return v.Redirect(a.ReturnTo)
}

// email exchanges a code and returns the user's email, which the provider has verified.
func (o *singleSignOn) email(ctx context.Context, code string, a attempt) (string, error) {
	config, verifier, err := o.config()
	if err != nil {
		return "", err
	}
	ctx = oidc.ClientContext(ctx, o.client)
	answer, err := config.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return "", o.unavailable(err)
	}
	raw, _ := answer.Extra("id_token").(string)
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return "", o.unavailable(err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1 {
		return "", o.unavailable(fmt.Errorf("the ID token has another nonce"))
	}
	var claims struct {
		Email    string      `json:"email"`
		Verified lenientBool `json:"email_verified"`
	}
	if err := token.Claims(&claims); err != nil {
		return "", o.unavailable(err)
	}
	if claims.Email == "" || !claims.Verified {
		return "", core.Errorf(core.Forbidden, "%s did not send a verified email address, so you cannot be signed in.", o.Name())
	}
	return claims.Email, nil
}

// lenientBool is a boolean that some providers send as text.
type lenientBool bool

// UnmarshalJSON reads true and "true" as true, and anything else as false.
func (t *lenientBool) UnmarshalJSON(b []byte) error {
	*t = string(b) == "true" || string(b) == `"true"`
	return nil
}

// allows reports whether a session can be used: one that was started with a password cannot if an organization of
// the user requires the provider.
func (s *Site) allows(session *account.Session, person *identity.Caller) bool {
	if s.provider == nil || session.Method != account.ByPassword {
		return true
	}
	for _, id := range person.Organizations() {
		if person.Membership(id).SSOMode == identity.SSORequired {
			return false
		}
	}
	return true
}

// allowPassword reports whether a session that was just started with a password is allowed. It ends the session
// otherwise.
func (s *Site) allowPassword(v *pages.Visit, value string) (bool, error) {
	session, err := s.Accounts.Session(v.Context(), value, v.Origin())
	if err != nil {
		return false, err
	}
	person, err := s.Directory.Person(v.Context(), session.UserID)
	if err != nil {
		return false, err
	}
	if s.allows(session, person) {
		v.Caller = person // for the log
		return true, nil
	}
	return false, s.Accounts.SignOut(v.Context(), value)
}
