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
		{Name: "token", Kind: text{max: 255, header: true}, Default: newToken, Doc: "Proves to the receiver that requests come from here. Generated unless given."},
		{Name: "token_mode", Kind: choice{tokenInClear, tokenSigns}, Default: fixed(tokenInClear), Doc: "Whether the token is sent, or signs each request with HMAC-SHA256."},
		{Name: "version", Kind: integer{1, latestVersion}, Default: fixed(latestVersion), Doc: "The version of the payloads. It can be raised, not lowered.", change: onlyRaised},
		{Name: "events", Kind: eventNames, Default: fixed([]string{}), Doc: "The events that are posted."},
		{Name: "tls_verify", Kind: flag{}, Default: fixed(true), Doc: "Whether the certificate of an https URL must be valid."},
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

// The ways in which a webhook's token is used.
const (
	tokenInClear = "token"
	tokenSigns   = "signature"
)

// latestVersion is the newest version of webhook payloads.
const latestVersion = 3

// newToken returns a token for a webhook that is given none: without one, signatures would prove nothing.
func newToken() any { return seal.NewToken("") }

// onlyRaised refuses a lower number.
func onlyRaised(_ *Receiver, from, to json.RawMessage) string {
	var before, after int
	if json.Unmarshal(from, &before) == nil && json.Unmarshal(to, &after) == nil && after < before {
		return "cannot be lowered; it can be raised to the latest version only"
	}
	return ""
}
