package orgpages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// firstDeliveries limits the deliveries on the page of a service.
const firstDeliveries = 10

// deliveryRows returns the deliveries of a service for its page.
func (s *Site) deliveryRows(v *pages.Visit, org pages.Membership, r *notifications.Receiver) (rows []pages.Delivery, err error) {
	list, err := s.Deliveries.Newest(v.Context(), r.ID, firstDeliveries)
	for _, d := range list {
		rows = append(rows, pages.Delivery{Delivery: d, Path: servicePath(org, r) + "/deliveries/" + d.ID})
	}
	return rows, err
}

// A deliveryPage is the data of the page of a delivery.
type deliveryPage struct {
	pages.Delivery
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
func (s *Site) delivery(v *pages.Visit) (org pages.Membership, r *notifications.Receiver, d *delivery.Delivery, err error) {
	if org, r, err = s.service(v); err != nil {
		return org, r, nil, err
	}
	id, err := v.PathID("delivery", noDelivery)
	if err != nil {
		return org, r, nil, err
	}
	d, err = s.Deliveries.Delivery(v.Context(), r.ID, id)
	if core.KindOf(err) == core.NotFound {
		err = core.Errorf(core.NotFound, noDelivery)
	}
	return org, r, d, err
}

func (s *Site) showDelivery(v *pages.Visit) error {
	org, r, d, err := s.delivery(v)
	if err != nil {
		return err
	}
	return s.deliveryPage(v, http.StatusOK, org, r, d, "")
}

func (s *Site) deliveryPage(v *pages.Visit, status int, org pages.Membership, r *notifications.Receiver, d *delivery.Delivery, problem string) error {
	shown := deliveryPage{Delivery: pages.Delivery{Delivery: d, Path: servicePath(org, r) + "/deliveries/" + d.ID}, Service: r, Back: servicePath(org, r), Problem: problem}
	if sent := d.Request; sent != nil {
		shown.Sent = newExchange(sent.Method+" "+sent.URL, sent.Headers, sent.Body, sent.Truncated)
	}
	if answer := d.Response; answer != nil {
		shown.Answer = newExchange(fmt.Sprintf("Status %d", answer.Status), answer.Headers, answer.Body, answer.Truncated)
	}
	return v.Show(status, "delivery", pages.View{Title: "Delivery of " + string(d.Event), Section: "services", Page: shown})
}

func (s *Site) redeliver(v *pages.Visit) error {
	org, r, d, err := s.delivery(v)
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
	return v.Done(servicePath(org, r)+"/deliveries/"+again.ID, "Sending again. Reload the page to see the result.")
}

func (s *Site) testService(v *pages.Visit) error {
	org, r, err := s.service(v)
	if err != nil {
		return err
	}
	d, err := s.Deliveries.Test(v.Context(), r, v.User())
	if refused, ok := refusal(err); ok {
		f, err := s.serviceFormOf(v, org, r)
		if err != nil {
			return err
		}
		f.Problems = pages.Problems{"": refused}
		return s.showServiceForm(v, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return v.Done(servicePath(org, r)+"/deliveries/"+d.ID, "Test message on its way. Reload the page to see the result.")
}

// refusal returns the message of an error that the visitor can do something about.
func refusal(err error) (message string, ok bool) {
	if core.KindOf(err) != core.Unprocessable {
		return "", false
	}
	return err.Error(), true
}
