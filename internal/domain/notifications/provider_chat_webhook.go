package notifications

import "encoding/json"

// chatWebhook posts messages to an incoming webhook of a chat, or of anything that takes the same requests.
var chatWebhook = &Provider{
	ID: "chat_webhook", Name: "Chat Webhook",
	connection: func(c Connections) *Connection { return c.Chat },
	scopes:     []string{"incoming-webhook"},
	Settings: []Setting{
		{Name: "url", Kind: address{}, Required: true, Show: Omitted, Doc: "The incoming webhook. It is never shown.", change: notIfConnected},
		theme,
		{Name: "channel", Kind: text{max: 255}, Managed: true, Doc: "The channel of a webhook that was connected through the web."},
		{Name: "workspace_name", Kind: text{max: 255}, Managed: true, Doc: "The workspace of a webhook that was connected through the web."},
	},
}

// theme is how messages to chats look.
var theme = Setting{
	Name: "theme", Kind: choice{"text", "emoji"}, Default: fixed("text"), Doc: "Whether messages name build states in words or with emoji.",
}

// ChatWebhookSettings are the settings of a chat webhook.
type ChatWebhookSettings struct {
	URL   string `json:"url"`
	Theme string `json:"theme"`
}

// notIfConnected refuses changes to what came from the provider.
func notIfConnected(r *Receiver, _, _ json.RawMessage) string {
	if r.Connected {
		return "cannot be changed, because it was connected through the web interface; connect it again there"
	}
	return ""
}
