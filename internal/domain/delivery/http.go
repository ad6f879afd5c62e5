package delivery

import (
	"net/http"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const (
	servicePath    = "/v2/organizations/{org}/services/{service}"
	deliveriesPath = servicePath + "/deliveries"
)

// Routes returns the routes of deliveries and of the event log.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: deliveriesPath, Summary: "List the deliveries of a notification service",
			Description: "Newest first: all that are pending, and the last 100 that have ended.",
			Query:       route.CursorParams,
			Handler:     route.On(s.loadReceiver, s.getDeliveries),
		},
		{
			Method: http.MethodGet, Path: deliveriesPath + "/{delivery}", Summary: "Get a delivery",
			Description: "With the request and the response of the last attempt.",
			Handler:     route.On(s.loadDelivery, s.getDelivery),
		},
		{
			Method: http.MethodPost, Path: deliveriesPath + "/{delivery}/redeliver", Summary: "Send a delivery again",
			Description: "Creates another delivery of the same event, with an id of its own.",
			Status:      http.StatusCreated, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.loadDelivery, s.postRedeliver),
		},
		{
			Method: http.MethodPost, Path: servicePath + "/test", Summary: "Send a test message",
			Description: "Creates a delivery of a ping, which arrives as the provider shows messages; by e-mail it goes to the caller. 422 for providers without messages: observability_pipeline_visibility, open_telemetry_tracing and event_log_api.",
			Status:      http.StatusCreated, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.loadReceiver, s.postTest),
		},
		{
			Method: http.MethodGet, Path: servicePath + "/events", Summary: "Read the event log",
			Description: "Events of an event_log_api service in the order in which they happened. Keep next_cursor and send it as after to read on, whether or not the list is empty.",
			Query: []route.Param{
				{Name: "after", Doc: "next_cursor of a previous answer; without it the log begins with the oldest event that is kept."},
				{Name: "per_page", Doc: "How many events to return at most; 30 unless given, at most 100.", Type: "integer"},
			},
			Handler: route.On(s.loadReceiver, s.getLog),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Permission, r.Scope = "Notification services", identity.ManageNotificationServices, identity.ReadNotificationServices
		if r.Method != http.MethodGet {
			r.Scope = identity.WriteNotificationServices
		}
	}
	return append(routes, s.notifyRoute())
}

type deliveryView struct {
	ID    string      `json:"id"`
	URL   string      `json:"url"`
	Event events.Name `json:"event"`
	attemptsView
	DurationMS   *int64                `json:"duration_ms" doc:"Of the last attempt."`
	BuildID      *string               `json:"build_id"`
	RedeliveryOf *string               `json:"redelivery_of" doc:"The delivery that this one repeats."`
	Request      *deliveryRequestView  `json:"request,omitempty" doc:"The last request, without secrets; only when a single delivery is read."`
	Response     *deliveryResponseView `json:"response,omitempty"`
}

type deliveryRequestView RequestRecord

type deliveryResponseView ResponseRecord

// attemptsView says how far a delivery is.
type attemptsView struct {
	State         State     `json:"state"`
	Attempts      int       `json:"attempts"`
	Status        *int      `json:"status" doc:"HTTP status of the last response; null without one."`
	Error         *string   `json:"error" doc:"Why the last attempt failed."`
	CreatedAt     core.Time `json:"created_at"`
	NextAttemptAt core.Time `json:"next_attempt_at" doc:"While it is pending, after an attempt that failed."`
	FinishedAt    core.Time `json:"finished_at" doc:"When it was delivered or given up."`
}

func attemptsOf(d *Delivery) attemptsView {
	return attemptsView{
		State:         d.State,
		Attempts:      d.Attempts,
		Status:        core.OrNull(d.Status),
		Error:         core.OrNull(d.Error),
		CreatedAt:     core.At(d.CreatedAt),
		NextAttemptAt: core.At(d.NextAttemptAt),
		FinishedAt:    core.At(d.FinishedAt),
	}
}

