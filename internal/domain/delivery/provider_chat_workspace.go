package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// chatWorkspace posts messages to channels of a connected workspace with chat.postMessage, one for each event: an edit of
// an earlier message would send no notification.
var chatWorkspace = &Provider{Names: workspaceNames, Wants: switchWants, Send: postMessage, Tests: true}

// workspaceNames are the names of a receiver that has a channel. Without one, it gets only what pipelines ask for.
func workspaceNames(r *notifications.Receiver, s notifications.Settings) events.Names {
	if s["channel"] == nil {
		return 0
	}
	return switchNames(r, s)
}

// A postedMessage is the body of chat.postMessage.
type postedMessage struct {
	Channel string `json:"channel"`
	chatMessage
	UnfurlLinks bool           `json:"unfurl_links"`
	UnfurlMedia bool           `json:"unfurl_media"`
	Metadata    postedMetadata `json:"metadata"`
}

// postedMetadata lets programs in the workspace recognize messages, and those that were sent twice.
type postedMetadata struct {
	Type    string            `json:"event_type"`
	Payload map[string]string `json:"event_payload"`
}

func postMessage(ctx context.Context, _ *http.Client, m *Message) Answer {
	var settings notifications.ChatWorkspaceSettings
	if err := m.Settings.Decode(&settings); err != nil {
		return Answer{}.refused(err)
	}
	channel := settings.Channel
	if m.Target != nil && m.Target.To != "" {
		channel = channelOf(m.Target.To)
	}
	if channel == "" {
		return Answer{}.refused(errors.New("no channel; set the setting channel"))
	}
	body, err := json.Marshal(postedMessage{Channel: channel, chatMessage: m.chat(settings.Theme), Metadata: postedMetadata{
		Type:    "stackyard_notification",
		Payload: map[string]string{"delivery": m.ID, "event": string(m.Event.Name), "build": m.Event.BuildID, "job": m.Event.JobID},
	}})
	if err != nil {
		return Answer{}.refused(err)
	}
	return m.call(ctx, "/chat.postMessage", body).chatResult()
}

// call posts JSON to the API of the receiver's provider with its access token.
func (m *Message) call(ctx context.Context, method string, body []byte) Answer {
	api := m.service.Receivers.API(m.Receiver)
	if api == "" {
		return Answer{}.refused(fmt.Errorf("this installation has no application at the %s any more", m.Receiver.Provider.Name))
	}
	token, err := m.service.Receivers.AccessToken(ctx, m.Receiver)
	if core.KindOf(err) == core.Unprocessable {
		return Answer{Broken: revoked(m.Receiver, err)}.refused(err)
	}
	if err != nil {
		return Answer{Err: err}
	}
	answer := m.service.do(ctx, &Request{
		URL:           strings.TrimSuffix(api, "/") + method,
		Header:        http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Authorization": {"Bearer " + token}},
		Body:          body,
		SecretHeaders: []string{"Authorization"},
	})
	if answer.Status == http.StatusUnauthorized {
		answer.Broken = revoked(m.Receiver, errors.New("status 401"))
	}
	return answer
}

// revoked says that a provider does not accept the access token, and what to do.
func revoked(r *notifications.Receiver, cause error) string {
	return fmt.Sprintf("%s does not accept the access token (%s); connect it again", r.Provider.Name, errorText(cause))
}

// Errors of a chat, which reports them with the status 200. Those of neither kind concern one message.
var (
	chatTokenErrors = []string{"account_inactive", "invalid_auth", "missing_scope", "no_permission", "not_allowed_token_type", "not_authed", "org_login_required", "team_access_not_granted", "token_expired", "token_revoked"}
	chatRetryErrors = []string{"fatal_error", "internal_error", "ratelimited", "rate_limited", "request_timeout", "service_unavailable", "team_added_to_org"}
)

// chatResult returns the answer with what the body says about the message.
func (a Answer) chatResult() Answer {
	if !a.delivered() {
		return a
	}
	var result struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(a.body, &result); err != nil {
		return a.refused(errors.New("the chat did not answer with JSON"))
	}
	if result.OK {
		return a
	}
	err := fmt.Errorf("the chat answered: %s", core.Cut(cmp.Or(result.Error, "not ok"), 100))
	switch {
	case slices.Contains(chatTokenErrors, result.Error):
		a.Broken = "Chat Workspace does not accept the access token (" + result.Error + "); connect it again"
	case slices.Contains(chatRetryErrors, result.Error):
		a.Status, a.Err = http.StatusServiceUnavailable, err
		return a
	}
	return a.refused(err)
}

// channelOf returns the channel of a target such as #builds, acme#builds or @ada.
func channelOf(target string) string {
	if _, channel, ok := strings.Cut(target, "#"); ok {
		return "#" + channel
	}
	return target
}

// workspaceOf returns the workspace that a target names; empty: none.
func workspaceOf(target string) string {
	workspace, _, _ := strings.Cut(target, "#")
	if strings.HasPrefix(target, "@") || !strings.Contains(target, "#") {
		return ""
	}
	return workspace
}
