package buildapi_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestBadge_ReportsHowTheLastFinishedBuildOfABranchEnded(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: x, key: x}")
		url := w.Ada.Get(acme + "/pipelines/hello").String("badge_url")
		badge := func(query, want string) {
			t.Helper()
			image := w.As(t, "").Get(url + query).Want(http.StatusOK)
			if got := image.Header.Get("Content-Type"); !strings.HasPrefix(got, "image/svg+xml") {
				t.Errorf("the badge is %s", got)
			}
			if !strings.Contains(string(image.Body), ">"+want+"<") {
				t.Errorf("%s: no %q in %s", query, want, image.Body)
			}
		}
		badge("", "unknown")
		w.Create(nil)
		badge("", "unknown")
		w.Run(1, "x", 0)
		badge("", "passing")
		w.Create(nil)
		w.Run(2, "x", 1)
		badge("", "failing")
		w.Create(nil) // has not ended
		badge("", "failing")
		w.Ada.Put(hello+"/3/cancel", nil).Want(http.StatusOK)
		badge("", "canceled")
		badge("?branch=other", "unknown")
		w.Create(map[string]any{"branch": "other"})
		w.Run(4, "x", 0)
		badge("?branch=other", "passing")
		badge("", "canceled")
	})
}

func TestBadge_IsFoundByItsURLAlone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, path := range []string{"/badge/hello.svg", "/badge/x", strings.TrimSuffix(w.Ada.Get(acme+"/pipelines/hello").String("badge_url"), ".svg")} {
			w.As(t, "").Get(path).Want(http.StatusNotFound)
		}
	})
}