func (s *Service) view(org *identity.Organization, d *Delivery) deliveryView {
	v := deliveryView{
		ID:           d.ID,
		URL:          s.Public.Org(org.Slug, "services", d.ReceiverID, "deliveries", d.ID),
		Event:        d.Event,
		attemptsView: attemptsOf(d),
		BuildID:      core.OrNull(d.BuildID),
		RedeliveryOf: core.OrNull(d.RedeliveryOf),
	}
	if d.Attempts > 0 {
		ms := d.Duration.Round(time.Millisecond).Milliseconds()
		v.DurationMS = &ms
	}
	return v
}

// loadReceiver returns the receiver that the path names.
func (s *Service) loadReceiver(r *route.Request) (*notifications.Receiver, error) {
	id, err := r.PathID("service", "No notification service found")
	if err != nil {
		return nil, err
	}
	return s.Receivers.Receiver(r.Context(), r.Org.ID, id)
}

// onDelivery is a delivery with its receiver.
type onDelivery struct {
	*Delivery
	receiver *notifications.Receiver
}

// loadDelivery returns the delivery that the path names.
func (s *Service) loadDelivery(r *route.Request) (o onDelivery, err error) {
	if o.receiver, err = s.loadReceiver(r); err != nil {
		return o, err
	}
	o.Delivery, err = route.ReadByID(r, s.DB, "delivery", noDelivery, func(q *db.Q, id string) (*Delivery, error) { return byID(q, o.receiver.ID, id) })
	return o, err
}

func (s *Service) getDeliveries(r *route.Request, receiver *notifications.Receiver) (page route.Items[deliveryView], err error) {
	part, err := r.CursorPage("deliveries of "+receiver.ID, 1)
	if err != nil {
		return page, err
	}
	var list []*Delivery
	err = s.DB.Read(r.Context(), func(q *db.Q) (err error) {
		list, err = listPage(q, receiver.ID, part)
		return err
	})
	if err != nil {
		return page, err
	}
	return route.ItemsOf(r, part, list, bySeq, func(d *Delivery) deliveryView { return s.view(r.Org, d) }), nil
}

// listPage returns deliveries of a receiver, newest first; with page.Before, those before it from there on.
func listPage(q *db.Q, receiverID string, page route.CursorPage) ([]*Delivery, error) {
	var s db.Statement
	s.Where("service_id = %s", receiverID)
	order, err := wherePast(&s, page)
	if err != nil {
		return nil, err
	}
	clause, limit := s.Clause(), s.Arg(page.Limit())
	part := func(state string) string {
		return `SELECT * FROM (` + selectDelivery + clause + ` AND ` + state + ` ORDER BY seq ` + order + ` LIMIT ` + limit + `) AS part`
	}
	return db.All(q, scanDelivery, part("state = 'pending'")+` UNION ALL `+part("state <> 'pending'")+` ORDER BY seq `+order+` LIMIT `+limit, s.Args()...)
}

func (s *Service) getDelivery(r *route.Request, o onDelivery) (deliveryView, error) {
	v := s.view(r.Org, o.Delivery)
	v.Request, v.Response = (*deliveryRequestView)(o.Request), (*deliveryResponseView)(o.Response)
	return v, nil
}

func (s *Service) postRedeliver(r *route.Request, o onDelivery) (deliveryView, error) {
	again, err := s.Redeliver(r.Context(), o.receiver, o.Delivery)
	if err != nil {
		return deliveryView{}, err
	}
	return s.view(r.Org, again), nil
}

func (s *Service) postTest(r *route.Request, receiver *notifications.Receiver) (deliveryView, error) {
	d, err := s.Test(r.Context(), receiver, r.Caller.User)
	if err != nil {
		return deliveryView{}, err
	}
	return s.view(r.Org, d), nil
}
