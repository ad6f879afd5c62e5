package route

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/limits"
)

// A Request is an HTTP request that has passed the checks of its route.
type Request struct {
	*http.Request
	Caller *identity.Caller     // of a Bearer route
	Agent  *identity.AgentToken // of an Agent or Registration route
	// Acquisition is set on a Registration route when the agent uses a job acquisition token.
	Acquisition *identity.JobAcquisition
	Session     *identity.AgentSession // of a Session or Job route
	Org         *identity.Organization // of a path with {org}, or the agent's
	Member      *identity.Membership   // the caller's membership in Org; nil for a visitor
	Address     netip.Addr             // of the client, behind trusted proxies
	// Usage is how much of the rate limit the caller has used; zero without a limit.
	Usage limits.Usage

	route      *Route
	server     *Server
	w          http.ResponseWriter
	limitShown bool // the response has rate-limit headers, or needs none
}

// SetHeader sets a header of the response.
func (r *Request) SetHeader(name, value string) { r.w.Header().Set(name, value) }

// PathID returns the UUID in a path segment. Anything else is a NotFound error with the resource's message.
func (r *Request) PathID(segment, notFound string) (string, error) {
	id, ok := core.ParseID(r.PathValue(segment))
	if !ok {
		return "", core.Errorf(core.NotFound, "%s", notFound)
	}
	return id, nil
}

// Flag returns a boolean query parameter, or its default when it is missing or empty.
func (r *Request) Flag(name string, unset bool) (bool, error) {
	switch v := r.FormQuery(name); strings.ToLower(v) {
	case "":
		return unset, nil
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, core.Errorf(core.BadRequest, "%s must be true or false", name)
	}
}

// FormQuery returns a query parameter; it never reads the body.
func (r *Request) FormQuery(name string) string { return r.URL.Query().Get(name) }

// QueryID returns the id in a query parameter, "" when it is missing. Anything else is an error that says what it must
// be.
func (r *Request) QueryID(name, what string) (string, error) {
	text := r.FormQuery(name)
	if text == "" {
		return "", nil
	}
	id, ok := core.ParseID(text)
	if !ok {
		return "", core.Errorf(core.BadRequest, "%s must be %s", name, what)
	}
	return id, nil
}

// WantsText reports whether the request prefers plain text: its path ends in .txt, or its Accept header says
// so.
func (r *Request) WantsText() bool {
	return r.Accepts("application/json", "text/plain") == "text/plain"
}

// QueryText returns a query parameter, nil when it is missing.
func (r *Request) QueryText(name string) *string {
	query := r.URL.Query()
	if !query.Has(name) {
		return nil
	}
	text := query.Get(name)
	return &text
}

// maxListed is the maximum number of values of a repeated query parameter.
const maxListed = 200

// QueryList returns all values of a query parameter that can be repeated: name[]=a&name[]=b, or without the
// brackets. It refuses other spellings like name[0]=a: ignoring them would return more items.
func (r *Request) QueryList(name string) ([]string, error) {
	query := r.URL.Query()
	for key := range query {
		if rest, ok := strings.CutPrefix(key, name+"["); ok && rest != "]" {
			return nil, core.Errorf(core.BadRequest, "%s is not a parameter; repeat %s[] for each value", core.Cut(key, 100), name)
		}
	}
	values := append(query[name+"[]"], query[name]...)
	if len(values) > maxListed {
		return nil, core.Errorf(core.BadRequest, "%s has %d values; at most %d are possible", name, len(values), maxListed)
	}
	return values, nil
}

