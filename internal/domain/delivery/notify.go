package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
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
// organization's SMTP service and chat messages through the service of the channel; without such a service they are not sent.
// Webhooks are tasks of their own.
func (s *Service) askedFor(q *db.Q, orgID string, happened []events.Event, receivers []openReceiver) (list []*Delivery, hooks []tasks.Task, err error) {
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
		for _, n := range asked {
			if n.Kind == notify.Webhook && isURL(n.Target) {
				hooks = append(hooks, tasks.Task{Kind: hookTask, Key: core.NewID(), Payload: hook{orgID, e.Name, e.Seq, n.Target}, RunAt: now})
			}
			i := slices.IndexFunc(receivers, func(r openReceiver) bool { return carries(r, e, n) })
			if i >= 0 {
				d := newDelivery(orgID, receivers[i].ID, e, now)
				d.Target = &Target{To: n.Target, Text: n.Text}
				list = append(list, d)
			}
		}
	}
	return list, hooks, nil
}

// carries reports whether a notification of an event goes through a receiver. E-mails are about builds.
func carries(r openReceiver, e events.Event, n notify.Notification) bool {
	switch n.Kind {
	case notify.Email:
		return r.Provider.ID == "smtp" && e.JobID == ""
	case notify.Chat:
		var channel string
		json.Unmarshal(r.settings["channel"], &channel) // one that was not connected has none
		_, asked, named := strings.Cut(n.Target, "#")
		if !named {
			asked = n.Target
		}
		return r.Provider.ID == "chat_webhook" && channel != "" && strings.TrimPrefix(channel, "#") == asked
	}
	return false
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
