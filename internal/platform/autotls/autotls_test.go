package autotls

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
)

func TestParseHosts(t *testing.T) {
	for list, want := range map[string]string{
		"":                                 "",
		"ci.example.com":                   "ci.example.com",
		" CI.example.com., b.example.com,": "ci.example.com b.example.com",
		"bücher.example":                   "xn--bcher-kva.example",
		"a.example,a.example":              "a.example",
		"localhost":                        "error",
		"127.0.0.1":                        "error",
		"*.example.com":                    "error",
		"https://ci.example.com":           "error",
		"ci.example.com:443":               "error",
	} {
		hosts, err := ParseHosts(list)
		got := strings.Join(hosts, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("ParseHosts(%q) = %s, %v, want %s", list, got, err, want)
		}
	}
}

func TestRedirect_KeepsToThePublicURL(t *testing.T) {
	handler := Redirect("https://ci.example.com")
	for target, want := range map[string]string{
		"/acme/web?x=1":      "https://ci.example.com/acme/web?x=1",
		"//other.example":    "https://ci.example.com//other.example",
		"http://evil.test/x": "https://ci.example.com/x",
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s leads to %s, want %s", target, got, want)
		}
	}
}

func TestStore_KeepsSealedValues(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := Store{DB: d, Key: seal.NewKey(), Clock: time.Now}
		ctx := t.Context()
		if _, err := s.Get(ctx, "a"); err != autocert.ErrCacheMiss {
			t.Errorf("a missing value: %v", err)
		}
		for _, value := range []string{"one", "two"} {
			if err := s.Put(ctx, "a", []byte(value)); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Get(ctx, "a"); string(got) != value || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
		var stored []string
		if err := d.Read(ctx, func(q *db.Q) (err error) {
			stored, err = db.Strings(q, `SELECT sealed FROM certificates`)
			return err
		}); err != nil || len(stored) != 1 || slices.ContainsFunc(stored, func(v string) bool { return strings.Contains(v, "two") }) {
			t.Errorf("stored %q, %v", stored, err)
		}
		if at, err := s.Expires(ctx, "b"); !at.IsZero() || err != nil {
			t.Errorf("a missing certificate ends %s, %v", at, err)
		}
		if err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(ctx, "a"); err != autocert.ErrCacheMiss {
			t.Errorf("a deleted value: %v", err)
		}
	})
}
