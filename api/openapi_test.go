package api_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

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
				if !known[name] {
					t.Errorf("%s.%s: the response of GET %s has no field %q", kind.Name(), kind.Field(i).Name, path, name)
				}
			}
		}
	})
}

// properties returns the names of the properties of a schema and of its alternatives.
func properties(ref *openapi3.SchemaRef) map[string]bool {
	names := map[string]bool{}
	if ref == nil || ref.Value == nil {
		return names
	}
	for name := range ref.Value.Properties {
		names[name] = true
	}
	for _, part := range append(append(append(openapi3.SchemaRefs{}, ref.Value.AllOf...), ref.Value.AnyOf...), ref.Value.OneOf...) {
		for name := range properties(part) {
			names[name] = true
		}
	}
	return names
}
