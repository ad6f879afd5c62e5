package notifications

import (
	"encoding/json"

	"stackyard/internal/platform/seal"
)

// webhook posts events as JSON to a URL.
var webhook = &Provider{
	ID: "webhook", Name: "Webhook",
	Settings: []Setting{
		{Name: "url", Kind: address{}, Required: true, Doc: "Where events are posted."},
		{Name: "token", Kind: text{max: 255, header: true}, Default: newToken, Doc: "Lets the receiver verify requests. Generated unless given."},
		{Name: "token_mode", Kind: choice{TokenInClear, TokenSigns}, Default: fixed(TokenInClear), Doc: "token sends the token; signature signs each request with HMAC-SHA256."},
		{Name: "version", Kind: integer{1, latestVersion}, Default: fixed(latestVersion), Doc: "Payload version. It can be raised, not lowered.", change: onlyRaised},
		{Name: "events", Kind: eventNames, Default: fixed([]string{}), Doc: "The events that are posted."},
		{Name: "tls_verify", Kind: flag{}, Default: fixed(true), Doc: "Verify the TLS certificate."},
	},
}

// WebhookSettings are the settings of a webhook.
type WebhookSettings struct {
	URL       string   `json:"url"`
	Token     string   `json:"token"`
	TokenMode string   `json:"token_mode"`
	Version   int      `json:"version"`
	Events    []string `json:"events"`
	TLSVerify bool     `json:"tls_verify"`
}

// The token modes of a webhook.
const (
	TokenInClear = "token"
	TokenSigns   = "signature"
)

// latestVersion is the newest version of webhook payloads.
const latestVersion = 3

// newToken returns a random token, because signatures without one prove nothing.
func newToken() any { return seal.NewToken("") }

// onlyRaised rejects lower numbers.
func onlyRaised(_ *Receiver, from, to json.RawMessage) string {
	var before, after int
	if json.Unmarshal(from, &before) == nil && json.Unmarshal(to, &after) == nil && after < before {
		return "cannot be lowered; it can be raised to the latest version only"
	}
	return ""
}
