package delivery

import (
	"fmt"
	"strings"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// A chatMessage is a message with a colored bar beside it. Chats that show no attachments show its text.
type chatMessage struct {
	Text        string           `json:"text"`
	Attachments []chatAttachment `json:"attachments"`
}

type chatAttachment struct {
	Color    string      `json:"color"`
	Fallback string      `json:"fallback"`
	Blocks   []chatBlock `json:"blocks"`
}

type chatBlock struct {
	Type     string     `json:"type"`
	Text     *chatText  `json:"text,omitempty"`
	Elements []chatText `json:"elements,omitempty"`
}

type chatText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// A chatState is how a chat shows what happened.
type chatState struct{ word, emoji, color string }

// chatStates are the words for what happened, by what package notifications calls it.
var chatStates = map[string]chatState{
	"passed":    {"passed", ":white_check_mark:", "#16a34a"},
	"fixed":     {"passed and is fixed", ":tada:", "#16a34a"},
	"failed":    {"failed", ":x:", "#dc2626"},
	"failing":   {"is failing", ":warning:", "#dc2626"},
	"blocked":   {"is blocked", ":hand:", "#6b7280"},
	"canceled":  {"was canceled", ":no_entry_sign:", "#6b7280"},
	"activated": {"was unblocked", ":arrow_forward:", "#2563eb"},
}

// chatState returns how a chat shows the event.
func (m *Message) chatState() chatState {
	b := m.Event.Facts.Build
	switch {
	case m.Event.Name == events.JobActivated:
		return chatStates["activated"]
	case m.Event.Name == events.JobFinished && m.Job.Passed():
		return chatStates["passed"]
	case m.Event.Name == events.JobFinished:
		return chatStates["failed"]
	case m.Event.Name == events.BuildFailing:
		return chatStates["failing"]
	case b.Blocked != "":
		return chatStates["blocked"]
	case b.Fixed:
		return chatStates["fixed"]
	case b.State == flow.BuildPassed, b.State == flow.BuildFailed, b.State == flow.BuildCanceled:
		return chatStates[string(b.State)]
	}
	return chatState{word: "is " + strings.ReplaceAll(string(b.State), "_", " "), emoji: ":information_source:", color: "#6b7280"}
}

// maxChatText bounds what a person wrote in a message, in characters.
const maxChatText = 300

// chat returns the message for a chat in a theme.
func (m *Message) chat(theme string) chatMessage {
	if m.Event.Name == ping {
		plain := fmt.Sprintf("Test message from Stackyard: builds of %s will be reported here.", m.Organization.Name)
		if theme == "emoji" {
			plain = ":wave: " + plain
		}
		block := chatBlock{Type: "section", Text: &chatText{"mrkdwn", chatEscape(plain)}}
		return chatMessage{Text: plain, Attachments: []chatAttachment{{Color: "#2563eb", Fallback: plain, Blocks: []chatBlock{block}}}}
	}
	state := m.chatState()
	name := fmt.Sprintf("%s #%d", m.Pipeline.Name, m.Build.Number)
	what := "Build"
	if m.Job != nil {
		what = "Step “" + m.Job.Label + "” of build"
		if m.Job.Label == "" {
			what = "A step of build"
		}
	}
	address := m.service.Builds.Address(m.Organization, m.Pipeline, m.Build.Number).Web()
	plain := fmt.Sprintf("%s %s %s", what, name, state.word)
	linked := fmt.Sprintf("%s *<%s|%s>* %s", chatEscape(what), address, chatEscape(name), state.word)
	if theme == "emoji" {
		plain, linked = state.emoji+" "+plain, state.emoji+" "+linked
	}
	blocks := []chatBlock{{Type: "section", Text: &chatText{"mrkdwn", linked}}}
	if title, _, _ := strings.Cut(m.Build.Message, "\n"); strings.TrimSpace(title) != "" {
		blocks = append(blocks, chatBlock{Type: "section", Text: &chatText{"mrkdwn", chatEscape(core.Cut(title, maxChatText))}})
	}
	if m.Target != nil && m.Target.Text != "" {
		blocks = append(blocks, chatBlock{Type: "section", Text: &chatText{"mrkdwn", chatEscape(core.Cut(m.Target.Text, maxChatText))}})
	}
	blocks = append(blocks, chatBlock{Type: "context", Elements: []chatText{{"mrkdwn", chatEscape(strings.Join(m.chatDetails(), " · "))}}})
	return chatMessage{Text: plain, Attachments: []chatAttachment{{Color: state.color, Fallback: plain, Blocks: blocks}}}
}

// chatDetails returns branch, commit, author and duration of the build, as far as they are known.
func (m *Message) chatDetails() []string {
	b := m.Build
	details := []string{core.Cut(b.Branch, maxChatText), core.Cut(b.Commit, 10)}
	switch {
	case b.Author != nil && b.Author.Name != "":
		details = append(details, core.Cut(b.Author.Name, maxChatText))
	case b.Creator != nil:
		details = append(details, core.Cut(b.Creator.Name, maxChatText))
	}
	if !b.StartedAt.IsZero() && !b.FinishedAt.IsZero() {
		details = append(details, b.FinishedAt.Sub(b.StartedAt).Round(time.Second).String())
	}
	return details
}

// chatEscape replaces the characters that mean something in messages of chats.
func chatEscape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
