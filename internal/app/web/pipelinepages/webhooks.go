package pipelinepages

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
)

// A webhook is a received webhook in a response.
type webhook struct {
	ID          string            `json:"id"`
	Host        string            `json:"host"`
	Event       string            `json:"event"`
	State       string            `json:"state"`
	Reason      *string           `json:"reason"`
	Attempts    int               `json:"attempts"`
	CreatedAt   time.Time         `json:"created_at"`
	ProcessedAt *time.Time        `json:"processed_at"`
	Headers     map[string]string `json:"headers"`
	Body        *string           `json:"body"`
	Builds      []struct {
		Number int `json:"number"`
	} `json:"builds"`
}

// HeaderNames returns the sorted names of the headers.
func (w webhook) HeaderNames() []string { return slices.Sorted(maps.Keys(w.Headers)) }

// BuildPath returns the path of a build.
func (m managed) BuildPath(number int) string { return m.At("builds", strconv.Itoa(number)) }

func (s *Site) webhooks(v *pages.Visit, m managed) error {
	var list struct {
		Items []webhook
		Links struct{ Next, Prev *string }
	}
	if _, err := v.Call("GET", m.api(v, "webhook-deliveries")+"?"+v.Given("after", "before").Encode(), nil, &list); err != nil {
		return err
	}
	var hook struct{ URL, Secret string }
	_, err := v.Call("GET", m.api(v, "webhook"), nil, &hook)
	if k := core.KindOf(err); err != nil && k != core.Forbidden {
		return err
	}
	var links []pages.PageLink
	for _, l := range []struct {
		url  *string
		text string
	}{{list.Links.Prev, "Newer"}, {list.Links.Next, "Older"}} {
		if l.url == nil {
			continue
		}
		if u, err := url.Parse(*l.url); err == nil {
			links = append(links, pages.PageLink{Path: v.URL.Path + "?" + u.RawQuery, Text: l.text})
		}
	}
	return m.show(v, http.StatusOK, "webhooks", "webhooks", "Webhooks", struct {
		managed
		URL, Secret string
		Deliveries  []webhook
		Pages       []pages.PageLink
		Create      pages.Form
	}{m, hook.URL, hook.Secret, list.Items, links, pages.Form{Action: m.At("settings", "webhooks", "create"), Submit: "Create webhook at the source host"}})
}

func (s *Site) createWebhook(v *pages.Visit, m managed) error {
	return v.Act("POST", m.api(v, "webhook"), nil, m.At("settings", "webhooks"), "Webhook created.")
}

func (s *Site) webhook(v *pages.Visit, m managed) error {
	var w webhook
	if _, err := v.Call("GET", m.api(v, "webhook-deliveries", v.PathValue("delivery")), nil, &w); err != nil {
		return err
	}
	return m.show(v, http.StatusOK, "webhook", "webhooks", "Webhook "+w.Event, struct {
		managed
		Delivery webhook
		Again    pages.Form
	}{m, w, pages.Form{Action: m.At("settings", "webhooks", w.ID, "redeliver"), Submit: "Process again"}})
}

func (s *Site) redeliver(v *pages.Visit, m managed) error {
	return v.Act("POST", m.api(v, "webhook-deliveries", v.PathValue("delivery"), "redeliver"), nil, m.At("settings", "webhooks"), "Webhook is processed again.")
}
