package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/notify"
)

// askedFor returns what pipelines and steps ask for with notify when events happen. E-mails go through the
// organization's SMTP service and chat messages through the service of the channel; without such a service they are not
// sent.
// Webhooks are tasks of their own.
func (s *Service) askedFor(q *db.Q, orgID string, happened []events.Event, receivers []openReceiver, teams map[string][]string) (list []*Delivery, hooks []tasks.Task, err error) {
	names, err := builds.NotifyEvents(q, orgID)
	if err != nil || names == 0 {
		return nil, nil, err
	}
	org, err := organizationByID(q, orgID)
	if err != nil {
		return nil, nil, err
	}
	now := s.Clock()
	for _, e := range happened {
		if !names.Has(e.Name) {
			continue
		}
		asked, err := s.Builds.Notifications(q, org, e)
		if core.KindOf(err) == core.NotFound { // the build was deleted
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		target := targetOf(e, teams)
		for _, n := range asked {
			if n.Kind == notify.Webhook && isURL(n.Target) {
				hooks = append(hooks, tasks.Task{Kind: hookTask, Key: core.NewID(), Payload: hook{orgID, e.Name, e.Seq, n.Target}, RunAt: now})
			}
			if r := carrier(receivers, e, n, target); r != nil {
				d := newDelivery(orgID, r.ID, e, now)
				d.Target = &Target{To: n.Target, Text: n.Text}
				list = append(list, d)
			}
		}
	}
	return list, hooks, nil
}

// carrier returns the receiver that a notification of an event goes through, or nil. A chat message goes through the
// webhook of its channel, or else through the workspace that has the channel. E-mails are about builds.
func carrier(receivers []openReceiver, e events.Event, n notify.Notification, target notifications.Target) *openReceiver {
	first := func(provider string, fits func(settings chatPlace) bool) *openReceiver {
		for i := range receivers {
			r := &receivers[i]
			var place chatPlace
			if r.Provider.ID == provider && r.Covers(target) && r.settings.Decode(&place) == nil && fits(place) {
				return r
			}
		}
		return nil
	}
	switch {
	case n.Kind == notify.Email && e.JobID == "":
		return first("smtp", func(chatPlace) bool { return true })
	case n.Kind == notify.Chat:
		channel, workspace := strings.TrimPrefix(channelOf(n.Target), "#"), workspaceOf(n.Target)
		if r := first("chat_webhook", func(p chatPlace) bool { return p.Channel != "" && strings.TrimPrefix(p.Channel, "#") == channel }); r != nil {
			return r
		}
		return first("chat_workspace", func(p chatPlace) bool {
			return workspace == "" || strings.EqualFold(workspace, p.Name) || strings.EqualFold(workspace, p.ID)
		})
	}
	return nil
}

// A chatPlace is the part of the settings of a chat that says where its messages go.
type chatPlace struct {
	Channel string `json:"channel"`
	ID      string `json:"workspace_id"`
	Name    string `json:"workspace_name"`
}

// hookTask posts an event to a URL that a pipeline or a step names.
const hookTask = "notify-webhook"

// maxHooks is how many of them are posted at the same time.
const maxHooks = 16

// A hook is the payload of a hookTask. The key of the task is the id of the delivery.
type hook struct {
	OrganizationID string      `json:"organization_id"`
	Event          events.Name `json:"event"`
	EventSeq       int64       `json:"event_seq"`
	URL            string      `json:"url"`
}

// maxURL is the length of the longest URL, in bytes.
const maxURL = 2048

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && len(text) <= maxURL
}

// sendHook posts an event as webhooks do, without a token. It fails when another attempt may succeed.
func (s *Service) sendHook(ctx context.Context, t *tasks.Due) error {
	var h hook
	if err := t.Payload(&h); err != nil {
		return err
	}
	org, err := s.Directory.OrganizationByID(ctx, h.OrganizationID)
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := s.message(ctx, &Delivery{ID: t.Key, Event: h.Event, EventSeq: h.EventSeq}, org, openReceiver{Receiver: &notifications.Receiver{}})
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(m.Payload())
	if err != nil {
		return err
	}
	r := &Request{URL: h.URL, Body: body, Header: http.Header{"Content-Type": {"application/json"}, "X-Buildkite-Request": {t.Key}}}
	for _, prefix := range headerPrefixes {
		r.Header.Set(prefix+"Event", string(h.Event))
		r.Header.Set(prefix+"Delivery", t.Key)
	}
	if answer := s.do(ctx, r); answer.retries() {
		return errors.New(answer.explain())
	}
	return nil
}
