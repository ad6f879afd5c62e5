package notificationstest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
)

//go:embed tracker.graphql
var trackerSchema string

var schema = gqlparser.MustLoadSchema(&ast.Source{Name: "tracker.graphql", Input: trackerSchema})

// An Issue is an issue of a workspace.
type Issue struct {
	ID, Identifier, TeamID, Title, Description string
	State                                      string // type of its workflow state
	Links                                      []string
	Comments                                   []Comment
}

// A Comment is a comment on an issue.
type Comment struct{ ID, Body string }

// Issues returns the issues of the workspace.
func (w *Workspace) Issues() []Issue {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Issue
	for _, i := range w.issues {
		list = append(list, *i)
	}
	return list
}

// AddIssue adds an issue that people created, such as ENG-7.
func (w *Workspace) AddIssue(identifier string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issues = append(w.issues, &Issue{ID: "issue " + identifier, Identifier: identifier, State: "started"})
}

// CloseIssues completes all issues.
func (w *Workspace) CloseIssues() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.issues {
		i.State = "completed"
	}
}

// graphQL answers requests to the API of the tracker, which must be valid by its schema.
func (w *Workspace) graphQL(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	refuse := func(status int, code, message string) {
		rw.WriteHeader(status)
		json.NewEncoder(rw).Encode(map[string]any{"errors": []any{map[string]any{"message": message, "extensions": map[string]any{"code": code}}}})
	}
	var sent struct {
		Query     string
		Variables map[string]any
	}
	switch problem := w.authorized(r); {
	case w.Down:
		rw.WriteHeader(http.StatusBadGateway)
		return
	case problem != "":
		refuse(http.StatusUnauthorized, "AUTHENTICATION_ERROR", "Authentication required, not authenticated")
		return
	case w.TrackerError != "":
		refuse(http.StatusBadRequest, w.TrackerError, "Refused")
		return
	case json.NewDecoder(r.Body).Decode(&sent) != nil:
		refuse(http.StatusBadRequest, "GRAPHQL_PARSE_FAILED", "not JSON")
		return
	}
	doc, errs := gqlparser.LoadQuery(schema, sent.Query)
	if errs != nil || len(doc.Operations) != 1 {
		refuse(http.StatusBadRequest, "GRAPHQL_VALIDATION_FAILED", fmt.Sprint(errs))
		return
	}
	op := doc.Operations[0]
	vars, err := validator.VariableValues(schema, op, sent.Variables)
	if err != nil {
		refuse(http.StatusBadRequest, "BAD_USER_INPUT", err.Error())
		return
	}
	data := map[string]any{}
	for _, selection := range op.SelectionSet {
		field := selection.(*ast.Field)
		result, problem := w.resolve(field.Name, field.ArgumentMap(vars))
		if problem != "" {
			refuse(http.StatusBadRequest, "INPUT_ERROR", problem)
			return
		}
		data[field.Alias] = project(result, field.SelectionSet)
	}
	left := &w.LoseAnswers
	if op.Operation == ast.Mutation {
		left = &w.LoseMutations
	}
	if *left > 0 { // what was asked for is done all the same
		*left--
		rw.WriteHeader(http.StatusGatewayTimeout)
		return
	}
	json.NewEncoder(rw).Encode(map[string]any{"data": data})
}

// project returns what a selection takes of a result.
func project(result any, set ast.SelectionSet) any {
	switch v := result.(type) {
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, project(item, set))
		}
		return list
	case map[string]any:
		taken := map[string]any{}
		for _, selection := range set {
			switch s := selection.(type) {
			case *ast.Field:
				taken[s.Alias] = project(v[s.Name], s.SelectionSet)
			case *ast.FragmentSpread:
				for name, value := range project(v, s.Definition.SelectionSet).(map[string]any) {
					taken[name] = value
				}
			}
		}
		return taken
	}
	return result
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// resolve answers a field of a request, or returns a problem with its input.
func (w *Workspace) resolve(field string, args map[string]any) (result any, problem string) {
	input, _ := args["input"].(map[string]any)
	text := func(name string) string { s, _ := input[name].(string); return s }
	if input != nil && !uuid4.MatchString(text("id")) {
		return nil, "id must be a UUID"
	}
	done := map[string]any{"success": true}
	switch field {
	case "attachmentsForURL":
		return nodesOf(w.issues, func(i *Issue) (any, bool) {
			return map[string]any{"url": args["url"], "issue": i.view()}, slices.Contains(i.Links, fmt.Sprint(args["url"]))
		}), ""
	case "issues":
		return nodesOf(w.issues, func(i *Issue) (any, bool) { return i.view(), i.matches(args["filter"].(map[string]any)) }), ""
	case "comments":
		id := at(args, "filter", "id", "eq")
		return nodesOf(w.issues, func(i *Issue) (any, bool) {
			return map[string]any{"id": id}, slices.ContainsFunc(i.Comments, func(c Comment) bool { return c.ID == id })
		}), ""
	case "teams":
		return nodesOf(w.Teams, func(key string) (any, bool) { return map[string]any{"id": "team " + key, "key": key}, true }), ""
	case "issueCreate":
		if w.issue(text("id")) != nil {
			return nil, "conflict on insert of Issue"
		}
		key, ok := strings.CutPrefix(text("teamId"), "team ")
		if !ok || text("title") == "" {
			return nil, "no such team"
		}
		i := &Issue{ID: text("id"), Identifier: fmt.Sprintf("%s-%d", key, 100+len(w.issues)), TeamID: text("teamId"), Title: text("title"), Description: text("description"), State: "backlog"}
		w.issues = append(w.issues, i)
		return map[string]any{"success": true, "issue": i.view()}, ""
	}
	on := w.issue(text("issueId"))
	switch {
	case on == nil:
		return nil, "Entity not found: Issue"
	case field == "attachmentCreate":
		on.Links = append(on.Links, text("url"))
	case field == "commentCreate":
		if slices.ContainsFunc(on.Comments, func(c Comment) bool { return c.ID == text("id") }) {
			return nil, "conflict on insert of Comment"
		}
		on.Comments = append(on.Comments, Comment{text("id"), text("body")})
	}
	return done, ""
}

func (w *Workspace) issue(id string) *Issue {
	i := slices.IndexFunc(w.issues, func(i *Issue) bool { return i.ID == id })
	if i < 0 {
		return nil
	}
	return w.issues[i]
}

func (i *Issue) view() map[string]any {
	return map[string]any{"id": i.ID, "identifier": i.Identifier, "title": i.Title, "state": map[string]any{"type": i.State}}
}

func (i *Issue) matches(filter map[string]any) bool {
	if id := at(filter, "id", "eq"); id != nil {
		return id == i.ID
	}
	key, number, _ := strings.Cut(i.Identifier, "-")
	return strings.EqualFold(key, fmt.Sprint(at(filter, "team", "key", "eqIgnoreCase"))) && number == fmt.Sprint(at(filter, "number", "eq"))
}

// at returns the value at a path of nested objects, or nil.
func at(v any, path ...string) any {
	for _, key := range path {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	return v
}

// nodesOf returns a connection with the items that are taken.
func nodesOf[T any](list []T, take func(T) (any, bool)) map[string]any {
	nodes := []any{}
	for _, item := range list {
		if node, ok := take(item); ok {
			nodes = append(nodes, node)
		}
	}
	return map[string]any{"nodes": nodes}
}
