package auditapi

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

const (
	// maxExported bounds the events of one export.
	maxExported = 100_000
	// exportBatch is how many events are read at once; they are the memory of an export.
	exportBatch = 200
)

// export streams events, oldest first, and records that it does.
func (s *Service) export(r *route.Request) (route.Stream, error) {
	format := cmp.Or(r.FormQuery("format"), "jsonl")
	types := map[string]string{"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
	if types[format] == "" {
		return route.Stream{}, core.Errorf(core.BadRequest, "format must be jsonl or csv")
	}
	f, known, err := s.filter(r)
	if err != nil {
		return route.Stream{}, err
	}
	after, err := s.exportFrom(r)
	if err != nil {
		return route.Stream{}, err
	}
	err = s.db.Write(audit.With(r.Context(), r), func(q *db.Q) error {
		return audit.Write(q, audit.Entry{
			OrganizationID: r.Org.ID, Action: "audit_trail.exported", Subject: audit.Subject{Type: "audit_trail", ID: r.Org.ID, Name: "Audit trail"},
			After: audit.Fields{{Name: "format", Value: format}, {Name: "query", Value: core.Cut(r.URL.RawQuery, 1000)}},
		})
	})
	if err != nil {
		return route.Stream{}, err
	}
	r.SetHeader("Content-Disposition", fmt.Sprintf(`attachment; filename="audit-%s-%s.%s"`, r.Org.Slug, s.clock().Format("2006-01-02"), format))
	return route.Stream{Type: types[format], Size: -1, Write: func(w http.ResponseWriter) error {
		write := jsonLines(w)
		if format == "csv" {
			write = csvRows(w)
		}
		for left := maxExported; known && left > 0; {
			events, err := s.batch(r, f, after, min(left, exportBatch))
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := write(s.view(r, e)); err != nil {
					return err
				}
				after = e.Position()
			}
			if left -= len(events); len(events) < exportBatch {
				break
			}
		}
		return write(auditEventView{}) // the end
	}}, nil
}

// exportFrom returns the position of the event that the query names.
func (s *Service) exportFrom(r *route.Request) (after audit.Position, err error) {
	text := r.FormQuery("after")
	if text == "" {
		return after, nil
	}
	id, ok := core.ParseID(text)
	if !ok {
		return after, core.Errorf(core.BadRequest, "after must be the id of an audit event")
	}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		e, err := audit.Get(q, r.Org.ID, id)
		after = e.Position()
		return err
	})
	if core.KindOf(err) == core.NotFound {
		err = core.Errorf(core.BadRequest, "after must be the id of an audit event that is still kept")
	}
	return after, err
}

func (s *Service) batch(r *route.Request, f audit.Filter, after audit.Position, limit int) (events []audit.Event, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		events, err = audit.List(q, r.Org.ID, f, after, true, limit)
		return err
	})
	return events, err
}

// jsonLines returns a function that writes events as JSON, one in each line. An event without id is the end.
func jsonLines(w http.ResponseWriter) func(auditEventView) error {
	encoder := json.NewEncoder(w)
	return func(v auditEventView) error {
		if v.ID == "" {
			return nil
		}
		return encoder.Encode(v)
	}
}

var csvHeader = []string{
	"id", "created_at", "action", "subject_type", "subject_id", "subject_name", "actor_type", "actor_id", "actor_name", "actor_email",
	"token_id", "token_description", "channel", "ip_address", "user_agent", "request_id", "changes",
}

// csvRows returns a function that writes a header, and events as rows. An event without id is the end.
func csvRows(w http.ResponseWriter) func(auditEventView) error {
	rows := csv.NewWriter(w)
	rows.Write(csvHeader) // Flush returns its error
	return func(v auditEventView) error {
		if v.ID == "" {
			rows.Flush()
			return rows.Error()
		}
		changes, err := json.Marshal(v.Changes)
		if err != nil {
			return err
		}
		at, err := v.CreatedAt.MarshalJSON()
		if err != nil {
			return err
		}
		var token auditTokenView
		if v.Actor.Token != nil {
			token = *v.Actor.Token
		}
		row := []string{
			v.ID, strings.Trim(string(at), `"`), v.Action, v.Subject.Type, v.Subject.ID, v.Subject.Name, string(v.Actor.Type), text(v.Actor.ID),
			v.Actor.Name, text(v.Actor.Email), token.ID, token.Description, string(v.Channel), text(v.Address), text(v.UserAgent), text(v.RequestID), string(changes),
		}
		for i, cell := range row {
			row[i] = plainCell(cell)
		}
		return rows.Write(row)
	}
}

// lineBreaks are what would continue a row in the next line.
var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// plainCell returns a text on one line that spreadsheets do not take for a formula.
func plainCell(text string) string {
	text = lineBreaks.Replace(text)
	if text != "" && strings.ContainsRune("=+-@\t", rune(text[0])) {
		return "'" + text
	}
	return text
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
