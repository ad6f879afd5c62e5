package teampages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) auditRoutes() []route.Route {
	return []route.Route{
		s.get("/settings/audit", s.auditTrail),
		s.get("/settings/audit/export", s.exportAuditTrail),
	}
}

// An auditEvent is a record of the audit trail in a response.
type auditEvent struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Action    string    `json:"action"`
	Actor     struct {
		Type  string
		Name  string
		Email *string
		Token *struct{ Description string }
	} `json:"actor"`
	Subject   struct{ Type, ID, Name string } `json:"subject"`
	Channel   string                          `json:"channel"`
	Address   *string                         `json:"ip_address"`
	UserAgent *string                         `json:"user_agent"`
	RequestID *string                         `json:"request_id"`
	Changes   []auditChange                   `json:"changes"`
}

type auditChange struct {
	Field  string
	Before json.RawMessage
	After  json.RawMessage
}

// Who returns who acted.
func (e auditEvent) Who() string {
	switch {
	case e.Actor.Name != "":
		return e.Actor.Name
	case e.Actor.Email != nil:
		return *e.Actor.Email
	case e.Actor.Type == "anonymous":
		return "Someone who was not signed in"
	}
	return e.Actor.Type
}

// Did returns what happened, for people: "updated pipeline".
func (e auditEvent) Did() string {
	subject, did, _ := strings.Cut(e.Action, ".")
	return strings.ReplaceAll(did, "_", " ") + " " + strings.ReplaceAll(subject, "_", " ")
}

// Via returns how the change was made.
func (e auditEvent) Via() string {
	switch e.Channel {
	case "api":
		return "over the API"
	case "web":
		return "on the pages"
	case "apply":
		return "with stackyard apply"
	case "agents":
		return "as an agent or stack"
	}
	return "in the background"
}

// Was and Is return the values as text.
func (c auditChange) Was() string { return changeText(c.Before) }
func (c auditChange) Is() string  { return changeText(c.After) }

func changeText(value json.RawMessage) string {
	var text string
	switch {
	case string(value) == "null":
		return ""
	case json.Unmarshal(value, &text) == nil:
		return text
	}
	return string(value)
}

// auditFilters are the query parameters of the page, which are those of the API.
var auditFilters = []string{"actor", "subject_type", "action", "created_from", "created_to", "subject"}

// auditTypes are the types that the page offers.
var auditTypes = []string{
	"access_token", "agent", "agent_image", "agent_token", "audit_trail", "cluster", "cluster_maintainer", "invitation", "member", "notification_service",
	"oauth_application", "oauth_authorization", "organization", "pipeline", "pipeline_settings", "pipeline_template", "queue", "remote_session", "rule",
	"schedule", "secret", "session", "source_connection", "stack", "suite", "team", "team_member", "team_pipeline", "team_suite", "user",
}

func (s *Site) auditTrail(v *pages.Visit) error {
	shown := struct {
		Manages bool
		At      string
		Filter  map[string]string
		Types   []string
		Events  []auditEvent
		Pages   []pages.PageLink
		Export  string
		Problem string
	}{Manages: v.Member.Can(identity.ReadAuditTrail, v.Org), At: v.Place("settings", "audit"), Filter: map[string]string{}, Types: auditTypes}
	if !shown.Manages {
		return s.show(v, http.StatusForbidden, "audit", "audit", "Audit trail", shown)
	}
	query := url.Values{}
	for _, name := range auditFilters {
		if value := strings.TrimSpace(v.FormQuery(name)); value != "" {
			query.Set(name, value)
			shown.Filter[name] = value
		}
	}
	shown.Export = shown.At + "/export?" + query.Encode()
	asked := v.Given("after", "before")
	asked.Set("per_page", "50")
	var page struct {
		Items []auditEvent
		Links struct{ Next, Prev *string }
	}
	target := v.API("audit-events") + "?" + asked.Encode()
	if len(query) > 0 {
		target += "&" + query.Encode()
	}
	_, err := v.Call("GET", target, nil, &page)
	if core.KindOf(err) == core.BadRequest {
		shown.Problem = err.Error()
		return s.show(v, http.StatusBadRequest, "audit", "audit", "Audit trail", shown)
	}
	if err != nil {
		return err
	}
	shown.Events = page.Items
	for _, link := range []struct {
		to         *string
		name, text string
	}{{page.Links.Prev, "before", "Newer"}, {page.Links.Next, "after", "Older"}} {
		if cursor := cursorOf(link.to, link.name); cursor != "" {
			to := url.Values{link.name: {cursor}}
			shown.Pages = append(shown.Pages, pages.PageLink{Path: shown.At + "?" + strings.Trim(query.Encode()+"&"+to.Encode(), "&"), Text: link.text})
		}
	}
	return s.show(v, http.StatusOK, "audit", "audit", "Audit trail", shown)
}

// cursorOf returns the cursor in a link of the API.
func cursorOf(link *string, name string) string {
	if link == nil {
		return ""
	}
	u, err := url.Parse(*link)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// maxExportPage bounds the export that the page offers; the command line has no such bound.
const maxExportPage = 8 << 20

// exportAuditTrail downloads the records that the page shows, as CSV.
func (s *Site) exportAuditTrail(v *pages.Visit) error {
	query := v.Given(auditFilters...)
	query.Set("format", "csv")
	text, all, err := v.CallText(v.API("audit-events", "export")+"?"+query.Encode(), maxExportPage)
	if err != nil {
		return err
	}
	if !all {
		return core.Errorf(core.Unprocessable, "The export is larger than %d MB. Choose a shorter time, or use the command stackyard audit export.", maxExportPage>>20)
	}
	h := v.W.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="audit-`+v.Org.Slug+`.csv"`)
	_, err = v.W.Write([]byte(text))
	return err
}
