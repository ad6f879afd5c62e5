package servertest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// validator holds responses against an OpenAPI document.
type validator struct {
	router routers.Router
}

func newValidator(t testing.TB, url string) *validator {
	t.Helper()
	resp, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	source, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		t.Fatalf("load the OpenAPI document: %v", err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatalf("the OpenAPI document is not valid: %v", err)
	}
	return &validator{router: router}
}

// check fails the test when a response of a documented route is not as documented.
func (v *validator) check(t testing.TB, req *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	if req.Method == http.MethodHead || req.Method == http.MethodOptions || resp.StatusCode == http.StatusMethodNotAllowed {
		return
	}
	route, params, err := v.router.FindRoute(req)
	if err != nil {
		// A path outside of the document: pages, or nothing at all.
		if routeErr, ok := errors.AsType[*routers.RouteError](err); ok && routeErr != nil {
			return
		}
		t.Fatal(err)
	}
	options := &openapi3filter.Options{IncludeResponseStatus: true}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options},
		Status:                 resp.StatusCode,
		Header:                 resp.Header,
		Body:                   io.NopCloser(bytes.NewReader(body)),
		Options:                options,
	})
	if err != nil {
		t.Errorf("%s %s: status %d is not as documented: %v\nbody: %s", req.Method, req.URL.Path, resp.StatusCode, err, body)
	}
}
