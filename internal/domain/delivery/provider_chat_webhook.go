package delivery

import (
	"encoding/json"
	"net/http"

	"stackyard/internal/domain/notifications"
)

// chatWebhook posts messages to incoming webhooks of chats, in the form that Slack and programs like it take.
var chatWebhook = &Provider{Names: switchNames, Wants: switchWants, Request: chatWebhookRequest, Tests: true}

func chatWebhookRequest(m *Message) (*Request, error) {
	var settings notifications.ChatWebhookSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return nil, err
	}
	body, err := json.Marshal(m.chat(settings.Theme))
	if err != nil {
		return nil, err
	}
	return &Request{URL: settings.URL, SecretURL: true, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
}
