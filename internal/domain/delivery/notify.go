package delivery

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/notify"
)

// askedFor returns what pipelines and steps ask for with notify when events happen. E-mails go through the
// organization's SMTP service and chat messages through the service of the channel; without such a service they are not
// sent. Webhooks go to their hosts.
func (s *Service) askedFor(q *db.Q, orgID string, happened []events.Event, receivers []openReceiver, teams map[string][]string) (list []*Delivery, err error) {
	names, err := buildevents.NotifyEvents(q, orgID)
	if err != nil || names == 0 {
		return nil, err
	}
	org, err := identity.OrganizationByID(q, orgID)
	if err != nil {
		return nil, err
	}
	now := s.Clock()
	for _, e := range happened {
		if !names.Has(e.Name) {
			continue
		}
		asked, err := buildevents.Notifications(q, s.Builds, org, e)
		if core.KindOf(err) == core.NotFound { // the build was deleted
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range asked {
			if d := newNotification(orgID, e, n, carrier(receivers, e, n, targetOf(e, teams)), now); d != nil {
				list = append(list, d)
			}
		}
	}
	return list, nil
}

// newNotification returns the delivery of a notification through a receiver, or of a webhook; nil if neither.
func newNotification(orgID string, e events.Event, n notify.Notification, through *openReceiver, now time.Time) *Delivery {
	var d *Delivery
	host, isHook := hostOf(n.Target)
	switch {
	case through != nil:
		d = newDelivery(orgID, through.ID, e, now)
	case n.Kind == notify.Webhook && isHook:
		d = newDelivery(orgID, hostReceiverID(orgID, host), e, now)
		d.Host = host
		d.OrderKey += " " + n.Target // other URLs of the host need not wait for this one
	default:
		return nil
	}
	d.Target = &Target{Kind: n.Kind, To: n.Target, Text: n.Text}
	return d
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

// hostTask sends the pending webhooks of an organization to a host. It is not sendTask, so that hosts that do not answer
// take no place of services.
const hostTask = "notify-webhook-host"

// A hostPayload is the payload of a hostTask.
type hostPayload struct {
	OrganizationID string `json:"organization_id"`
	Host           string `json:"host"`
}

// hostReceiverID returns the receiver id of deliveries to a host, in place of the id of a service.
func hostReceiverID(orgID, host string) string { return "notify:" + orgID + ":" + host }

// maxURL is the length of the longest URL, in bytes.
const maxURL = 2048

// hostOf returns the host of a URL that can be posted to.
func hostOf(text string) (host string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(text) > maxURL {
		return "", false
	}
	return strings.ToLower(u.Host), true
}

// sendToHost sends the pending webhooks to a host that are due.
func (s *Service) sendToHost(ctx context.Context, t *tasks.Due) error {
	var payload hostPayload
	if err := t.Payload(&payload); err != nil {
		return err
	}
	org, err := s.Directory.OrganizationByID(ctx, payload.OrganizationID)
	if core.KindOf(err) == core.NotFound {
		return s.removeDeliveries(ctx, &Delivery{OrganizationID: payload.OrganizationID, ReceiverID: t.Key, Host: payload.Host})
	}
	if err != nil {
		return err
	}
	receiver := &notifications.Receiver{ID: t.Key, OrganizationID: org.ID}
	return s.newWorker(org, openReceiver{Receiver: receiver, provider: notifyHook}, payload.Host).run(ctx)
}

// notifyHook posts events as webhooks do, without a token.
var notifyHook = &Provider{Request: notifyHookRequest}

func notifyHookRequest(m *Message) (*Request, error) {
	body, err := json.Marshal(m.Payload())
	if err != nil {
		return nil, err
	}
	r := &Request{URL: m.Target.To, Body: body, Header: http.Header{"Content-Type": {"application/json"}, "X-Buildkite-Request": {m.ID}}}
	for _, prefix := range headerPrefixes {
		r.Header.Set(prefix+"Event", string(m.Event.Name))
		r.Header.Set(prefix+"Delivery", m.ID)
	}
	return r, nil
}

const (
	// keepHosts is how long webhooks of notify are kept.
	keepHosts   = 30 * 24 * time.Hour
	removeHosts = "notify-webhook-removal"
)

// removeOldHosts removes some webhooks of notify that are old. There can be many hosts, each with few.
func (s *Service) removeOldHosts(q *db.Q) (more bool, err error) {
	n, err := q.DeleteSome(giveUpBatch, "deliveries", "host IS NOT NULL AND created_at < $1", db.Micros(s.Clock().Add(-keepHosts)))
	return n == giveUpBatch, err
}
