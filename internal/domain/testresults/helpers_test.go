package testresults_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

const (
	analytics = "/v2/analytics/organizations/acme"
	acme      = analytics + "/suites"
)

// body is a request body.
type body = map[string]any

// A world is a server with a suite.
type world struct {
	*servertest.Server
	t     *testing.T
	ada   *servertest.Client
	suite string // its path
	id    string
	token string
}

// each runs a test on each engine with a suite called Unit.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, newWorld(t, s, "Unit")) })
}

// newWorld adds a suite to a server.
func newWorld(t *testing.T, s *servertest.Server, name string) *world {
	t.Helper()
	w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada)}
	made := w.ada.Post(acme, body{"name": name, "default_branch": "main", "show_api_token": true}).Want(http.StatusCreated)
	w.suite, w.id, w.token = acme+"/"+made.String("slug"), made.String("id"), made.String("api_token")
	return w
}

// upload uploads results in the form of collectors, each "name" or "name result" or "scope/name result".
func (w *world) upload(env body, results ...string) *servertest.Response {
	w.t.Helper()
	return w.send(env, results...).Want(http.StatusAccepted)
}

func (w *world) send(env body, results ...string) *servertest.Response {
	w.t.Helper()
	data := make([]body, len(results))
	for i, text := range results {
		name, result, _ := strings.Cut(text, " ")
		scope, rest, scoped := strings.Cut(name, "/")
		if !scoped {
			scope, rest = "", name
		}
		data[i] = body{"id": fmt.Sprint(i), "scope": scope, "name": rest, "result": result, "location": rest + ".rb:1", "file_name": rest + ".rb", "history": body{"duration": 0.5}}
		if result == "failed" {
			data[i]["failure_reason"] = "want " + rest
			data[i]["failure_expanded"] = []body{{"expanded": []string{"got"}, "backtrace": []string{"line 1"}}}
		}
	}
	return w.uploader().Post("/v1/uploads", body{"format": "json", "run_env": env, "tags": body{"os": "linux"}, "data": data})
}

// uploader returns a client with the token of the suite.
func (w *world) uploader() *servertest.Client {
	return w.As(w.t, "").With("Authorization", fmt.Sprintf(`Token token="%s"`, w.token))
}

// get gets a path below that of the suite.
func (w *world) get(path string) *servertest.Response {
	w.t.Helper()
	return w.ada.Get(w.suite + path)
}

// build creates a build of the pipeline hello and returns its id.
func (w *world) build() string {
	w.t.Helper()
	return w.ada.Post("/v2/organizations/acme/pipelines/hello/builds", body{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated).String("id")
}

// want fails the test unless a response has values at paths.
func want(t *testing.T, resp *servertest.Response, values map[string]any) {
	t.Helper()
	for path, value := range values {
		if got := resp.At(path); fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s is %v, want %v", path, got, value)
		}
	}
}

// names returns the names of the tests of a list, separated by spaces.
func names(resp *servertest.Response) string {
	var list []string
	for i := range resp.Len("") {
		list = append(list, resp.String(fmt.Sprintf("%d.name", i)))
	}
	return strings.Join(list, " ")
}

// form returns a form with a file and fields.
func form(t *testing.T, file string, fields body) (contentType, content string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormFile("data", "results")
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(file))
	for name, value := range fields {
		m.WriteField(name, fmt.Sprint(value))
	}
	m.Close()
	return m.FormDataContentType(), b.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}
