// Package notificationstest provides a chat and issue tracker for tests that connect notification services: the OAuth
// provider, the API of a chat and the API of a tracker.
package notificationstest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/outbound/oauthtest"
)

// ClientID is the registered application of a Workspace.
const ClientID = "stackyard-at-the-chat"

// A Workspace is a chat or tracker with OAuth. It approves every authorization request immediately. Codes and refresh
// tokens are valid once, and codes require the PKCE verifier.
type Workspace struct {
	*httptest.Server
	// Down makes token and revocation requests fail with 502.
	Down bool
	// ExpiresIn is the lifetime of access tokens in seconds; 0: unlimited, without refresh tokens.
	ExpiresIn int
	// Channels are the channels that messages can be posted to.
	Channels []string
	// ChatError is the error of every message; empty: none.
	ChatError string
	// Teams are the keys of the teams that can have issues.
	Teams []string
	// TrackerError is the code of the error of every request to the tracker; empty: none.
	TrackerError string
	// LoseAnswers and LoseMutations are how many answers of the tracker to queries and mutations do not arrive.
	LoseAnswers, LoseMutations int

	codes   oauthtest.Codes
	mu      sync.Mutex
	refresh []string // valid refresh tokens
	access  []string // valid access tokens
	revoked []string

	messages []ChatMessage
	issues   []*Issue
}

// NewWorkspace starts a workspace, and stops it when the test ends.
func NewWorkspace(t testing.TB) *Workspace {
	t.Helper()
	w := &Workspace{codes: oauthtest.Codes{ClientID: ClientID}, Channels: []string{"#builds", "#other"}, Teams: []string{"ENG"}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", w.authorize)
	mux.HandleFunc("POST /token", w.token)
	mux.HandleFunc("POST /revoke", w.revoke)
	mux.HandleFunc("POST /api/chat.postMessage", w.postMessage)
	mux.HandleFunc("POST /graphql", w.graphQL)
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	return w
}

// Connections returns the OAuth applications of the workspace.
func (w *Workspace) Connections() notifications.Connections {
	chat, tracker := w.Connection(), w.Connection()
	chat.APIURL, tracker.APIURL = w.URL+"/api", w.URL+"/graphql"
	return notifications.Connections{Chat: chat, Tracker: tracker}
}

// Revoke revokes all access tokens, as an administrator of the workspace does.
func (w *Workspace) Revoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access, w.revoked = nil, append(w.revoked, w.access...)
}

// Connection returns the OAuth application of the workspace.
func (w *Workspace) Connection() *notifications.Connection {
	return &notifications.Connection{
		ClientID: ClientID, ClientSecret: oauthtest.ClientSecret,
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

// Refuse changes the OAuth error of authorization requests; empty: none.
func (w *Workspace) Refuse(code string) { w.codes.SetRefuse(code) }

// Set changes the workspace under its lock.
func (w *Workspace) Set(change func(w *Workspace)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *Workspace) authorize(rw http.ResponseWriter, r *http.Request) { w.codes.Authorize(rw, r) }

func (w *Workspace) token(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	if w.Down {
		rw.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.FormValue("client_id") != ClientID || r.FormValue("client_secret") != oauthtest.ClientSecret {
		refuse(rw, "invalid_client")
		return
	}
	scope := ""
	switch r.FormValue("grant_type") {
	case "authorization_code":
		query, ok := w.codes.Redeem(r)
		if !ok {
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
