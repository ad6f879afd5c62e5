package notifications

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Connection is the OAuth application of this installation at a provider.
type Connection struct {
	ClientID     string
	ClientSecret string
	AuthorizeURL string
	TokenURL     string
	RevokeURL    string // empty: access tokens are not revoked
	// APIURL is where notifications are sent with the access tokens: the folder of a chat's methods, or the GraphQL
	// endpoint of a tracker. Empty: nowhere.
	APIURL string
}

// Connections are the OAuth applications of an installation; nil: not configured.
type Connections struct {
	Chat    *Connection // of chat_workspace and chat_webhook
	Tracker *Connection
}

const (
	// connectTimeout limits a request to a provider.
	connectTimeout = 10 * time.Second
	// refreshLease limits how long one process refreshes an access token. Others check every refreshPoll.
	refreshLease = 20 * time.Second
	refreshPoll  = 100 * time.Millisecond
	// refreshAhead is how long before it expires an access token is refreshed.
	refreshAhead = time.Minute
)

// CallbackPath is the path of the redirect URI.
var CallbackPath = []string{"settings", "connect", "callback"}

// Connectable returns the providers with a configured OAuth application.
func (s *Service) Connectable() []*Provider {
	var list []*Provider
	for _, p := range providers {
		if s.connection(p) != nil {
			list = append(list, p)
		}
	}
	return list
}

// connection returns the OAuth application of a provider, or nil.
func (s *Service) connection(p *Provider) *Connection {
	if p == nil || p.connection == nil {
		return nil
	}
	return p.connection(s.connections)
}

// API returns the URL of the API of a connected receiver's provider; empty: it is not configured.
func (s *Service) API(r *Receiver) string {
	if c := s.connection(r.Provider); c != nil {
		return c.APIURL
	}
	return ""
}

// config returns the OAuth configuration of a provider, or a NotFound error.
func (s *Service) config(p *Provider) (*oauth2.Config, error) {
	c := s.connection(p)
	if c == nil {
		return nil, core.Errorf(core.NotFound, "This installation is not configured to connect this service")
	}
	return &oauth2.Config{
		ClientID:     c.ClientID,
		ClientSecret: c.ClientSecret,
		Endpoint:     oauth2.Endpoint{AuthURL: c.AuthorizeURL, TokenURL: c.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
		RedirectURL:  s.public.To(CallbackPath...),
		Scopes:       p.scopes,
	}, nil
}

// AuthorizeURL returns the URL where users authorize a connection.
func (s *Service) AuthorizeURL(p *Provider, state, verifier string) (string, error) {
	config, err := s.config(p)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), nil
}

// FinishConnecting exchanges an authorization code for credentials and connects a receiver with them.
func (s *Service) FinishConnecting(ctx context.Context, org *identity.Organization, by identity.User, p *Provider, code, verifier string) (*Receiver, error) {
	config, err := s.config(p)
	if err != nil {
		return nil, err
	}
	token, err := config.Exchange(s.withClient(ctx), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, p.failed(err)
	}
	return s.Connect(ctx, org, by, p, s.given(token))
}

func (s *Service) withClient(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, s.client)
}

// failed returns the error for a failed token request: Unprocessable if the provider refused, else Unavailable.
func (p *Provider) failed(cause error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](cause); ok && refused.ErrorCode != "" {
		return core.Errorf(core.Unprocessable, "%s refused the connection. It says: %.100q", p.Name, refused.ErrorCode)
	}
	away := &core.Error{Kind: core.Unavailable, Message: p.Name + " does not answer as it should. Try again in a moment; an administrator finds the reason in the server's log.", RetryAfter: 10}
	return fmt.Errorf("connect %s: %w: %w", p.ID, away, cause)
}

// given returns the settings in a token response.
func (s *Service) given(token *oauth2.Token) map[string]string {
	given := map[string]string{"access_token": token.AccessToken, "refresh_token": token.RefreshToken}
	if token.ExpiresIn > 0 {
		given["expires_at"] = s.clock().Add(time.Duration(token.ExpiresIn) * time.Second).Format(time.RFC3339)
	}
	member := func(object, name string) string {
		members, _ := token.Extra(object).(map[string]any)
		text, _ := members[name].(string)
		return text
	}
	for _, workspace := range []string{"team", "organization", "workspace"} { // names differ between providers
		given["workspace_id"] = cmp.Or(given["workspace_id"], member(workspace, "id"))
		given["workspace_name"] = cmp.Or(given["workspace_name"], member(workspace, "name"))
	}
	given["url"], given["channel"] = member("incoming_webhook", "url"), member("incoming_webhook", "channel")
	return given
}

