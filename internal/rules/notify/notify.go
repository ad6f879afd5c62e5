// Package notify reads the notifications that pipelines and steps ask for with notify, as package definition passes
// them on. It is pure.
package notify

import (
	"strings"

	"stackyard/internal/rules/condition"
)

// A Kind is a way to notify.
type Kind string

// The kinds.
const (
	Email        Kind = "email"
	Webhook      Kind = "webhook"
	Chat         Kind = "slack"
	CommitStatus Kind = "github_commit_status"
	Check        Kind = "github_check"
)

// A Notification is one notification to one target.
type Notification struct {
	Kind Kind
	// Target is an address, a URL, a channel, or the context of a commit status, which may be empty.
	Target string
	// Text is what a chat message says besides what happened; empty: nothing.
	Text string
	// If is the condition; nil: none.
	If *condition.Condition
}

// Max is how many notifications a build or a step can have. Others are ignored.
const Max = 100

// Read returns the notifications in a list. It ignores those of other kinds, and those that are not written as they
// must be: a bad notification does not keep a build from running.
func Read(list any) (found []Notification) {
	items, _ := list.([]any)
	for _, item := range items {
		if kind, ok := item.(string); ok {
			item = map[string]any{kind: nil}
		}
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		when, ok := readCondition(fields["if"])
		if !ok {
			continue
		}
		for _, n := range readItem(fields) {
			if len(found) == Max {
				return found
			}
			n.If = when
			found = append(found, n)
		}
	}
	return found
}

// Holds reports whether the condition of a notification holds.
func (n Notification) Holds(c *condition.Context) bool { return n.If == nil || n.If.Eval(c) }

func readCondition(value any) (c *condition.Condition, ok bool) {
	text, isText := value.(string)
	if value == nil || isText && strings.TrimSpace(text) == "" {
		return nil, true
	}
	c, err := condition.ParseNotification(text)
	return c, err == nil
}

// readItem returns the notifications of one item: a chat message can have several channels.
func readItem(fields map[string]any) (found []Notification) {
	for _, kind := range []Kind{Email, Webhook, Chat, CommitStatus, Check} {
		value, ok := fields[string(kind)]
		if !ok {
			continue
		}
		switch kind {
		case Chat:
			found = append(found, readChat(value)...)
		case CommitStatus, Check:
			options, _ := value.(map[string]any)
			context, _ := options["context"].(string)
			found = append(found, Notification{Kind: kind, Target: context})
		default:
			if target, ok := value.(string); ok && target != "" {
				found = append(found, Notification{Kind: kind, Target: target})
			}
		}
	}
	return found
}

// readChat reads a channel, or an object with channels and a message.
func readChat(value any) (found []Notification) {
	switch v := value.(type) {
	case string:
		if v != "" {
			found = append(found, Notification{Kind: Chat, Target: v})
		}
	case map[string]any:
		text, _ := v["message"].(string)
		channels, _ := v["channels"].([]any)
		for _, channel := range channels {
			if name, ok := channel.(string); ok && name != "" {
				found = append(found, Notification{Kind: Chat, Target: name, Text: text})
			}
		}
	}
	return found
}
