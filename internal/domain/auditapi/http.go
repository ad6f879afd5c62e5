package auditapi

import (
	"errors"
	"net/http"
	"strings"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const eventsPath = "/v2/organizations/{org}/audit-events"

// filterParams are the query parameters that select records.
var filterParams = []route.Param{
	{Name: "actor", Doc: "Records of a user, by id or email, or of an agent token, by id."},
	{Name: "action", Doc: "Records of an action, for example pipeline.updated."},
	{Name: "subject_type", Doc: "Records about things of a type, for example pipeline."},
	{Name: "subject", Doc: "Records about one thing, by id."},
	{Name: "channel", Doc: "How the change was made: api, web, apply, agents or server."},
	{Name: "created_from", Doc: "Records from this time on."},
	{Name: "created_to", Doc: "Records from before this time."},
}

// Routes returns the routes of the audit trail.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Path: eventsPath, Summary: "List audit events",
			Description: "Who changed what, newest first. Secrets are never shown.",
			Query:       append(route.CursorParams, filterParams...), Handler: route.Do(s.list),
		},
		{
			Path: eventsPath + "/export", Summary: "Export audit events",
			Description: "Oldest first, up to 100,000 events as JSON lines or CSV. To continue, send the id of the last event as after. The export itself is recorded.",
			Query: append([]route.Param{
				{Name: "format", Doc: "jsonl, the default, or csv."},
				{Name: "after", Doc: "The id of an event: export those after it."},
			}, filterParams...),
			Media: []string{"application/jsonl", "text/csv"}, Handler: route.Do(s.export),
		},
		{Path: eventsPath + "/{audit_event}", Summary: "Get an audit event", Handler: route.On(s.load, s.get)},
	}
	for i := range routes {
		r := &routes[i]
		r.Method, r.Tag, r.Scope, r.Permission = http.MethodGet, "Audit trail", identity.ReadAuditEvents, identity.ReadAuditTrail
	}
	return routes
}

type auditEventView struct {
	ID        string            `json:"id"`
	GraphQLID string            `json:"graphql_id"`
	URL       string            `json:"url"`
	CreatedAt core.Time         `json:"created_at"`
	Action    string            `json:"action" doc:"The type of the subject and what happened to it, for example pipeline.updated."`
	Actor     auditActorView    `json:"actor"`
	Subject   auditSubjectView  `json:"subject"`
	Channel   audit.Channel     `json:"channel" doc:"How the change was made."`
	Address   *string           `json:"ip_address" doc:"Of the client, behind trusted proxies."`
	UserAgent *string           `json:"user_agent"`
	RequestID *string           `json:"request_id" doc:"As in the X-Request-Id header of the response, and in the log of the server."`
	Changes   []auditChangeView `json:"changes" doc:"The fields that changed."`
}

type auditChangeView audit.Change

type auditActorView struct {
	Type  audit.ActorType `json:"type"`
	ID    *string         `json:"id"`
	Name  string          `json:"name" doc:"As it was then."`
	Email *string         `json:"email"`
	Token *auditTokenView `json:"token" doc:"The token that was used; null for people who were signed in to the pages."`
}

type auditTokenView struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

type auditSubjectView struct {
	Type string `json:"type"`
	ID   string `json:"id" doc:"Of relations, for example members of teams, two ids with a slash between them."`
	Name string `json:"name" doc:"As it was then."`
}

func (s *Service) view(r *route.Request, e audit.Event) auditEventView {
	v := auditEventView{
		Changes:   []auditChangeView{},
		ID:        e.ID,
		GraphQLID: core.GraphQLID("AuditEvent", e.ID),
		URL:       s.public.Org(r.Org.Slug, "audit-events", e.ID),
		CreatedAt: core.At(e.CreatedAt),
		Action:    e.Action,
		Actor:     auditActorView{Type: e.Actor.Type, ID: core.OrNull(e.Actor.ID), Name: e.Actor.Name, Email: core.OrNull(e.Actor.Email)},
		Subject:   auditSubjectView(e.Subject),
		Channel:   e.Actor.Channel,
		Address:   core.OrNull(e.Actor.Address),
		UserAgent: core.OrNull(e.Actor.UserAgent),
		RequestID: core.OrNull(e.Actor.RequestID),
	}
	for _, c := range e.Changes {
		v.Changes = append(v.Changes, auditChangeView(c))
	}
	if e.Actor.TokenID != "" {
		v.Actor.Token = &auditTokenView{e.Actor.TokenID, e.Actor.TokenDescription}
	}
	return v
}

func (s *Service) list(r *route.Request) (items route.Items[auditEventView], err error) {
	page, err := r.CursorPage("audit events", 2)
	if err != nil {
		return items, err
	}
	from := page.After
	if page.Before != nil {
		from = page.Before
	}
	position, err := audit.ParsePosition(from)
	if err != nil {
		return items, err
	}
	f, known, err := s.filter(r)
	if err != nil {
		return items, err
	}
	events := []audit.Event{}
	if known {
		err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
			events, err = audit.List(q, r.Org.ID, f, position, page.Before != nil, page.Limit())
			return err
		})
	}
	return route.ItemsOf(r, page, events, func(e audit.Event) core.Cursor { return e.Position().Cursor() },
		func(e audit.Event) auditEventView { return s.view(r, e) }), err
}

// filter returns the filter in the query. known is false if it names a person that does not exist.
func (s *Service) filter(r *route.Request) (f audit.Filter, known bool, err error) {
	f = audit.Filter{
		ActorID: r.FormQuery("actor"), Action: r.FormQuery("action"), SubjectType: r.FormQuery("subject_type"), SubjectID: r.FormQuery("subject"),
		Channel: audit.Channel(r.FormQuery("channel")),
	}
	if f.From, err = r.QueryTime("created_from"); err != nil {
		return f, false, err
	}
	if f.To, err = r.QueryTime("created_to"); err != nil {
		return f, false, err
	}
	if !strings.Contains(f.ActorID, "@") {
		return f, true, nil
	}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		user, err := account.UserByEmail(q, account.NormalizeEmail(f.ActorID))
		f.ActorID = user.ID
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return f, false, nil
	}
	return f, true, err
}

func (s *Service) load(r *route.Request) (audit.Event, error) {
	return route.ReadByID(r, s.db, "audit_event", "No audit event found", func(q *db.Q, id string) (audit.Event, error) { return audit.Get(q, r.Org.ID, id) })
}

func (s *Service) get(r *route.Request, e audit.Event) (auditEventView, error) {
	return s.view(r, e), nil
}