// AccessToken returns the access token of a connected receiver, refreshed if it has expired.
func (s *Service) AccessToken(ctx context.Context, r *Receiver) (string, error) {
	a, err := s.authorization(r)
	if err != nil || !s.expired(a) {
		return a.AccessToken, err
	}
	token, err, _ := s.refreshing.Do(r.ID, func() (any, error) { return s.refresh(context.WithoutCancel(ctx), r) })
	text, _ := token.(string)
	return text, err
}

func (s *Service) authorization(r *Receiver) (a Authorization, err error) {
	settings, err := s.open(r)
	if err == nil {
		err = settings.Decode(&a)
	}
	return a, err
}

// expired reports whether an access token has expired and can be refreshed.
func (s *Service) expired(a Authorization) bool {
	at, err := time.Parse(time.RFC3339, a.ExpiresAt)
	return err == nil && a.RefreshToken != "" && !s.clock().Before(at.Add(-refreshAhead))
}

// refresh refreshes an access token, or waits until another process has. Only one process refreshes at a time: a refresh
// token is valid once, and some providers revoke the authorization when it is used twice.
func (s *Service) refresh(ctx context.Context, r *Receiver) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*refreshLease)
	defer cancel()
	for {
		a, claimed, err := s.claimRefresh(ctx, r)
		switch {
		case err != nil:
			return "", err
		case claimed:
			return s.refreshClaimed(ctx, r, a)
		case !s.expired(a):
			return a.AccessToken, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(refreshPoll):
		}
	}
}

// claimRefresh returns the authorization of a receiver and whether this process has claimed refreshing it.
func (s *Service) claimRefresh(ctx context.Context, r *Receiver) (a Authorization, claimed bool, err error) {
	_, _, err = s.rewrite(ctx, r.OrganizationID, r.ID, func(_ *db.Q, _ *Receiver, settings Settings) (Settings, error) {
		a, claimed = Authorization{}, false
		if err := settings.Decode(&a); err != nil {
			return nil, err
		}
		until, err := time.Parse(time.RFC3339, a.RefreshingUntil)
		if !s.expired(a) || err == nil && s.clock().Before(until) {
			return settings, nil
		}
		claimed = true
		settings = maps.Clone(settings)
		settings["refreshing_until"] = canonical(s.clock().Add(refreshLease).Format(time.RFC3339))
		return settings, nil
	})
	return a, claimed, err
}

// refreshClaimed refreshes an access token that this process has claimed, and releases the claim.
func (s *Service) refreshClaimed(ctx context.Context, r *Receiver, a Authorization) (string, error) {
	var given Settings
	config, err := s.config(r.Provider)
	if err == nil {
		var answer *oauth2.Token
		if answer, err = config.TokenSource(s.withClient(ctx), &oauth2.Token{RefreshToken: a.RefreshToken}).Token(); err != nil {
			err = r.Provider.failed(err)
		} else {
			given, err = r.Provider.credentials(s.given(answer))
			a.AccessToken = answer.AccessToken
		}
	}
	_, _, saved := s.rewrite(ctx, r.OrganizationID, r.ID, func(_ *db.Q, _ *Receiver, settings Settings) (Settings, error) {
		settings = maps.Clone(settings)
		delete(settings, "refreshing_until")
		if err == nil {
			delete(settings, "expires_at") // unless given
			maps.Copy(settings, given)
		}
		return settings, nil
	})
	if err == nil {
		err = saved
	}
	return a.AccessToken, err
}

// revoke revokes the access token of a connected receiver. A 4xx answer counts as success: the token is already invalid.
func (s *Service) revoke(ctx context.Context, r *Receiver) error {
	c := s.connection(r.Provider)
	if c == nil || c.RevokeURL == "" || !r.Connected {
		return nil
	}
	a, err := s.authorization(r)
	if err != nil || a.AccessToken == "" {
		return err
	}
	err = s.postRevocation(ctx, c, a.AccessToken)
	if err != nil {
		return core.Errorf(core.Unprocessable, "The configuration at %s could not be removed: %.200s. Try again later, or disable the notification service.", r.Provider.Name, err)
	}
	return nil
}

func (s *Service) postRevocation(ctx context.Context, c *Connection, token string) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	form := url.Values{"token": {token}, "client_id": {c.ClientID}, "client_secret": {c.ClientSecret}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.client.Do(req)
	if err != nil {
		return errors.New("it does not answer")
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("it answers with status %d", resp.StatusCode)
	}
	return nil
}
