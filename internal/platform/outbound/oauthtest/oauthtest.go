// Package oauthtest provides the authorization code grant with PKCE for providers in tests.
package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"sync"
)

// ClientSecret is the secret of every application.
const ClientSecret = "a secret of the two"

// Codes are the authorization codes of a provider that approves every request at once. A code is valid once, for the
// redirect URI that it was requested with, and requires the PKCE verifier.
type Codes struct {
	ClientID string
	// Refuse is the OAuth error of authorization requests; empty: none.
	Refuse string

	mu    sync.Mutex
	asked map[string]url.Values // by code
}

// Authorize answers an authorization request. The query must have the parameters of the grant, and those that are
// required besides.
func (c *Codes) Authorize(w http.ResponseWriter, r *http.Request, required ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	query := r.URL.Query()
	for _, name := range append([]string{"scope", "state", "redirect_uri", "code_challenge"}, required...) {
		if query.Get(name) == "" {
			http.Error(w, "no "+name, http.StatusBadRequest)
			return
		}
	}
	if query.Get("client_id") != c.ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {query.Get("state")}}
	if c.Refuse != "" {
		back.Set("error", c.Refuse)
	} else {
		code := rand.Text()
		if c.asked == nil {
			c.asked = make(map[string]url.Values)
		}
		c.asked[code] = query
		back.Set("code", code)
	}
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// Redeem ends the code of a token request and returns the authorization request that it belongs to, or false.
func (c *Codes) Redeem(r *http.Request) (query url.Values, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	code := r.FormValue("code")
	query, ok = c.asked[code]
	delete(c.asked, code)
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	ok = ok && query.Get("redirect_uri") == r.FormValue("redirect_uri") && query.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(challenge[:])
	return query, ok
}

// SetRefuse changes the error of authorization requests.
func (c *Codes) SetRefuse(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Refuse = code
}
