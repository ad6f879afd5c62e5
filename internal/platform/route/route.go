// Package route serves HTTP. Packages declare their routes as data; from this table come the mux,
// authentication, the organization, scope and permission checks, rate limits, decoding, paging, error
// rendering, request ids, logs, metrics and the OpenAPI document.
//
// Each request passes the same checks in the same order: the caller (401), the organization (404, 503), the
// rate limit (429), the token's scope and the caller's permission (403), the resource (404), its own permission
// (403), the body (400, 422), and then the handler. A handler is a function of a Request, the loaded resource
// and the decoded body. It returns a value that is written as JSON, a Stream that writes its own body, or an
// error whose core.Kind decides the status.
package route

import (
	"encoding/json"
	"net/http"
	"reflect"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// Auth is the kind of credential that a route requires.
type Auth int

// The kinds of credentials.
const (
	Bearer       Auth = iota // a user's access token
	Agent                    // a cluster's agent token
	Registration             // of an agent that registers: an agent token, or one for a single job
	Session                  // the token of a registered agent
	Job                      // the token of a job, or of the agent that accepted it
	Open                     // none
)

// byAgents reports whether agents and stacks use such a credential, and not people.
func (a Auth) byAgents() bool {
	return a == Agent || a == Registration || a == Session || a == Job
}

// NoScope marks a route that any valid access token can use.
const NoScope identity.Scope = "none"

// A Route is one method of one path.
type Route struct {
	Method      string
	Path        string // in net/http's pattern syntax; a segment {org} is the organization's slug
	Tag         string // the group it is documented in
	Summary     string
	Description string

	Auth       Auth
	Scope      identity.Scope      // required for Bearer routes; NoScope when none is needed
	Permission identity.Permission // required of the caller, if any
	// Visitors admits callers who do not belong to the organization; the resource's Permits decides what they
	// see.
	Visitors bool
	// Limit is the rate limit; Bearer routes without one have the limit of the REST API.
	Limit *RateLimit
	// Unprocessable changes the status for a field of the wrong type from 400 to 422, on routes of agents and
	// stacks.
	Unprocessable bool

	// PlainValidation keeps the message of a 422 with fields as "Validation Failed", which the specification
	// requires on some routes. Otherwise the message names the fields too.
	PlainValidation bool

	// OAuth writes errors in the format of OAuth, and disables caching.
	OAuth bool

	Query []Param
	// Media are the media types of a Stream, besides JSON.
	Media   []string
	Status  int   // of success; 200 when zero
	Errors  []int // statuses besides those that every route of its kind can return
	Hidden  bool  // not part of the documented API
	Content bool  // served at the content URL, and nothing else is
	Handler Handler
}

// Param is a query parameter.
type Param struct {
	Name string
	Doc  string
	// Type is the JSON schema type; "string" when empty.
	Type string
}

// PageParams are the query parameters of lists with pages.
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

// A Handler implements a route. Do, DoBody, DoForm, On, OnBody, Visit and Raw return one.
type Handler struct {
	body    reflect.Type // nil: none
	form    bool         // the body is a form
	result  reflect.Type // nil: writes its own response
	guarded bool         // the loaded resource decides the route's permission
	serve   func(r *Request) (any, error)
	reload  func(r *Request) error // loads the resource again; nil: there is none
	raw     http.HandlerFunc
	visit   func(http.ResponseWriter, *Request) error
}

// Guarded is a resource that decides itself who has a permission on it.
type Guarded interface {
	// Permits reports whether the request's caller has a permission on the resource.
	Permits(r *Request, p identity.Permission) bool
}

// Refusing is a Guarded resource with its own messages for callers who lack a permission.
type Refusing interface {
	// Refusal returns the message, or "" for the usual one, which names the permission.
	Refusal(p identity.Permission) string
}

// Reduced is a resource that visitors see only in part. Routes that read it and do not admit visitors hide it
// from them, also from members who see the resource as visitors do.
type Reduced interface {
	// Hidden returns a NotFound error when the caller sees the resource as a visitor.
	Hidden() error
}

// Nothing is the result of a handler without a response body.
type Nothing struct{}

// OrText is the result of a handler that returns JSON or plain text, as the request prefers.
type OrText[T any] struct {
	JSON T
	Text string // written instead when PlainText is set
	// PlainText selects the text.
	PlainText bool
}

func (t OrText[T]) schemaType() reflect.Type { return reflect.TypeFor[T]() }

func (t OrText[T]) shape(*Request) any {
	if t.PlainText {
		return plainText(t.Text)
	}
	return t.JSON
}

// Made is the result of a handler that creates something or finds it: 201 or the route's own status, with the
// same body.
type Made[T any] struct {
	Body T
	New  bool
}

func (m Made[T]) schemaType() reflect.Type { return reflect.TypeFor[T]() }
func (m Made[T]) shape(*Request) any       { return m.Body }
func (m Made[T]) isNew() bool              { return m.New }

// Encoded is the result of a handler that has the JSON of a T already.
type Encoded[T any] struct{ JSON []byte }

func (e Encoded[T]) schemaType() reflect.Type { return reflect.TypeFor[T]() }
func (e Encoded[T]) shape(*Request) any       { return encodedJSON(e.JSON) }

// Encode returns the JSON of a value, as responses have it.
func Encode[T any](v T) (Encoded[T], error) {
	body, err := json.Marshal(v)
	return Encoded[T]{append(body, '\n')}, err
}

// encodedJSON is a body that ends with a newline.
type encodedJSON []byte

// MarshalJSON returns the body.
func (e encodedJSON) MarshalJSON() ([]byte, error) { return e, nil }

// texted is a type whose values can be written as plain text.
type texted interface{ texted() }

func (t OrText[T]) texted() {}

// plainText is a body that is not JSON.
type plainText string

// Do returns a handler without a resource and a body.
func Do[R any](f func(*Request) (R, error)) Handler {
	return Handler{
		result: reflect.TypeFor[R](),
		serve:  func(r *Request) (any, error) { return f(r) },
	}
}

// DoBody returns a handler with a body.
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

// DoForm returns a handler with a form: a struct of strings with JSON names.
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

// On returns a handler with a resource: load returns it, or a NotFound error.
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

// OnBody returns a handler with a resource and a body. The resource comes first: a bad body for something that
// does not exist is NotFound.
func OnBody[T, B, R any](load func(*Request) (T, error), f func(*Request, T, B) (R, error)) Handler {
	h := On(load, func(r *Request, resource T) (result R, err error) {
		var body B
		if err := r.decode(&body); err != nil {
			return result, err
		}
		return f(r, resource, body)
	})
	h.body, h.reload = reflect.TypeFor[B](), nil // requests with a body are not checked again while they are held
	return h
}

// Visit returns a handler of a page for people who sign in with a cookie. f identifies the visitor itself, can
// set the request's Caller, and writes its own response, unless it returns an error.
func Visit(f func(http.ResponseWriter, *Request) error) Handler { return Handler{visit: f} }

// Raw returns a handler that writes its own response, without decoding and rendering.
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