// QueryTime returns a time in the query, zero when it is missing. A date alone is its start in UTC.
func (r *Request) QueryTime(name string) (time.Time, error) {
	text := r.FormQuery(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, core.Errorf(core.BadRequest, "%s must be a time in ISO 8601, such as 2026-01-02T03:04:05Z", name)
}

// A Page is the requested part of a list.
type Page struct {
	Number int // from 1
	Size   int
}

const (
	defaultPageSize = 30
	maxPageSize     = 100
	// maxPage keeps the largest offset within the range of every engine.
	maxPage = 1_000_000
)

// Offset returns the number of items before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Size }

// Page returns the requested page.
func (r *Request) Page() (Page, error) {
	number, err := r.queryInt("page", 1, maxPage)
	if err != nil {
		return Page{}, err
	}
	size, err := r.pageSize()
	return Page{Number: number, Size: size}, err
}

// maxPageBytes is the maximum size of a page with more than one item, in stored bytes.
const maxPageBytes = 64 << 20

// Budget bounds the bytes of a page with some items. Exceeding it is an error that says how to request less;
// more can be added to it, for example what can be left out.
func Budget(items int, more string) *db.Budget {
	if items <= 1 {
		return nil
	}
	return db.NewBudget(maxPageBytes, core.Errorf(core.BadRequest, "This page has more than %d bytes; ask for fewer items at a time with per_page%s", maxPageBytes, more))
}

func (r *Request) pageSize() (int, error) {
	return r.queryInt("per_page", defaultPageSize, maxPageSize)
}

func (r *Request) queryInt(name string, unset, most int) (int, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return unset, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 1 || n > most {
		return 0, core.Errorf(core.BadRequest, "%s must be an integer from 1 to %d", name, most)
	}
	return n, nil
}

// More returns how many rows to read of a list that is not counted: one more than the page has.
func (p Page) More() int { return p.Size + 1 }

// Paged is one page of a list; the response is an array with a Link header.
type Paged[T any] struct {
	Items []T
	Page  Page
	Total int  // items on all pages
	more  bool // there is a next page, if the total is unknown
}

// PageOf returns one page of a list of total items.
func PageOf[T any](items []T, page Page, total int) Paged[T] {
	return Paged[T]{Items: items, Page: page, Total: total}
}

// MapPage returns a page with every item converted to its view.
func MapPage[T, V any](items []T, page Page, total int, view func(T) V) Paged[V] {
	views := make([]V, len(items))
	for i, item := range items {
		views[i] = view(item)
	}
	return PageOf(views, page, total)
}

// uncounted, as a total, means that counting would cost more than the page itself.
const uncounted = -1

// MapMore returns a page of a list that is too long to count. rows has one item more than the page when there
// is a next one; see Page.More.
func MapMore[T, V any](rows []T, page Page, view func(T) V) Paged[V] {
	p := MapPage(rows[:min(len(rows), page.Size)], page, uncounted, view)
	p.more = len(rows) > page.Size
	return p
}

func (p Paged[T]) shape(r *Request) any {
	last := max(1, (p.Total+p.Page.Size-1)/p.Page.Size)
	if p.Total == uncounted {
		last = p.Page.Number
	}
	var links []string
	link := func(page int, rel string) {
		links = append(links, fmt.Sprintf(`<%s>; rel="%s"`, r.link("page", strconv.Itoa(page)), rel))
	}
	if p.Page.Number < last || p.more {
		link(p.Page.Number+1, "next")
	}
	if p.Page.Number < last {
		link(last, "last")
	}
	if p.Page.Number > 1 {
		link(1, "first")
		link(min(p.Page.Number-1, last), "prev")
	}
	if len(links) > 0 {
		r.SetHeader("Link", strings.Join(links, ", "))
	}
	if p.Items == nil {
		return []T{}
	}
	return p.Items
}

// link returns the request's own URL with one query parameter set and others removed. Commas and semicolons are
// percent-encoded, because clients split Link headers at them.
func (r *Request) link(set, value string, remove ...string) string {
	query := r.URL.Query()
	for _, name := range remove {
		query.Del(name)
	}
	query.Set(set, value)
	return string(r.server.public) + r.URL.EscapedPath() + "?" + query.Encode()
}

// A CursorPage is the requested part of a list with cursors.
type CursorPage struct {
	Size          int
	After, Before core.Cursor // at most one is set
	list          string
}

// Limit returns how many rows to read: one more than the page has, to know whether there are more.
func (p CursorPage) Limit() int { return p.Size + 1 }

// CursorPage returns the requested part of a list whose sort key has a number of parts. list identifies the
// list: cursors of other lists are refused.
func (r *Request) CursorPage(list string, parts int) (CursorPage, error) {
	size, err := r.pageSize()
	if err != nil {
		return CursorPage{}, err
	}
	p := CursorPage{Size: size, list: list}
	query := r.URL.Query()
	switch after, before := query.Has("after"), query.Has("before"); {
	case after && before:
		return p, core.Errorf(core.BadRequest, "after and before cannot be used together")
	case after:
		p.After, err = parseCursor(query.Get("after"), list, parts)
	case before:
		p.Before, err = parseCursor(query.Get("before"), list, parts)
	}
	return p, err
}

// parseCursor parses a cursor, which names its list before the sort key, and returns the sort key.
func parseCursor(text, list string, parts int) (core.Cursor, error) {
	c, err := core.ParseCursor(text, 1+parts)
	if err != nil {
		return nil, err
	}
	if c[0] != list {
		return nil, core.Errorf(core.BadRequest, "The cursor is not valid: it belongs to another list")
	}
	return c[1:], nil
}

// Cursor returns a sort key in the form that parseCursor reads.
func (p CursorPage) Cursor(key core.Cursor) string {
	return append(core.Cursor{p.list}, key...).String()
}

// Items is one page of a list with cursors.
type Items[T any] struct {
	Items []T   `json:"items"`
	Links Links `json:"links"`
}

// Links lead from one page of a list with cursors to others.
type Links struct {
	Self string  `json:"self"`
	Next *string `json:"next"`
	Prev *string `json:"prev"`
}

// ItemsOf returns a page of up to Limit rows, read in the direction of the cursor: in reverse order for Before.
// key returns the sort key of an item, and view its view.
func ItemsOf[T, V any](r *Request, p CursorPage, rows []T, key func(T) core.Cursor, view func(T) V) Items[V] {
	more := len(rows) > p.Size
	rows = rows[:min(len(rows), p.Size)]
	page := Items[V]{Items: make([]V, len(rows))}
	page.Links.Self = string(r.server.public) + r.URL.RequestURI()
	for i, row := range rows {
		at := i
		if p.Before != nil {
			at = len(rows) - 1 - i
		}
		page.Items[at] = view(row)
	}
	if len(rows) == 0 {
		if p.Before != nil { // nothing comes before the cursor: the whole list follows
			next := r.link("per_page", strconv.Itoa(p.Size), "before")
			page.Links.Next = &next
		}
		return page
	}
	first, last := rows[0], rows[len(rows)-1]
	if p.Before != nil {
		first, last = last, first
	}
	if more && p.Before == nil || p.Before != nil {
		next := r.link("after", p.Cursor(key(last)), "before")
		page.Links.Next = &next
	}
	if more && p.Before != nil || p.After != nil {
		prev := r.link("before", p.Cursor(key(first)), "after")
		page.Links.Prev = &prev
	}
	return page
}
