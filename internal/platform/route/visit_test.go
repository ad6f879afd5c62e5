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
)

// visitServer has one page that shows the form field name, and shows errors as pages.
func visitServer() *Server {
	return New(Config{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		ErrorPage: func(w http.ResponseWriter, status int, message string) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<p>%s", message)
		},
	}, []Route{
		{Method: http.MethodPost, Path: "/page", Auth: Open, Handler: Visit(func(w http.ResponseWriter, r *Request) error {
			form, err := r.ReadForm()
			if err != nil {
				return err
			}
			if form.Get("name") == "panic" {
				panic("asked to")
			}
			_, err = fmt.Fprintf(w, "%s from %s", form.Get("name"), r.Address)
			return err
		})},
		{Method: http.MethodGet, Path: "/v2/thing", Auth: Open, Handler: Do(func(*Request) (Nothing, error) {
			return Nothing{}, core.Errorf(core.Forbidden, "No")
		})},
	})
}

func TestVisit_ReportsBrowsersOnPagesAndProgramsInJSON(t *testing.T) {
	const browser, program = "text/html,*/*", "*/*"
	for _, c := range []struct {
		method, path, accept, body string
		status                     int
		want                       string
	}{
		{"POST", "/page", browser, "name=Ada", 200, "Ada from 192.0.2.1"},
		{"POST", "/page", browser, "name=%00", 400, "<p>The form holds"},
		{"POST", "/page", browser, "name=%ff", 400, "<p>The form holds"},
		{"POST", "/page", browser, "name=%zz", 400, "<p>The form is malformed"},
		{"POST", "/page", browser, "name=" + strings.Repeat("a", maxForm), 413, "<p>The request body is larger"},
		{"POST", "/page", browser, "name=panic", 500, "<p>Something went wrong"},
		{"POST", "/page", program, "name=panic", 500, `{"message":"Something went wrong`},
		{"GET", "/page", browser, "", 405, "<p>GET is not possible here"},
		{"GET", "/nothing", browser, "", 404, "<p>Not Found"},
		{"GET", "/nothing", program, "", 404, `{"message":"Not Found`},
		{"GET", "/v2/nothing", browser, "", 404, `{"message":"Not Found`},
		{"GET", "/v2/thing", browser, "", 403, `{"message":"No"}`},
	} {
		req := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		visitServer().ServeHTTP(w, req)
		if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.want) {
			t.Errorf("%s %s %.20s: %d %s, want %d %s", c.method, c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestReadForm_RefusesWhatIsNotAForm(t *testing.T) {
	req := httptest.NewRequest("POST", "/page", strings.NewReader(`{"name": "Ada"}`))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	visitServer().ServeHTTP(w, req)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "must be a form") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
