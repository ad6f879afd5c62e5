package route

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

type greeting struct {
	Text string `json:"text"`
	By   string `json:"by"`
}

// callServer has a page that calls the API path in the form field "to", as a user with one scope.
func callServer() *Server {
	var into []greeting
	return New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}, []Route{
		{Method: http.MethodPost, Path: "/page", Auth: Open, Handler: Visit(func(w http.ResponseWriter, r *Request) error {
			form, err := r.ReadForm()
			if err != nil {
				return err
			}
			r.Caller = &identity.Caller{User: identity.User{Name: "Ada"}, Token: identity.AccessToken{Scopes: identity.Scopes{identity.ReadBuilds}}}
			into = nil
			next, err := r.Call(form.Get("method"), form.Get("to"), map[string]string{"text": form.Get("text")}, &into)
			if err == nil {
				_, err = fmt.Fprintf(w, "%+v %+v", into, next)
			}
			return err
		})},
		{Method: http.MethodPost, Path: "/v2/greet/{name}", Scope: identity.ReadBuilds, Handler: DoBody(func(r *Request, body greeting) (Paged[greeting], error) {
			if body.Text == "" {
				return Paged[greeting]{}, core.Problems{{Field: "text", Code: "can't be blank"}}.Err()
			}
			p, err := r.Page()
			return PageOf([]greeting{{body.Text + " " + r.PathValue("name"), r.Caller.User.Name}}, p, 3), err
		})},
		{Method: http.MethodPost, Path: "/v2/other", Scope: identity.WriteBuilds, Handler: Do(func(r *Request) (Nothing, error) { panic("not reached") })},
		{Method: http.MethodPost, Path: "/v2/open", Auth: Open, Handler: Do(func(r *Request) (Nothing, error) { panic("not reached") })},
	})
}

func TestCall_PassesTheChecksOfTheRoute(t *testing.T) {
	for _, c := range []struct {
		method, to, text string
		status           int
		want             string
	}{
		{"POST", "/v2/greet/bo?page=2&per_page=1", "hello", 200, "[{Text:hello bo By:Ada}] {Before:true After:true}"},
		{"POST", "/v2/greet/bo?page=x", "hello", 400, "page must be an integer"},
		{"POST", "/v2/greet/b%20o", "hi", 200, "[{Text:hi b o By:Ada}]"},
		{"POST", "/v2/greet/bo", "", 422, "can't be blank"},
		{"GET", "/v2/greet/bo", "hello", 404, "there is nothing at"},
		{"POST", "/v2/nothing", "hello", 404, "there is nothing at"},
		{"POST", "/v2/other", "hello", 403, "needs the scope write_builds"},
		{"POST", "/v2/open", "hello", 404, "there is nothing at"},
		{"POST", "/page", "hello", 404, "there is nothing at"},
		{"POST", "::", "hello", 404, "there is nothing at"},
	} {
		form := strings.NewReader("method=" + c.method + "&text=" + c.text + "&to=" + strings.NewReplacer("&", "%26", "%", "%25").Replace(c.to))
		req := httptest.NewRequest("POST", "/page", form)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		callServer().ServeHTTP(w, req)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.to, w.Code, w.Body, c.status, c.want)
		}
	}
}
