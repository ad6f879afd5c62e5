package hooks

import (
	"net/http"
	"strconv"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/hookpayload"
)

const (
	pipelinePath   = "/v2/organizations/{org}/pipelines/{pipeline}"
	deliveriesPath = pipelinePath + "/webhook-deliveries"
)

// Routes returns the package's part of the route table.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Method: http.MethodPost, Path: "/hooks/{provider}/{key}", Summary: "Receive a webhook of a source host",
			Description: "The webhook_url of a pipeline. The source host signs the body with the secret of the pipeline's webhook, or sends the secret. Whether something is built is decided afterwards: see the pipeline's webhook deliveries.",
			Auth:        route.Open, Status: http.StatusAccepted,
			Errors:  []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge},
			Handler: route.Do(s.receive),
		},
		{
			Method: http.MethodGet, Path: pipelinePath + "/webhook", Summary: "Get the URL and the secret of the webhook",
			Description: "What to enter at a source host that is not connected.",
			Scope:       identity.WritePipelines,
			Handler:     route.On(s.pipelines.Load, s.getWebhook),
		},
		{
			Method: http.MethodGet, Path: deliveriesPath, Summary: "List webhook deliveries",
			Description: "What the source host sent to the pipeline, newest first, with what became of it: the last 100, at most 30 days old.",
			Query:       route.CursorParams,
			Scope:       identity.ReadPipelines,
			Handler:     route.On(s.pipelines.Load, s.getDeliveries),
		},
		{
			Method: http.MethodGet, Path: deliveriesPath + "/{webhook_delivery}", Summary: "Get a webhook delivery",
			Description: "With its headers and body.",
			Scope:       identity.ReadPipelines,
			Handler:     route.On(s.loadDelivery, s.getDelivery),
		},
		{
			Method: http.MethodPost, Path: deliveriesPath + "/{webhook_delivery}/redeliver", Summary: "Process a webhook delivery again",
			Description: "Creates another delivery with the same content, which can create another build.",
			Scope:       identity.WritePipelines, Status: http.StatusCreated, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.loadDelivery, s.postRedeliver),
		},
	}
	for i := range routes {
		routes[i].Tag = "Pipelines"
		if routes[i].Auth != route.Open {
			routes[i].Permission = identity.ManagePipeline
		}
	}
	return routes
}

type webhookView struct {
	URL    string `json:"url" doc:"The pipeline's provider.webhook_url."`
	Secret string `json:"secret" doc:"What the source host signs webhooks with."`
}

func (s *Service) getWebhook(r *route.Request, p *pipelines.Pipeline) (webhookView, error) {
	r.SetHeader("Cache-Control", "no-store")
	return webhookView{s.pipelines.WebhookURL(p), s.pipelines.WebhookSecret(p)}, nil
}

type webhookDeliveryView struct {
	ID           string             `json:"id"`
	URL          string             `json:"url"`
	Host         hookpayload.Host   `json:"host" doc:"The kind of source host: github, gitlab, bitbucket, bitbucket_server or gitea."`
	Event        string             `json:"event" doc:"The host's name of the event."`
	DeliveryID   *string            `json:"delivery_id" doc:"The id that the host gave it."`
	State        State              `json:"state"`
	Reason       *string            `json:"reason" doc:"Why nothing was built, or what could not be built."`
	Builds       []webhookBuildView `json:"builds"`
	Attempts     int                `json:"attempts"`
	CreatedAt    core.Time          `json:"created_at"`
	ProcessedAt  core.Time          `json:"processed_at"`
	RedeliveryOf *string            `json:"redelivery_of" doc:"The delivery that this one repeats."`
	Headers      map[string]string  `json:"headers,omitempty" doc:"Without secrets; only when a single delivery is read."`
	Body         *string            `json:"body,omitempty"`
}

type webhookBuildView struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	URL    string `json:"url"`
}

