package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// clientID is the id of the public OAuth application for the command line, which every installation has.
const clientID = "stackyard-cli"

// Scopes are the scopes that the command line requests by default: those that its commands need.
var Scopes = []string{
	"read_user", "read_organizations",
	"read_pipelines", "write_pipelines",
	"read_builds", "write_builds", "read_build_logs", "read_job_env", "read_artifacts",
	"read_clusters", "write_clusters",
	"read_agents", "write_agents",
	"read_secrets_details", "write_secrets", "read_teams", "write_teams", "read_suites", "write_suites",
	"read_notification_services", "write_notification_services",
}

func config(server string, scopes []string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: clientID,
		Endpoint: oauth2.Endpoint{
			DeviceAuthURL: server + "/oauth/device_authorization",
			TokenURL:      server + "/oauth/token",
			AuthStyle:     oauth2.AuthStyleInParams,
		},
		Scopes: scopes,
	}
}

// A Device is a pending device authorization.
type Device struct {
	// The user enters UserCode at VerificationURL. VerificationURLComplete includes the code.
	UserCode                string
	VerificationURL         string
	VerificationURLComplete string
	Expiry                  time.Time

	config *oauth2.Config
	answer *oauth2.DeviceAuthResponse
}

// BeginLogin requests access with scopes. organization, unless empty, is the slug of the organization that is
// preselected.
func BeginLogin(ctx context.Context, server string, scopes []string, organization string) (*Device, error) {
	c := config(server, scopes)
	var hints []oauth2.AuthCodeOption
	if organization != "" {
		hints = append(hints, oauth2.SetAuthURLParam("organization", organization))
	}
	answer, err := c.DeviceAuth(ctx, hints...)
	if err != nil {
		return nil, explain(server, err)
	}
	return &Device{
		UserCode:                answer.UserCode,
		VerificationURL:         answer.VerificationURI,
		VerificationURLComplete: answer.VerificationURIComplete,
		Expiry:                  answer.Expiry,
		config:                  c,
		answer:                  answer,
	}, nil
}

// Wait returns when the user has approved or denied the request, or the code has expired.
func (d *Device) Wait(ctx context.Context, server string) (Login, error) {
	token, err := d.config.DeviceAccessToken(ctx, d.answer)
	if err != nil {
		return Login{}, explain(server, err)
	}
	return loginOf(token), nil
}

func loginOf(token *oauth2.Token) Login {
	return Login{AccessToken: token.AccessToken, RefreshToken: token.RefreshToken, Expiry: token.Expiry}
}

// renewBefore is how long before expiry a token is renewed.
const renewBefore = time.Minute

func (l Login) stale(now time.Time) bool {
	return !l.Expiry.IsZero() && l.RefreshToken != "" && !now.Add(renewBefore).Before(l.Expiry)
}

// Renew returns the stored login for a server, and renews its tokens if they are about to expire. A refresh
// token can be used once, so concurrent programs are serialized.
func Renew(ctx context.Context, path, server string) (Login, error) {
	hosts, err := LoadHosts(path)
	if err != nil {
		return Login{}, err
	}
	login, ok := hosts.Logins[server]
	if !ok || !login.stale(time.Now()) {
		return login, nil
	}
	err = ChangeHosts(path, func(hosts *Hosts) error {
		login = hosts.Logins[server]
		if !login.stale(time.Now()) {
			return nil // another program renewed it
		}
		token, err := config(server, nil).TokenSource(ctx, &oauth2.Token{RefreshToken: login.RefreshToken}).Token()
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
			return nil // the login has expired or was revoked; the server says so when the token is used
		}
		if err != nil {
			return explain(server, err)
		}
		renewed := loginOf(token)
		renewed.Email = login.Email
		hosts.Logins[server], login = renewed, renewed
		return nil
	})
	return login, err
}

// Revoke revokes a login on its server: the grant and all its tokens.
func (l Login) Revoke(ctx context.Context, server string) error {
	token := l.RefreshToken
	if token == "" {
		token = l.AccessToken
	}
	form := url.Values{"token": {token}, "client_id": {clientID}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/oauth/revoke", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("reach %s: %w", server, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s", server, res.Status)
	}
	return nil
}

var errExpired = errors.New("the code has expired before it was approved; run the command again")

// explain converts an OAuth error into a readable one.
func explain(server string, err error) error {
	refusal, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errExpired
	case !ok:
		return fmt.Errorf("reach %s: %w", server, err)
	case refusal.ErrorCode == "access_denied":
		return errors.New("the request was denied in the browser")
	case refusal.ErrorCode == "expired_token":
		return errExpired
	case refusal.ErrorDescription != "":
		return errors.New(refusal.ErrorDescription)
	case refusal.ErrorCode != "":
		return fmt.Errorf("%s returned %s", server, refusal.ErrorCode)
	default:
		return fmt.Errorf("%s returned %s; is it a Stackyard server?", server, refusal.Response.Status)
	}
}
