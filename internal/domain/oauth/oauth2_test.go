package oauth_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"
)

// outside does things outside of a bubble of synctest for those in it: there is the server, with real
// connections. The time of the bubble does not advance meanwhile, and the server's follows it.
type outside struct {
	w    *fixture
	mu   sync.Mutex
	last time.Time
	work chan func()
	done chan struct{}
}

// outsideOf returns what works until the end of the test. It is called outside.
func outsideOf(w *fixture) *outside {
	o := &outside{w: w, work: make(chan func()), done: make(chan struct{})}
	var working sync.WaitGroup
	working.Go(func() {
		for f := range o.work {
			f()
			o.done <- struct{}{}
		}
	})
	w.T.Cleanup(func() {
		close(o.work)
		working.Wait()
	})
	return o
}

func (o *outside) do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.last.IsZero() {
		o.w.Clock.Advance(now.Sub(o.last))
	}
	o.last = now
	o.work <- f
	<-o.done
}

// RoundTrip sends a request from inside.
func (o *outside) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	var body []byte
	if req.Body != nil {
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	o.do(func() {
		// Nothing of the request's context goes outside.
		sent, _ := http.NewRequest(req.Method, req.URL.String(), bytes.NewReader(body))
		sent.Header = req.Header
		if resp, err = http.DefaultClient.Do(sent); err != nil {
			return
		}
		defer resp.Body.Close()
		var got []byte
		got, err = io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(got))
	})
	return resp, err
}

func (w *fixture) config(clientID, secret string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: clientID, ClientSecret: secret, Scopes: []string{"read_user", "read_organizations"}, RedirectURL: local,
		Endpoint: oauth2.Endpoint{
			AuthURL: w.URL + "/oauth/authorize", DeviceAuthURL: w.URL + "/oauth/device_authorization", TokenURL: w.URL + "/oauth/token",
		},
	}
}

// The library finds out by itself where the server wants the credentials, which is why it sends every
// poll twice before the user has decided. It must not be slowed down for that.
func TestOAuth2Library_SignsInOnADeviceAndStaysSignedIn(t *testing.T) {
	for _, c := range []struct{ clientID, secret string }{{"cli", ""}, {"robot", robotSecret}} {
		eachFixture(t, func(t *testing.T, w *fixture) {
			o := outsideOf(w)
			config := w.config(c.clientID, c.secret)
			synctest.Test(t, func(t *testing.T) {
				ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: o})
				var options []oauth2.AuthCodeOption
				if c.secret != "" {
					options = append(options, oauth2.SetAuthURLParam("client_secret", c.secret))
				}
				began := time.Now()
				device, err := config.DeviceAuth(ctx, options...)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(12 * time.Second)
					o.do(func() { w.approve(ada, started{device.DeviceCode, device.UserCode}, w.OrgID) })
				}()
				token, err := config.DeviceAccessToken(ctx, device)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != 15*time.Second {
					t.Errorf("it took %s to get a token that was there after 12s", took)
				}
				api := config.Client(ctx, token)
				wantUser(t, api, w.URL)
				time.Sleep(3 * time.Hour) // three times what a token lives
				wantUser(t, api, w.URL)
				time.Sleep(3 * time.Hour)
				wantUser(t, api, w.URL)
			})
		})
	}
}

func wantUser(t *testing.T, api *http.Client, url string) {
	t.Helper()
	resp, err := api.Get(url + "/v2/user")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "ada@acme.test") {
		t.Errorf("GET /v2/user: %d %s", resp.StatusCode, body)
	}
}

func TestOAuth2Library_IsNotifiedWhenTheUserDenies(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		o := outsideOf(w)
		config := w.config("cli", "")
		synctest.Test(t, func(t *testing.T) {
			ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: o})
			device, err := config.DeviceAuth(ctx)
			if err != nil {
				t.Fatal(err)
			}
			o.do(func() {
				if err := w.pages.DenyDevice(w.T.Context(), ada, device.UserCode); err != nil {
					w.T.Error(err)
				}
			})
			_, err = config.DeviceAccessToken(ctx, device)
			if e, ok := err.(*oauth2.RetrieveError); !ok || e.ErrorCode != "access_denied" {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestOAuth2Library_ExchangesAnAuthorizationCode(t *testing.T) {
	eachFixture(t, func(t *testing.T, w *fixture) {
		config := w.config("cli", "")
		verifier := oauth2.GenerateVerifier()
		asked, err := url.Parse(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))
		if err != nil {
			t.Fatal(err)
		}
		to, err := w.pages.ApproveAuthorization(t.Context(), ada, asked.Query(), w.OrgID)
		if err != nil {
			t.Fatal(err)
		}
		back, err := url.Parse(to)
		if err != nil || back.Query().Get("state") != "state" {
			t.Fatalf("sent to %s, %v", to, err)
		}
		token, err := config.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
		if err != nil {
			t.Fatal(err)
		}
		w.As(t, token.AccessToken).Get("/v2/organizations").Want(200)
		if token.RefreshToken == "" || token.Expiry.IsZero() || token.Type() != "Bearer" {
			t.Errorf("got %+v", token)
		}
	})
}