func (s *Service) view(org *identity.Organization, slug string, d *Delivery) webhookDeliveryView {
	v := webhookDeliveryView{
		ID:           d.ID,
		URL:          s.public.Org(org.Slug, "pipelines", slug, "webhook-deliveries", d.ID),
		Host:         d.Host,
		Event:        d.Event,
		DeliveryID:   core.OrNull(d.DeliveryID),
		State:        d.State,
		Reason:       core.OrNull(d.Reason),
		Builds:       []webhookBuildView{},
		Attempts:     d.Attempts,
		CreatedAt:    core.At(d.CreatedAt),
		ProcessedAt:  core.At(d.ProcessedAt),
		RedeliveryOf: core.OrNull(d.RedeliveryOf),
	}
	for _, b := range d.Builds {
		v.Builds = append(v.Builds, webhookBuildView{b.ID, b.Number, s.public.Org(org.Slug, "pipelines", slug, "builds", strconv.Itoa(b.Number))})
	}
	return v
}

// onDelivery is a delivery with its pipeline.
type onDelivery struct {
	*pipelines.Pipeline
	delivery *Delivery
}

func (s *Service) loadDelivery(r *route.Request) (o onDelivery, err error) {
	if o.Pipeline, err = s.pipelines.Load(r); err != nil {
		return o, err
	}
	o.delivery, err = route.ReadByID(r, s.db, "webhook_delivery", noDelivery, func(q *db.Q, id string) (*Delivery, error) { return byID(q, o.ID, id) })
	return o, err
}

func (s *Service) getDeliveries(r *route.Request, p *pipelines.Pipeline) (page route.Items[webhookDeliveryView], err error) {
	part, err := r.CursorPage("webhook deliveries of "+p.ID, 1)
	if err != nil {
		return page, err
	}
	var st db.Statement
	st.Where("pipeline_id = %s", p.ID)
	order, cursor, side := "DESC", part.After, "<"
	if part.Before != nil {
		order, cursor, side = "", part.Before, ">"
	}
	if cursor != nil {
		seq, err := strconv.ParseInt(cursor[0], 10, 64)
		if err != nil {
			return page, core.Errorf(core.BadRequest, "The cursor is not valid; use one from a previous response, unchanged")
		}
		st.Where("seq "+side+" %s", seq)
	}
	var list []*Delivery
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		list, err = db.All(q, scanSummary, `SELECT `+summaryColumns+` FROM webhook_deliveries `+st.Clause()+` ORDER BY seq `+order+` LIMIT `+st.Arg(part.Limit()), st.Args()...)
		return err
	})
	if err != nil {
		return page, err
	}
	place := func(d *Delivery) core.Cursor { return core.Cursor{strconv.FormatInt(d.Seq, 10)} }
	return route.ItemsOf(r, part, list, place, func(d *Delivery) webhookDeliveryView { return s.view(r.Org, p.Slug, d) }), nil
}

func (s *Service) getDelivery(r *route.Request, o onDelivery) (webhookDeliveryView, error) {
	v := s.view(r.Org, o.Slug, o.delivery)
	v.Headers, v.Body = o.delivery.Headers, &o.delivery.Body
	return v, nil
}

func (s *Service) postRedeliver(r *route.Request, o onDelivery) (webhookDeliveryView, error) {
	if err := o.Mutable(); err != nil {
		return webhookDeliveryView{}, err
	}
	from := o.delivery
	again := &Delivery{
		ID:             core.NewID(),
		OrganizationID: from.OrganizationID,
		PipelineID:     from.PipelineID,
		Host:           from.Host,
		Event:          from.Event,
		RedeliveryOf:   from.ID,
		Headers:        from.Headers,
		Body:           from.Body,
		State:          Pending,
		CreatedAt:      s.clock(),
	}
	err := s.db.Write(r.Context(), func(q *db.Q) error {
		_, err := add(q, again)
		return err
	})
	return s.view(r.Org, o.Slug, again), err
}
