package delivery

import (
	"net/http"
	"net/url"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/notify"
)

func (s *Service) notifyRoute() route.Route {
	return route.Route{
		Method: http.MethodGet, Path: builds.BuildPath + "/notifications", Tag: "Builds", Summary: "List the notifications of a build",
		Description: "What notify of the build and its steps has sent or tries to send, newest first: webhooks, e-mails and chat messages. Kept with the last deliveries of the service or host that they go to.",
		Scope:       identity.ReadBuilds, Permission: identity.ReadPipeline,
		Query:   route.CursorParams,
		Handler: route.On(s.Builds.LoadOnBuild, s.getNotifications),
	}
}

type buildNotificationView struct {
	ID        string      `json:"id" doc:"The receiver gets it as X-Service-Delivery."`
	Kind      notify.Kind `json:"kind"`
	Target    string      `json:"target" doc:"An address, a channel, or a URL without its query."`
	Event     events.Name `json:"event"`
	ServiceID *string     `json:"service_id" doc:"The notification service that it goes through; null: none, for webhooks."`
	attemptsView
}

func (s *Service) getNotifications(r *route.Request, o builds.OnBuild) (page route.Items[buildNotificationView], err error) {
	part, err := r.CursorPage("notifications of "+o.Build.ID, 1)
	if err != nil {
		return page, err
	}
	var list []*Delivery
	err = s.DB.Read(r.Context(), func(q *db.Q) (err error) {
		list, err = notificationsOf(q, o.Build.ID, part)
		return err
	})
	if err != nil {
		return page, err
	}
	return route.ItemsOf(r, part, list, bySeq, buildNotification), nil
}

// bySeq is the cursor of a delivery.
func bySeq(d *Delivery) core.Cursor { return core.Cursor{strconv.FormatInt(d.Seq, 10)} }

func buildNotification(d *Delivery) buildNotificationView {
	v := buildNotificationView{
		ID:           d.ID,
		Kind:         d.Target.Kind,
		Target:       d.Target.Shown(),
		Event:        d.Event,
		attemptsView: attemptsOf(d),
	}
	if d.Host == "" {
		v.ServiceID = &d.ReceiverID
	}
	return v
}

// Shown returns the target as people see it: a URL without user, password and query, which can be secret.
func (t *Target) Shown() string {
	u, err := url.Parse(t.To)
	if t.Kind != notify.Webhook || err != nil {
		return t.To
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// notificationsOf returns what notify of a build and its steps asked for, newest first; with page.Before, what is before
// it from there on.
func notificationsOf(q *db.Q, buildID string, page route.CursorPage) ([]*Delivery, error) {
	var s db.Statement
	s.Where("build_id = %s", buildID)
	order, err := wherePast(&s, page)
	if err != nil {
		return nil, err
	}
	return db.All(q, scanDelivery, selectDelivery+s.Clause()+` AND target IS NOT NULL ORDER BY seq `+order+` LIMIT `+s.Arg(page.Limit()), s.Args()...)
}

// wherePast adds the condition that a delivery is past the cursor of a page, and returns the order of the page.
func wherePast(s *db.Statement, page route.CursorPage) (order string, err error) {
	order, cursor, side := "DESC", page.After, "<"
	if page.Before != nil {
		order, cursor, side = "", page.Before, ">"
	}
	if cursor == nil {
		return order, nil
	}
	seq, err := strconv.ParseInt(cursor[0], 10, 64)
	if err != nil {
		return "", core.Errorf(core.BadRequest, "The cursor is not valid; use one from a previous response, unchanged")
	}
	s.Where("seq "+side+" %s", seq)
	return order, nil
}
