package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"stackyard/internal/platform/route"
)

// validator validates responses against an OpenAPI document.
type validator struct {
	router routers.Router

	mu       sync.Mutex // guards compiler
	compiler *jsonschema.Compiler
}

// known caches validators by route table, from which the document is generated. Making one takes longer than most
// tests.
var known sync.Map // string to *validator

func newValidator(t testing.TB, address string, routes []route.Route) *validator {
	t.Helper()
	var table strings.Builder
	for _, r := range routes {
		fmt.Fprintln(&table, r.Method, r.Path, r.Hidden)
	}
	if v, ok := known.Load(table.String()); ok {
		return v.(*validator)
	}
	resp, err := http.Get(address + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	source, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	source = bytes.ReplaceAll(source, []byte(address), []byte("/"))
	doc, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		t.Fatalf("load the OpenAPI document: %v", err)
	}
	doc.Servers = nil // any address is accepted
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatalf("the OpenAPI document is not valid: %v", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	v := &validator{router: router, compiler: jsonschema.NewCompiler()}
	v.compiler.AssertFormat()
	if err := v.compiler.AddResource(documentURL, document); err != nil {
		t.Fatal(err)
	}
	known.Store(table.String(), v)
	return v
}

// check fails the test if a response of a documented route does not match the document.
func (v *validator) check(t testing.TB, req *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	// The server cleans such paths and distinguishes an escaped slash in a segment. The document's router does
	// neither.
	forgiven := strings.Contains(req.URL.Path, "//") || strings.Contains(req.URL.EscapedPath(), "%2F")
	if forgiven || req.Method == http.MethodHead || req.Method == http.MethodOptions || resp.StatusCode == http.StatusMethodNotAllowed {
		return
	}
	route, _, err := v.router.FindRoute(req)
	if _, ok := errors.AsType[*routers.RouteError](err); ok {
		// Pages are not in the document, and neither are unknown paths.
		if api := strings.HasPrefix(req.URL.Path, "/v"); api && resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: answered with %d, but is not documented", req.Method, req.URL.Path, resp.StatusCode)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := v.validate(route, resp, body); err != nil {
		t.Errorf("%s %s: status %d is not as documented: %v\nbody: %s", req.Method, req.URL.Path, resp.StatusCode, err, body)
	}
}

func (v *validator) validate(route *routers.Route, resp *http.Response, body []byte) error {
	documented := route.Operation.Responses.Status(resp.StatusCode)
	if documented == nil {
		return fmt.Errorf("it documents no status %d", resp.StatusCode)
	}
	if len(documented.Value.Content) == 0 {
		if len(body) > 0 {
			return errors.New("it documents no body")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	if documented.Value.Content.Get(media) == nil {
		return fmt.Errorf("it documents no content type %s", media)
	}
	if media != "application/json" {
		return nil
	}
	schema, err := v.schema(pointer("paths", route.Path, strings.ToLower(route.Method), "responses", strconv.Itoa(resp.StatusCode), "content", media, "schema"))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// schema returns the compiled schema at a location of the document. kin-openapi would compile it for every
// response, which takes longer than the requests.
func (v *validator) schema(at string) (*jsonschema.Schema, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.compiler.Compile(documentURL + "#" + at)
}

// documentURL is the document's URL for the compiler.
const documentURL = "https://stackyard.test/openapi.json"

// pointer returns the JSON pointer to a location.
func pointer(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(s)))
	}
	return b.String()
}
