package route

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// OpenAPI returns the OpenAPI 3.1 document of the server's routes, generated from the same table that serves
// them.
func (s *Server) OpenAPI(version string) ([]byte, error) {
	d := document{components: make(map[string]any), types: make(map[string]reflect.Type)}
	paths := make(map[string]any)
	var tags []map[string]any
	for _, r := range s.routes {
		if r.Hidden {
			continue
		}
		path, _ := paths[r.Path].(map[string]any)
		if path == nil {
			path = make(map[string]any)
			paths[r.Path] = path
		}
		path[strings.ToLower(r.Method)] = d.operation(r)
		if !slices.ContainsFunc(tags, func(t map[string]any) bool { return t["name"] == r.Tag }) {
			tags = append(tags, map[string]any{"name": r.Tag})
		}
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title":       "Stackyard",
			"version":     version,
			"description": "The HTTP APIs of this Stackyard server: REST under /v2, agents and stacks under /v3, OAuth under /oauth.",
			"license":     map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{map[string]any{"url": string(s.public)}},
		"tags":    tags,
		"paths":   paths,
		"components": map[string]any{
			"schemas": d.components,
			"securitySchemes": map[string]any{
				"accessToken": map[string]any{"type": "http", "scheme": "bearer", "description": "An access token of a user (svcua_…)."},
				"agentToken": map[string]any{
					"type": "apiKey", "in": "header", "name": "Authorization",
					"description": "The word Token, a space, and an agent token of a cluster (svcct_…).",
				},
				"sessionToken": map[string]any{
					"type": "apiKey", "in": "header", "name": "Authorization",
					"description": "The word Token, a space, and the token that an agent got when it registered (svcas_…).",
				},
				"jobToken": map[string]any{
					"type": "apiKey", "in": "header", "name": "Authorization",
					"description": "The word Token, a space, and the token that came with a job (svcaj_…).",
				},
			},
		},
	}, "", "  ")
}

var pathParam = regexp.MustCompile(`\{([a-z_]+)\}`)

func (d *document) operation(r Route) map[string]any {
	op := map[string]any{
		"operationId": operationID(r),
		"tags":        []string{r.Tag},
		"summary":     r.Summary,
		"description": r.explain(),
		"responses":   d.responses(r),
		"security":    []any{},
	}
	var params []any
	for _, m := range pathParam.FindAllStringSubmatch(r.Path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, q := range r.Query {
		params = append(params, q.openAPI())
	}
	if params != nil {
		op["parameters"] = params
	}
	switch r.Auth {
	case Bearer:
		op["security"] = []any{map[string]any{"accessToken": []any{}}}
	case Agent, Registration:
		op["security"] = []any{map[string]any{"agentToken": []any{}}}
	case Session:
		op["security"] = []any{map[string]any{"sessionToken": []any{}}}
	case Job:
		op["security"] = []any{map[string]any{"jobToken": []any{}}, map[string]any{"sessionToken": []any{}}}
	}
	if r.Handler.body != nil {
		media := jsonType
		if r.Handler.form {
			media = formType
		}
		op["requestBody"] = map[string]any{"content": content(media, d.schema(r.Handler.body))}
	}
	return op
}

func (p Param) openAPI() map[string]any {
	kind := p.Type
	if kind == "" {
		kind = "string"
	}
	schema := map[string]any{"type": kind}
	if kind == "array" {
		schema["items"] = map[string]any{"type": "string"}
	}
	return map[string]any{"name": p.Name, "in": "query", "description": p.Doc, "schema": schema}
}

// explain adds a route's requirements to its description.
func (r Route) explain() string {
	text := r.Description
	add := func(format string, args ...any) {
		if text != "" {
			text += "\n\n"
		}
		text += fmt.Sprintf(format, args...)
	}
	if r.Auth == Bearer && r.Scope != NoScope {
		add("Scope: `%s`.", r.Scope)
	}
	if r.Permission != "" {
		add("Permission: `%s`.", r.Permission)
	}
	return text
}

func operationID(r Route) string {
	path := strings.NewReplacer("{", "", "}", "", "/", "_", "-", "_", ".", "_").Replace(strings.Trim(r.Path, "/"))
	return strings.ToLower(r.Method) + "_" + path
}

func (d *document) responses(r Route) map[string]any {
	responses := make(map[string]any)
	for _, status := range r.Statuses() {
		responses[strconv.Itoa(status)] = d.response(r, status)
	}
	return responses
}

// Statuses lists every status that the route can return.
func (r Route) Statuses() []int {
	statuses := append([]int{r.Status}, r.Errors...)
	if r.Auth != Open {
		statuses = append(statuses, http.StatusUnauthorized)
	}
	if r.Limit != nil {
		statuses = append(statuses, http.StatusTooManyRequests)
	}
	if r.Handler.result != nil && r.Handler.result.Implements(reflect.TypeFor[made]()) {
		statuses = append(statuses, http.StatusCreated)
	}
	if r.Auth == Bearer && r.Scope != NoScope || r.Permission != "" || r.Auth == Session || r.Auth == Job {
		statuses = append(statuses, http.StatusForbidden)
	}
	if strings.Contains(r.Path, "{") {
		statuses = append(statuses, http.StatusNotFound)
	}
	if r.Query != nil {
		statuses = append(statuses, http.StatusBadRequest)
	}
	if r.Handler.body != nil {
		statuses = append(statuses, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge)
	}
	if r.Handler.body != nil && !r.Handler.form {
		statuses = append(statuses, http.StatusUnprocessableEntity)
	}
	if r.OAuth {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusServiceUnavailable)
	}
	if r.Auth != Open {
		statuses = append(statuses, http.StatusServiceUnavailable)
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

func (d *document) response(r Route, status int) map[string]any {
	response := map[string]any{"description": http.StatusText(status)}
	switch {
	case status >= 400 && r.OAuth:
		response["content"] = jsonContent(d.schema(reflect.TypeFor[oauthErrorView]()))
	case status == http.StatusTooManyRequests:
		response["content"] = jsonContent(d.schema(reflect.TypeFor[limitView]()))
	case status >= 400:
		response["content"] = jsonContent(d.schema(reflect.TypeFor[errorView]()))
	case r.Handler.result != nil && r.Handler.result != reflect.TypeFor[Nothing]():
		result := r.Handler.result
		if result.Kind() == reflect.Pointer {
			result = result.Elem() // a handler without an error returns a value
		}
		bodies := map[string]any{}
		if result != reflect.TypeFor[Stream]() {
			bodies = jsonContent(d.schema(result))
		}
		media := r.Media
		if _, ok := reflect.Zero(result).Interface().(texted); ok {
			media = append(media, "text/plain")
		}
		for _, kind := range media {
			bodies[kind] = map[string]any{"schema": map[string]any{"type": "string"}}
		}
		response["content"] = bodies
	}
	return response
}

const jsonType = "application/json"

func jsonContent(schema map[string]any) map[string]any { return content(jsonType, schema) }

func content(media string, schema map[string]any) map[string]any {
	return map[string]any{media: map[string]any{"schema": schema}}
}
