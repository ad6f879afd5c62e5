// Package route is the HTTP toolkit. A room hands over its routes as data, and from that one table
// come the mux, authentication, the organization, scope and permission checks, rate limits, decoding,
// paging, error rendering, request ids, logs, metrics and the OpenAPI document.
//
// Each request passes the same gates in the same order: who is calling (401), the organization (404,
// 503), the rate limit (429), the token's scope and the caller's permission (403), the resource (404),
// its own permission (403), the body (400, 422), and then the handler. A handler is a plain function
// of a Request, the loaded resource and the decoded body; it returns a value to be written as JSON, a
// Stream that writes its own body, or an error whose core.Kind decides the status.
package route

import (
	"net/http"
	"reflect"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// Auth says what kind of credential a route asks for.
type Auth int

// The kinds of credentials.
const (
	Bearer       Auth = iota // a user's access token
	Agent                    // a cluster's agent token
	Registration             // that of an agent which registers: an agent token, or one for a single job
	Session                  // the token of a registered agent
	Job                      // the token of a job, or of the agent that took it
	Open                     // none
)

// byAgents reports whether agents and stacks hold such a credential, and not people.
func (a Auth) byAgents() bool {
	return a == Agent || a == Registration || a == Session || a == Job
}

// NoScope marks a route that any valid access token may use.
const NoScope identity.Scope = "none"

// A Route is one method of one path.
type Route struct {
	Method      string
	Path        string // in net/http's pattern syntax; a segment {org} is the organization's slug
	Tag         string // the group it is documented in
	Summary     string
	Description string

	Auth       Auth
	Scope      identity.Scope      // required for Bearer routes; NoScope where none is needed
	Permission identity.Permission // what the caller must be allowed to do, if anything
	// Visitors lets callers through who do not belong to the organization; the resource's own Permits
	// decides what they see.
	Visitors bool
	// Limit is the rate limit; that of the REST API for Bearer routes that set none.
	Limit *RateLimit
	// Unprocessable makes the status 422 when a field of the body has the wrong type, on routes of agents
	// and stacks, where it is 400 otherwise.
	Unprocessable bool

	// PlainValidation keeps the message of a 422 that lists fields as "Validation Failed", where the
	// specification fixes that text. Elsewhere the message names the fields too.
	PlainValidation bool

	// OAuth has errors told in the words of OAuth, and forbids anybody to keep the answers.
	OAuth bool

	Query []Param
	// Media are the types that a Stream can have, besides JSON.
	Media   []string
	Status  int   // of success; 200 when zero
	Errors  []int // statuses beyond those every route of its kind can answer
	Hidden  bool  // not part of the documented API
	Content bool  // answered at the content URL, where nothing else is
	Handler Handler
}

// Param is a query parameter.
type Param struct {
	Name string
	Doc  string
	// Type is the JSON schema type; "string" when empty.
	Type string
}

// PageParams are the query parameters of lists in pages.
var PageParams = []Param{
	{Name: "page", Type: "integer", Doc: "The page, counted from 1."},
	{Name: "per_page", Type: "integer", Doc: "Items on a page: 30 unless given, at most 100."},
}

// CursorParams are the query parameters of lists with cursors.
var CursorParams = []Param{
	{Name: "per_page", Type: "integer", Doc: "Items on a page: 30 unless given, at most 100."},
	{Name: "after", Doc: "A cursor: what comes after it. Not together with before."},
	{Name: "before", Doc: "A cursor: what comes before it. Not together with after."},
}

// A Handler is what a route does, made by Do, DoBody, DoForm, On, OnBody, Visit or Raw.
type Handler struct {
	body    reflect.Type // nil: takes none
	form    bool         // the body is a form
	result  reflect.Type // nil: writes its own response
	guarded bool         // the loaded resource decides the route's permission
	serve   func(r *Request) (any, error)
	reload  func(r *Request) error // finds the resource again; nil: there is none
	raw     http.HandlerFunc
	visit   func(http.ResponseWriter, *Request) error
}

// Guarded is a resource that decides itself who has a permission on it.
type Guarded interface {
	// Permits reports whether the request's caller may do something to the resource.
	Permits(r *Request, p identity.Permission) bool
}

// Refusing is a Guarded resource with its own messages for callers who lack a permission.
type Refusing interface {
	// Refusal returns the message, or "" for the usual one, which names the permission.
	Refusal(p identity.Permission) string
}

// Reduced is a resource of which visitors see a part. A route that reads it and is not for visitors is none of that
// part, also for members who see the resource as visitors do.
type Reduced interface {
	// Hidden returns a NotFound error when the caller sees the resource as a visitor.
	Hidden() error
}

// Nothing is the result of a handler whose success has no body.
type Nothing struct{}

// OrText is the result of a handler that answers with JSON or with plain text, as the request asks.
type OrText[T any] struct {
	JSON T
	Text string // written instead when PlainText is set
	// PlainText says which of the two is written.
	PlainText bool
}

func (t OrText[T]) schemaType() reflect.Type { return reflect.TypeFor[T]() }

func (t OrText[T]) shape(*Request) any {
	if t.PlainText {
		return plainText(t.Text)
	}
	return t.JSON
}

// Made is the result of a handler that makes something or finds it made: 201 or the route's own status,
// with the same body.
type Made[T any] struct {
	Body T
	New  bool
}

func (m Made[T]) schemaType() reflect.Type { return reflect.TypeFor[T]() }
func (m Made[T]) shape(*Request) any       { return m.Body }
func (m Made[T]) isNew() bool              { return m.New }

// texted is a type whose values may be written as plain text.
type texted interface{ texted() }

func (t OrText[T]) texted() {}

// plainText is a body that is not JSON.
type plainText string

// Do makes a handler of a function that needs no resource and no body.
func Do[R any](f func(*Request) (R, error)) Handler {
	return Handler{
		result: reflect.TypeFor[R](),
		serve:  func(r *Request) (any, error) { return f(r) },
	}
}

// DoBody makes a handler of a function that needs a body.
func DoBody[B, R any](f func(*Request, B) (R, error)) Handler {
	return Handler{
		body:   reflect.TypeFor[B](),
		result: reflect.TypeFor[R](),
		serve: func(r *Request) (any, error) {
			var body B
			if err := r.decode(&body); err != nil {
				return nil, err
			}
			return f(r, body)
		},
	}
}

// DoForm makes a handler of a function that needs a form: a struct of strings with JSON names.
func DoForm[F, R any](f func(*Request, F) (R, error)) Handler {
	return Handler{
		body:   reflect.TypeFor[F](),
		form:   true,
		result: reflect.TypeFor[R](),
		serve: func(r *Request) (any, error) {
			values, err := r.ReadForm()
			if err != nil {
				return nil, err
			}
			var form F
			if err := DecodeForm(values, &form); err != nil {
				return nil, err
			}
			return f(r, form)
		},
	}
}

// On makes a handler of a function that needs a resource: load finds it, or says NotFound.
func On[T, R any](load func(*Request) (T, error), f func(*Request, T) (R, error)) Handler {
	return Handler{
		result:  reflect.TypeFor[R](),
		guarded: reflect.TypeFor[T]().Implements(reflect.TypeFor[Guarded]()),
		serve: func(r *Request) (any, error) {
			resource, err := loadPermitted(r, load)
			if err != nil {
				return nil, err
			}
			return f(r, resource)
		},
		reload: func(r *Request) error {
			_, err := loadPermitted(r, load)
			return err
		},
	}
}

// OnBody makes a handler of a function that needs a resource and a body. The resource comes first: a
// bad body for something that does not exist is NotFound.
func OnBody[T, B, R any](load func(*Request) (T, error), f func(*Request, T, B) (R, error)) Handler {
	return Handler{
		body:    reflect.TypeFor[B](),
		result:  reflect.TypeFor[R](),
		guarded: reflect.TypeFor[T]().Implements(reflect.TypeFor[Guarded]()),
		serve: func(r *Request) (any, error) {
			resource, err := loadPermitted(r, load)
			if err != nil {
				return nil, err
			}
			var body B
			if err := r.decode(&body); err != nil {
				return nil, err
			}
			return f(r, resource, body)
		},
	}
}

// Visit makes a handler of a page for people, who sign in with a cookie: it finds out by itself who is
// there, for which it may set the request's Caller, and writes its own response, unless it returns an
// error.
func Visit(f func(http.ResponseWriter, *Request) error) Handler { return Handler{visit: f} }

// Raw makes a handler that writes its own response, past all decoding and rendering.
func Raw(f http.HandlerFunc) Handler { return Handler{raw: f} }

func loadPermitted[T any](r *Request, load func(*Request) (T, error)) (T, error) {
	resource, err := load(r)
	if err != nil {
		return resource, err
	}
	p := r.route.Permission
	if h, ok := any(resource).(Reduced); ok && p == identity.ReadPipeline && !r.route.Visitors {
		if err := h.Hidden(); err != nil {
			return resource, err
		}
	}
	g, ok := any(resource).(Guarded)
	if !ok || p == "" || g.Permits(r, p) {
		return resource, nil
	}
	if e, ok := g.(Refusing); ok && e.Refusal(p) != "" {
		return resource, core.Errorf(core.Forbidden, "%s", e.Refusal(p))
	}
	return resource, forbidden(p)
}

func forbidden(p identity.Permission) error {
	if p.AdministratorsOnly() {
		return core.Errorf(core.Forbidden, "Forbidden: this needs an organization administrator (permission %s)", p)
	}
	return core.Errorf(core.Forbidden, "Forbidden: this needs the permission %s", p)
}
