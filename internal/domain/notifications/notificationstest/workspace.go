// Package notificationstest provides an OAuth provider for tests that connect notification services.
package notificationstest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/domain/notifications"
)

// The registered application of a Workspace.
const (
	ClientID     = "stackyard-at-the-chat"
	ClientSecret = "a secret of the two"
)

// A Workspace is a chat or tracker with OAuth. It approves every authorization request immediately. Codes and refresh
// tokens are valid once, and codes require the PKCE verifier.
type Workspace struct {
	*httptest.Server
	// Refuse is the OAuth error of authorization requests; empty: none.
	Refuse string
	// Down makes token and revocation requests fail with 502.
	Down bool
	// ExpiresIn is the lifetime of access tokens in seconds; 0: unlimited, without refresh tokens.
	ExpiresIn int

	mu      sync.Mutex
	asked   map[string]url.Values // by code
	refresh []string              // valid refresh tokens
	access  []string              // valid access tokens
	revoked []string
}

// NewWorkspace starts a workspace, and stops it when the test ends.
func NewWorkspace(t testing.TB) *Workspace {
	t.Helper()
	w := &Workspace{asked: make(map[string]url.Values)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", w.authorize)
	mux.HandleFunc("POST /token", w.token)
	mux.HandleFunc("POST /revoke", w.revoke)
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	return w
}

// Connection returns the OAuth application of the workspace.
func (w *Workspace) Connection() *notifications.Connection {
	return &notifications.Connection{
		ClientID: ClientID, ClientSecret: ClientSecret,
		AuthorizeURL: w.URL + "/authorize", TokenURL: w.URL + "/token", RevokeURL: w.URL + "/revoke",
	}
}

// Works reports whether an access token is valid.
func (w *Workspace) Works(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.access, token)
}

// Revoked returns the revoked access tokens.
func (w *Workspace) Revoked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.revoked)
}

// Set changes the workspace under its lock.
func (w *Workspace) Set(change func(w *Workspace)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *Workspace) authorize(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	query := r.URL.Query()
	back := url.Values{"state": {query.Get("state")}}
	switch {
	case query.Get("client_id") != ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" || query.Get("scope") == "" || query.Get("state") == "":
		http.Error(rw, "bad request", http.StatusBadRequest)
		return
	case w.Refuse != "":
		back.Set("error", w.Refuse)
	default:
		code := rand.Text()
		w.asked[code] = query
		back.Set("code", code)
	}
	http.Redirect(rw, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (w *Workspace) token(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	if w.Down {
		rw.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.FormValue("client_id") != ClientID || r.FormValue("client_secret") != ClientSecret {
		refuse(rw, "invalid_client")
		return
	}
	scope := ""
	switch r.FormValue("grant_type") {
	case "authorization_code":
		query := w.asked[r.FormValue("code")]
		delete(w.asked, r.FormValue("code"))
		challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if query == nil || query.Get("redirect_uri") != r.FormValue("redirect_uri") || query.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
			refuse(rw, "invalid_grant")
			return
		}
		scope = query.Get("scope")
	case "refresh_token":
		i := slices.Index(w.refresh, r.FormValue("refresh_token"))
		if i < 0 {
			refuse(rw, "invalid_grant")
			return
		}
		w.refresh = slices.Delete(w.refresh, i, i+1)
	default:
		refuse(rw, "unsupported_grant_type")
		return
	}
	json.NewEncoder(rw).Encode(w.grant(scope))
}

// grant returns a token response in the format of chats.
func (w *Workspace) grant(scope string) map[string]any {
	access := "access-" + rand.Text()
	w.access = append(w.access, access)
	answer := map[string]any{"ok": true, "access_token": access, "token_type": "Bearer", "team": map[string]any{"id": "T012", "name": "Acme Chat"}}
	if w.ExpiresIn > 0 {
		refresh := "refresh-" + rand.Text()
		w.refresh = append(w.refresh, refresh)
		answer["refresh_token"], answer["expires_in"] = refresh, w.ExpiresIn
	}
	if scope == "incoming-webhook" {
		answer["incoming_webhook"] = map[string]any{"url": w.URL + "/hooks/T012/secret", "channel": "#builds"}
	}
	return answer
}

func (w *Workspace) revoke(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	token := r.FormValue("token")
	switch {
	case w.Down:
		rw.WriteHeader(http.StatusBadGateway)
	case r.Header.Get("Authorization") != "Bearer "+token || !slices.Contains(w.access, token):
		refuse(rw, "token_revoked")
	default:
		w.access = slices.DeleteFunc(w.access, func(t string) bool { return t == token })
		w.revoked = append(w.revoked, token)
	}
}

// refuse writes an OAuth error.
func refuse(rw http.ResponseWriter, code string) {
	rw.WriteHeader(http.StatusBadRequest)
	rw.Write([]byte(`{"error":"` + strings.ReplaceAll(code, `"`, "") + `"}`))
}
