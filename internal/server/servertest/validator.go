package servertest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
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

// known keeps the validators of documents that differ only in the server's URL: making one takes longer
// than most tests.
var known sync.Map // from a document's text to its *validator

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
	source = bytes.ReplaceAll(source, []byte(url), []byte("/"))
	if v, ok := known.Load(string(source)); ok {
		return v.(*validator)
	}
	doc, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		t.Fatalf("load the OpenAPI document: %v", err)
	}
	doc.Servers = nil // any address will do
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatalf("the OpenAPI document is not valid: %v", err)
	}
	v := &validator{router: router}
	known.Store(string(source), v)
	return v
}

// check fails the test when a response of a documented route is not as documented.
func (v *validator) check(t testing.TB, req *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	forgiven := strings.Contains(req.URL.Path, "//") // the server tidies such paths, the document's router does not
	if forgiven || req.Method == http.MethodHead || req.Method == http.MethodOptions || resp.StatusCode == http.StatusMethodNotAllowed {
		return
	}
	route, params, err := v.router.FindRoute(req)
	if _, ok := errors.AsType[*routers.RouteError](err); ok {
		// Pages are not part of the document; neither is what does not exist.
		if api := strings.HasPrefix(req.URL.Path, "/v"); api && resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: answered with %d, but is not documented", req.Method, req.URL.Path, resp.StatusCode)
		}
		return
	}
	if err != nil {
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
