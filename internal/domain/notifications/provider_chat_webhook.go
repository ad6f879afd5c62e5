package notifications

import "encoding/json"

// chatWebhook posts messages to an incoming webhook of a chat or a compatible service.
var chatWebhook = &Provider{
	ID: "chat_webhook", Name: "Chat Webhook",
	connection: func(c Connections) *Connection { return c.Chat },
	scopes:     []string{"incoming-webhook"},
	Settings: []Setting{
		{Name: "url", Kind: address{}, Required: true, Show: Omitted, Doc: "The incoming webhook. It is never shown.", change: notIfConnected},
		theme,
		{Name: "channel", Kind: text{max: 255}, Managed: true, Doc: "Channel of a webhook connected through the web interface."},
		{Name: "workspace_name", Kind: text{max: 255}, Managed: true, Doc: "Workspace of a webhook connected through the web interface."},
	},
}

// theme is the style of chat messages.
var theme = Setting{
	Name: "theme", Kind: choice{"text", "emoji"}, Default: fixed("text"), Doc: "Message style.",
}

// ChatWebhookSettings are the settings of a chat webhook.
type ChatWebhookSettings struct {
	URL   string `json:"url"`
	Theme string `json:"theme"`
}

// notIfConnected rejects changes to connected receivers.
func notIfConnected(r *Receiver, _, _ json.RawMessage) string {
	if r.Connected {
		return "cannot be changed, because it was connected through the web interface; connect it again there"
	}
	return ""
}
