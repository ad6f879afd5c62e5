package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

const (
	// firstDeliveries limits the deliveries on the page of a service.
	firstDeliveries = 10
	// firstNotifications limits the notifications on the page of a build.
	firstNotifications = 20
)

// A deliveryRow is a delivery in a list.
type deliveryRow struct {
	*delivery.Delivery
	Path string // of its page; empty: it has none
}

// Class is the class of the state's badge.
func (r deliveryRow) Class() string {
	switch {
	case r.State == delivery.Delivered:
		return "good"
	case r.State == delivery.Failed:
		return "bad"
	case r.Attempts > 0:
		return "warn"
	}
	return ""
}

// Label is the state for people.
func (r deliveryRow) Label() string {
	if r.State == delivery.Pending && r.Attempts > 0 {
		return "retrying"
	}
	return string(r.State)
}

// Result says what came of the last attempt.
func (r deliveryRow) Result() string {
	var parts []string
	if r.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", r.Attempts))
	}
	if r.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", r.Status))
	}
	if took := r.Duration.Round(time.Millisecond); took > 0 {
		parts = append(parts, took.String())
	}
	return strings.Join(parts, " · ")
}

// deliveryRows returns the deliveries of a service for its page.
func (s *Site) deliveryRows(v *visit, org membership, r *notifications.Receiver) (rows []deliveryRow, err error) {
	list, err := s.Deliveries.Newest(v.Context(), r.ID, firstDeliveries)
	for _, d := range list {
		rows = append(rows, deliveryRow{d, servicePath(org, r) + "/deliveries/" + d.ID})
	}
	return rows, err
}

// buildNotifications returns what notify of a build sent, for its page.
func (s *Site) buildNotifications(v *visit, buildID string) (rows []deliveryRow, err error) {
	list, err := s.Deliveries.OfBuild(v.Context(), buildID, firstNotifications)
	for _, d := range list {
		rows = append(rows, deliveryRow{Delivery: d})
	}
	return rows, err
}

// A deliveryPage is the data of the page of a delivery.
type deliveryPage struct {
	deliveryRow
	Service *notifications.Receiver
	Back    string
	Problem string
	Sent    *exchange // nil: nothing was sent
	Answer  *exchange // nil: there was no response
}

// An exchange is a request or a response.
type exchange struct {
	Title     string
	Headers   []header
	Body      string
	Truncated bool
}

type header struct{ Name, Value string }

func newExchange(title string, headers map[string]string, body string, truncated bool) *exchange {
	e := &exchange{Title: title, Body: body, Truncated: truncated}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		e.Headers = append(e.Headers, header{name, headers[name]})
	}
	var indented bytes.Buffer
	if !truncated && json.Indent(&indented, []byte(body), "", "  ") == nil {
		e.Body = indented.String()
	}
	return e
}

// noDelivery is the message for deliveries that do not exist.
const noDelivery = "Delivery not found. The last 100 deliveries of a service are kept."

// delivery returns the delivery of the path with its service and organization.
func (v *visit) delivery() (org membership, r *notifications.Receiver, d *delivery.Delivery, err error) {
	if org, r, err = v.service(); err != nil {
		return org, r, nil, err
	}
	id, err := v.PathID("delivery", noDelivery)
	if err != nil {
		return org, r, nil, err
	}
	d, err = v.site.Deliveries.Delivery(v.Context(), r.ID, id)
	if core.KindOf(err) == core.NotFound {
		err = core.Errorf(core.NotFound, noDelivery)
	}
	return org, r, d, err
}

func (s *Site) showDelivery(v *visit) error {
	org, r, d, err := v.delivery()
	if err != nil {
		return err
	}
	return s.deliveryPage(v, http.StatusOK, org, r, d, "")
}

func (s *Site) deliveryPage(v *visit, status int, org membership, r *notifications.Receiver, d *delivery.Delivery, problem string) error {
	page := deliveryPage{deliveryRow: deliveryRow{d, servicePath(org, r) + "/deliveries/" + d.ID}, Service: r, Back: servicePath(org, r), Problem: problem}
	if sent := d.Request; sent != nil {
		page.Sent = newExchange(sent.Method+" "+sent.URL, sent.Headers, sent.Body, sent.Truncated)
	}
	if answer := d.Response; answer != nil {
		page.Answer = newExchange(fmt.Sprintf("Status %d", answer.Status), answer.Headers, answer.Body, answer.Truncated)
	}
	return v.show(status, "delivery", view{Title: "Delivery of " + string(d.Event), Section: "services", Page: page})
}

func (s *Site) redeliver(v *visit) error {
	org, r, d, err := v.delivery()
	if err != nil {
		return err
	}
	again, err := s.Deliveries.Redeliver(v.Context(), r, d)
	if refused, ok := refusal(err); ok {
		return s.deliveryPage(v, http.StatusUnprocessableEntity, org, r, d, refused)
	}
	if err != nil {
		return err
	}
	return v.done(servicePath(org, r)+"/deliveries/"+again.ID, "Sending again. Reload the page to see the result.")
}

func (s *Site) testService(v *visit) error {
	org, r, err := v.service()
	if err != nil {
		return err
	}
	d, err := s.Deliveries.Test(v.Context(), r, v.user())
	if refused, ok := refusal(err); ok {
		f, err := s.serviceFormOf(v, org, r)
		if err != nil {
			return err
		}
		f.Problems = problems{"": refused}
		return s.showServiceForm(v, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return v.done(servicePath(org, r)+"/deliveries/"+d.ID, "Test message on its way. Reload the page to see the result.")
}

// refusal returns the message of an error that the visitor can do something about.
func refusal(err error) (message string, ok bool) {
	if core.KindOf(err) != core.Unprocessable {
		return "", false
	}
	return err.Error(), true
}
