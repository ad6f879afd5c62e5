package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestServe_ShowsNamesInMetricsWithATokenOnly(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	p := serveOrganizations(t, "--metrics-token", token)
	p.ask(t, "", "GET", "/metrics", "").want(t, http.StatusUnauthorized)
	text := string(p.get(t, token, "/metrics").Body)
	if !strings.Contains(text, `stackyard_jobs_waiting{cluster="Default",organization="acme",queue="default"} 0`) {
		t.Error("no figures of a queue")
	}
}

func TestServe_ServesMetricsAndProfilesOnTheirOwnListener(t *testing.T) {
	t.Parallel()
	p := serveOrganizations(t, "--metrics-listen", "127.0.0.1:0")
	p.ask(t, "", "GET", "/metrics", "").want(t, http.StatusNotFound)
	p.ask(t, "", "GET", "/debug/pprof/", "").want(t, http.StatusNotFound)
	var url string
	eventually(t, waitLimit, "the address of metrics", func() bool {
		m := regexp.MustCompile(`"url":"(http://127\.0\.0\.1:\d+)/metrics"`).FindStringSubmatch(p.stderrText(t))
		if m != nil {
			url = m[1]
		}
		return m != nil
	})
	for path, want := range map[string]int{"/metrics": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 404, "/v2/user": 404} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
		}
		if path == "/metrics" && !strings.Contains(string(body), `organization="acme"`) {
			t.Error("no figures of a queue")
		}
	}
}
