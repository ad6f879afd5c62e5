package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stackyard/api"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://ci.example.com":  "https://ci.example.com",
		"https://ci.example.com/": "https://ci.example.com",
		"ci.example.com":          "https://ci.example.com",
		"ci.example.com:8443":     "https://ci.example.com:8443",
		"localhost:8080":          "http://localhost:8080",
		"127.0.0.1:8080":          "http://127.0.0.1:8080",
		"[::1]:8080":              "http://[::1]:8080",
		"http://ci.internal/ci":   "http://ci.internal/ci",
	} {
		if got, err := api.ParseURL(text); err != nil || got != want {
			t.Errorf("ParseURL(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ftp://x", "https://", "https://user:pass@x", "https://x?y", "https://x#y", "a b"} {
		if got, err := api.ParseURL(text); err == nil {
			t.Errorf("ParseURL(%q) = %q; want an error", text, got)
		}
	}
}

// peer starts a server with a handler.
func peer(t *testing.T, handler http.HandlerFunc) *api.Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &api.Client{URL: server.URL, Token: "svcua_secret", UserAgent: "test"}
}

func TestAll_FollowsPagesUntilItHasEnough(t *testing.T) {
	asked := 0
	c := peer(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Link", fmt.Sprintf(`<http://%s/things?page=%d>; rel="next", <http://%s/things?page=9>; rel="last"`, r.Host, asked+1, r.Host))
		fmt.Fprintf(w, `[{"n":%d},{"n":%d}]`, 2*asked-1, 2*asked)
	})
	list, err := api.All[struct{ N int }](t.Context(), c, "/things", 5)
	if err != nil || len(list.Items) != 5 || len(list.Raw) != 5 || list.Items[4].N != 5 || asked != 3 {
		t.Errorf("got %v after %d requests, %v", list.Items, asked, err)
	}
}

func TestAll_SendsTheTokenToNoOtherServer(t *testing.T) {
	elsewhere := peer(t, func(http.ResponseWriter, *http.Request) { t.Error("the other server was asked") })
	c := peer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `<`+elsewhere.URL+`/things>; rel="next"`)
		fmt.Fprint(w, `[{}]`)
	})
	_, err := api.All[struct{}](t.Context(), c, "/things", 5)
	if err == nil || !strings.Contains(err.Error(), "the token is not sent there") {
		t.Errorf("error %v", err)
	}
}

func TestDo_ReturnsTheServersMessage(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   string
	}{
		{422, `{"message":"Validation Failed","errors":[{"field":"name","code":"is required"}]}`, "Validation Failed\n  name is required"},
		{422, `{"message":"Validation Failed: name is required","errors":[{"field":"name","code":"is required"}]}`, "Validation Failed\n  name is required"},
		{404, `{"message":"No build found"}`, "No build found"},
		{502, `<html>`, "returned 502 Bad Gateway"},
		{401, `{"message":"no"}`, "run stackyard login"},
	} {
		c := peer(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		err := c.Do(t.Context(), http.MethodGet, "/x", nil, nil)
		refusal, ok := errors.AsType[*api.Error](err)
		if !ok || refusal.Status != test.status || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d: %v", test.status, err)
		}
	}
}
