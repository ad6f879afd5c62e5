// Package graphql answers GraphQL requests: the operations that published clients send besides those of the REST API.
//
// The schema is schema.graphql, which the server also publishes. Resolvers call routes of the REST API on behalf of the
// caller ([route.Request.Call]), so that scopes, permissions, rate limits and validation are the same. A request is
// limited in length, depth, number of such calls and size of its result (meter.go).
package graphql

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"

	gql "github.com/graph-gophers/graphql-go"
	"github.com/graph-gophers/graphql-go/errors"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

const (
	// maxLength limits the text of a query, in bytes.
	maxLength = 20_000
	// maxDepth limits how deep fields are nested.
	maxDepth = 12
	// maxCalls limits the cost of a request: the calls of routes of the REST API.
	maxCalls = 60
	// maxPage limits the objects of a page.
	maxPage = 100
)

//go:embed schema.graphql
var schemaText string

// Routes returns the routes of the GraphQL API.
func Routes() []route.Route {
	schema := gql.MustParseSchema(schemaText, &query{}, gql.MaxDepth(maxDepth), gql.MaxParallelism(1), gql.UseStringDescriptions(), gql.Tracer(meter{}))
	return []route.Route{
		{
			Method: http.MethodPost, Path: "/graphql", Tag: "GraphQL", Summary: "Run a GraphQL operation",
			Description: "Every field has the scope and the permission of the route of the REST API that serves it. The schema is at /graphql/schema.",
			Scope:       route.NoScope,
			Handler:     route.DoBody(func(r *route.Request, body request) (response, error) { return run(r, schema, body) }),
		},
		{
			Method: http.MethodGet, Path: "/graphql/schema", Auth: route.Open, Hidden: true,
			Handler: route.Raw(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.Write([]byte(schemaText))
			}),
		},
	}
}

type request struct {
	Query     string          `json:"query" doc:"One or more operations, up to 20,000 bytes."`
	Operation string          `json:"operationName" doc:"The operation to run if the query has several."`
	Variables json.RawMessage `json:"variables" doc:"The values of its variables, as an object."`
}

type response struct {
	Data   json.RawMessage `json:"data,omitempty" doc:"The result, in the shape of the query."`
	Errors []queryError    `json:"errors,omitempty"`
}

type queryError struct {
	Message   string     `json:"message"`
	Locations []location `json:"locations,omitempty"`
	Path      []any      `json:"path,omitempty" doc:"The field that it is about."`
}

type location struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

func run(r *route.Request, schema *gql.Schema, body request) (response, error) {
	if body.Query == "" {
		return response{}, core.Errorf(core.BadRequest, "query is required: a GraphQL document")
	}
	if len(body.Query) > maxLength {
		return response{}, core.Errorf(core.BadRequest, "query is too long: it has more than %d bytes", maxLength)
	}
	if expandedSize(body.Query) > maxExpanded {
		return response{}, core.Errorf(core.BadRequest, "query is too large; use fewer fields and fragments")
	}
	var variables map[string]any
	if len(body.Variables) > 0 {
		if err := json.Unmarshal(body.Variables, &variables); err != nil {
			return response{}, core.Errorf(core.BadRequest, "variables must be an object")
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &calls{r: r, cancel: cancel}
	result := schema.Exec(context.WithValue(ctx, callsKey{}, c), body.Query, body.Operation, variables)
	if c.failure != nil {
		return response{}, c.failure // logged, with 500
	}
	if c.refusal != nil {
		return response{Errors: []queryError{{Message: c.refusal.Error()}}}, nil
	}
	answer := response{Data: result.Data}
	for _, e := range result.Errors {
		answer.Errors = append(answer.Errors, viewError(e))
	}
	return answer, nil
}

func viewError(e *errors.QueryError) queryError {
	v := queryError{Message: e.Message, Path: e.Path}
	for _, l := range e.Locations {
		v.Locations = append(v.Locations, location{l.Line, l.Column})
	}
	return v
}

// calls makes the calls of one request.
type calls struct {
	r       *route.Request
	lock    sync.Mutex
	made    int
	cancel  func()
	fields  int   // of the result
	refusal error // why the result is too large
	failure error // one that is not the caller's
	queues  map[string][]restQueue
	agents  []restAgent // loaded when first needed
}

type callsKey struct{}

func callsOf(ctx context.Context) *calls { return ctx.Value(callsKey{}).(*calls) }

// call calls a route of the REST API and decodes the result.
func (c *calls) call(method, path string, body, into any) (route.Next, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.made++; c.made > maxCalls {
		return route.Next{}, core.Errorf(core.BadRequest, "the query is too expensive; ask for fewer objects")
	}
	next, err := c.r.Call(method, path, body, into)
	if err != nil && core.KindOf(err) == 0 && c.failure == nil {
		c.failure = err
	}
	return next, err
}

func (c *calls) get(path string, into any) (route.Next, error) {
	return c.call(http.MethodGet, path, nil, into)
}
