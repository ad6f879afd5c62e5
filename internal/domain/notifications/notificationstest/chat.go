package notificationstest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// A ChatMessage is a message that was posted to a channel of a workspace.
type ChatMessage struct {
	Channel     string
	Text        string
	Attachments []struct {
		Color    string
		Fallback string
		Blocks   []struct {
			Type     string
			Text     *struct{ Type, Text string }
			Elements []struct{ Type, Text string }
		}
	}
	Metadata struct {
		EventType    string            `json:"event_type"`
		EventPayload map[string]string `json:"event_payload"`
	}
}

// All returns everything that the message says, one block on each line.
func (m ChatMessage) All() string {
	lines := []string{m.Text}
	for _, a := range m.Attachments {
		for _, b := range a.Blocks {
			if b.Text != nil {
				lines = append(lines, b.Text.Text)
			}
			for _, e := range b.Elements {
				lines = append(lines, e.Text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Messages returns the messages that were posted.
func (w *Workspace) Messages() []ChatMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.messages)
}

// postMessage is chat.postMessage. As chats do, it reports errors with the status 200.
func (w *Workspace) postMessage(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json; charset=utf-8")
	answer := func(code string) {
		json.NewEncoder(rw).Encode(map[string]any{"ok": code == "", "error": code})
	}
	var m ChatMessage
	switch problem := w.authorized(r); {
	case w.Down:
		rw.WriteHeader(http.StatusBadGateway)
	case problem != "":
		answer(problem)
	case w.ChatError != "":
		answer(w.ChatError)
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || json.NewDecoder(r.Body).Decode(&m) != nil:
		answer("invalid_json")
	case !slices.Contains(w.Channels, m.Channel):
		answer("channel_not_found")
	case m.Text == "" || !validBlocks(m):
		answer("invalid_blocks")
	default:
		w.messages = append(w.messages, m)
		answer("")
	}
}

// authorized returns the error of a request without a valid access token; empty: it has one.
func (w *Workspace) authorized(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return "not_authed"
	case slices.Contains(w.revoked, token):
		return "token_revoked"
	case !slices.Contains(w.access, token):
		return "invalid_auth"
	}
	return ""
}

// validBlocks reports whether a chat would accept the blocks of a message.
func validBlocks(m ChatMessage) bool {
	for _, a := range m.Attachments {
		if len(a.Blocks) == 0 || len(a.Blocks) > 50 || a.Fallback == "" {
			return false
		}
		for _, b := range a.Blocks {
			switch b.Type {
			case "section":
				if b.Text == nil || b.Text.Type != "mrkdwn" || b.Text.Text == "" || len(b.Text.Text) > 3000 {
					return false
				}
			case "context":
				if len(b.Elements) == 0 || len(b.Elements) > 10 {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}
