package api_test

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"stackyard/api"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The fields of the types are in the responses that the OpenAPI document of the server describes.
func TestTypes_AreThoseOfTheOpenAPIDocument(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		doc, err := openapi3.NewLoader().LoadFromData(s.As(t, "").Get("/openapi.json").Want(http.StatusOK).Body)
		if err != nil {
			t.Fatal(err)
		}
		const acme = "/v2/organizations/{org}"
		for path, value := range map[string]any{
			acme:                           api.Organization{},
			acme + "/pipelines/{pipeline}": api.Pipeline{},
			acme + "/pipelines/{pipeline}/builds/{build}":       api.Build{},
			acme + "/jobs/{job}":                                api.Job{},
			acme + "/jobs/{job}/artifacts/{artifact}":           api.Artifact{},
			acme + "/agents/{agent}":                            api.Agent{},
			acme + "/clusters/{cluster}":                        api.Cluster{},
			acme + "/clusters/{cluster}/queues/{queue}":         api.Queue{},
			acme + "/clusters/{cluster}/tokens/{token}":         api.AgentToken{},
			acme + "/pipelines/{pipeline}/schedules/{schedule}": api.Schedule{},
		} {
			item := doc.Paths.Find(path)
			if item == nil || item.Get == nil {
				t.Errorf("the document has no GET %s", path)
				continue
			}
			known := properties(item.Get.Responses.Status(http.StatusOK).Value.Content.Get("application/json").Schema)
			kind := reflect.TypeOf(value)
			for i := range kind.NumField() {
				name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
				types, ok := known[name]
				if want := jsonType(kind.Field(i).Type); !ok {
					t.Errorf("%s.%s: the response of GET %s has no field %q", kind.Name(), kind.Field(i).Name, path, name)
				} else if len(types) > 0 && !slices.Contains(types, want) {
					t.Errorf("%s.%s: the response of GET %s has a field %q of type %v, not %s", kind.Name(), kind.Field(i).Name, path, name, types, want)
				}
			}
		}
	})
}

// Every path that the command line calls is in the OpenAPI document of the server.
func TestCommandLine_CallsPathsOfTheOpenAPIDocument(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	doc, err := openapi3.NewLoader().LoadFromData(servertest.Start(t, d).As(t, "").Get("/openapi.json").Want(http.StatusOK).Body)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for path := range doc.Paths.Map() {
		known[variable.ReplaceAllString(path, "%")] = true
	}
	files, err := filepath.Glob("../internal/clients/cli/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	called := regexp.MustCompile(`"(/(?:agents|builds|clusters|jobs|pipelines|source-connections|v2)[^"? ]*)`)
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range called.FindAllStringSubmatch(string(text), -1) {
			path := found[1]
			if strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/clusters/%") { // a prefix
				continue
			}
			if n++; !known[path] && !known["/v2/organizations/%"+path] {
				t.Errorf("%s calls %s, which is not in the document", file, path)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d calls were found", n)
	}
}

// variable matches a part of a path that is not fixed.
var variable = regexp.MustCompile(`\{[^}]*\}`)

// jsonType returns the type of a field in JSON.
func jsonType(kind reflect.Type) string {
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case kind == reflect.TypeFor[time.Time]():
		return "string"
	case kind.Kind() == reflect.Slice:
		return "array"
	case kind.Kind() == reflect.Bool:
		return "boolean"
	case kind.Kind() == reflect.Int, kind.Kind() == reflect.Int64:
		return "integer"
	case kind.Kind() == reflect.String:
		return "string"
	}
	return "object"
}

// properties returns the properties of a schema and of its alternatives, with their types; without types, they are not known.
func properties(ref *openapi3.SchemaRef) map[string][]string {
	found := map[string][]string{}
	if ref == nil || ref.Value == nil {
		return found
	}
	for name, property := range ref.Value.Properties {
		found[name] = append(found[name], typesOf(property)...)
	}
	for _, part := range append(append(append(openapi3.SchemaRefs{}, ref.Value.AllOf...), ref.Value.AnyOf...), ref.Value.OneOf...) {
		for name, types := range properties(part) {
			found[name] = append(found[name], types...)
		}
	}
	return found
}

// typesOf returns the types of a schema and of its alternatives.
func typesOf(ref *openapi3.SchemaRef) (types []string) {
	if ref.Value == nil {
		return nil
	}
	if ref.Value.Type != nil {
		types = append(types, ref.Value.Type.Slice()...)
	}
	for _, part := range append(append(append(openapi3.SchemaRefs{}, ref.Value.AllOf...), ref.Value.AnyOf...), ref.Value.OneOf...) {
		types = append(types, typesOf(part)...)
	}
	return types
}
