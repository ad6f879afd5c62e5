package audit

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Rows describes the rows of a table whose changes are recorded. Its texts are SQL of the package that owns the table.
type Rows struct {
	Type  string // of the subject
	Table string
	// Key are the columns that identify a row, separated by commas; "": id.
	Key string
	// Org and Name are expressions: the organization's id and the name of the subject.
	Org, Name string
	// Orgs replaces Org for rows that concern several organizations, for example those of a user. Its parameter is the
	// key. Each organization gets a record.
	Orgs string
	// Columns are the columns that are recorded, separated by commas and spaces, with a kind and another name if they need
	// them. A secret is compared and not shown. Of values, which are a JSON object, the keys are shown and the values are not:
	//
	//	name, enabled bool, expires_at time, policy json, env values, hash secret token
	Columns string
	// Gone is a condition of rows that count as deleted; "": none.
	Gone string

	once    sync.Once
	columns []column
	query   string
}

// A column is a recorded column with its kind: "" or text, bool, time, json, values or secret.
type column struct{ name, kind string }

// separator separates columns; a comma without a space belongs to an expression.
var separator = regexp.MustCompile(`,\s+`)

// maxOrganizations bounds the records of one change.
const maxOrganizations = 100

// Exec runs a statement that changes the row with a key, and records how it changed. The parts of a key are joined with
// slashes. It returns how many rows the statement changed.
func (r *Rows) Exec(q *db.Q, key, query string, args ...any) (affected int64, err error) {
	err = r.Change(q, key, func() error {
		affected, err = q.Exec(query, args...)
		return err
	})
	return affected, err
}

// Change runs a function that changes the row with a key, and records how it changed.
func (r *Rows) Change(q *db.Q, key string, change func() error) error {
	return r.ChangeAlso(q, key, nil, nil, change)
}

// ChangeAlso is [Rows.Change] of a subject that has more fields than those of the row.
func (r *Rows) ChangeAlso(q *db.Q, key string, moreBefore, moreAfter Fields, change func() error) error {
	before, err := r.load(q, key)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	after, err := r.load(q, key)
	if err != nil {
		return err
	}
	if before != nil {
		before.fields = append(before.fields, moreBefore...)
	}
	if after != nil {
		after.fields = append(after.fields, moreAfter...)
	}
	return r.record(q, key, before, after)
}

// record writes the difference of two states of a row, if there is one.
func (r *Rows) record(q *db.Q, key string, before, after *state) error {
	e := Entry{Subject: Subject{Type: r.Type, ID: key}}
	var orgs []string
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		e.Action, orgs, e.Subject.Name, e.After = r.Type+".created", after.orgs, after.name, after.fields
	case after == nil:
		e.Action, orgs, e.Subject.Name, e.Before = r.Type+".deleted", before.orgs, before.name, before.fields
	default:
		e.Action, orgs, e.Subject.Name, e.Before, e.After = r.Type+".updated", after.orgs, after.name, before.fields, after.fields
		if len(diff(before.fields, after.fields)) == 0 {
			return nil
		}
	}
	for _, e.OrganizationID = range orgs { // none: it belongs to the installation, which has no trail
		if err := Write(q, e); err != nil {
			return err
		}
	}
	return nil
}

// state is what a row had at one time.
type state struct {
	orgs   []string
	name   string
	fields Fields
}

// prepare parses the description once.
func (r *Rows) prepare() {
	org := r.Org
	if r.Orgs != "" {
		org = "NULL"
	}
	names := []string{org, r.Name}
	for _, part := range separator.Split(r.Columns, -1) {
		words := append(strings.Fields(part), "", "")
		names = append(names, words[0])
		r.columns = append(r.columns, column{name: cmp.Or(words[2], words[0]), kind: words[1]})
	}
	key := r.Key
	if key == "" {
		key = "id"
	}
	var conditions []string
	for i, name := range strings.Split(key, ",") {
		conditions = append(conditions, fmt.Sprintf("%s = $%d", strings.TrimSpace(name), i+1))
	}
	if r.Gone != "" {
		conditions = append(conditions, "NOT ("+r.Gone+")")
	}
	r.query = "SELECT " + strings.Join(names, ", ") + " FROM " + r.Table + " WHERE " + strings.Join(conditions, " AND ")
}

// load returns a row, or nil if there is none.
func (r *Rows) load(q *db.Q, key string) (*state, error) {
	r.once.Do(r.prepare)
	var args []any
	for part := range strings.SplitSeq(key, "/") {
		args = append(args, part)
	}
	var s state
	var org string
	values := make([]any, len(r.columns))
	dest := []any{db.ToText(&org), db.ToText(&s.name)}
	for i := range values {
		dest = append(dest, &values[i])
	}
	err := q.QueryRow(r.query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s for the audit trail: %w", r.Type, err)
	}
	for i, c := range r.columns {
		s.fields = append(s.fields, c.fields(values[i])...)
	}
	if org != "" {
		s.orgs = []string{org}
	}
	if r.Orgs != "" {
		s.orgs, err = db.Strings(q, r.Orgs+fmt.Sprintf(" LIMIT %d", maxOrganizations), args...)
	}
	return &s, err
}

// fields returns the fields of a column's value.
func (c column) fields(v any) Fields {
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	switch n, number := v.(int64); {
	case c.kind == "secret":
		return Fields{{Name: c.name, Value: v, Secret: true}}
	case c.kind == "bool" && number:
		v = n != 0
	case c.kind == "time" && number:
		v = core.At(time.UnixMicro(n).UTC())
	case c.kind == "json" || c.kind == "values":
		return c.object(v)
	}
	return Fields{{Name: c.name, Value: v}}
}

// object returns the fields of a JSON value: one for each key of an object.
func (c column) object(v any) (fields Fields) {
	text, _ := v.(string)
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return Fields{{Name: c.name, Value: text, Secret: c.kind == "values"}}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return Fields{{Name: c.name, Value: value, Secret: c.kind == "values"}}
	}
	return Object(c.name, object, func(string) bool { return c.kind == "values" })
}

// Object returns the fields of an object, with its name before each key, sorted. secret reports which keys are secrets.
func Object(name string, object map[string]any, secret func(key string) bool) (fields Fields) {
	for _, key := range sortedKeys(object) {
		fields = append(fields, Field{Name: name + "." + core.Cut(key, maxText), Value: object[key], Secret: secret(key)})
	}
	return fields
}
