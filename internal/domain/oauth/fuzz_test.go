package oauth

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func FuzzUserCode(f *testing.F) {
	for _, entered := range []string{"BCDF-GHJK", " b c d f\u2014ghjk ", "ſſſſſſſſ", "BCDF-GHJ\u212a", "", "--------"} {
		f.Add(entered)
	}
	f.Fuzz(func(t *testing.T, entered string) {
		code, ok := ParseUserCode(entered)
		if !ok {
			return
		}
		again, ok := ParseUserCode(code)
		if !ok || again != code || len(code) != 9 || strings.Trim(code, userCodeLetters+"-") != "" {
			t.Errorf("%q is read as %q, and that as %q", entered, code, again)
		}
	})
}

// FuzzBasic has any Authorization header and body credentials. Credentials come from one place, and what
// a client sends by the rules arrives as it was.
func FuzzBasic(f *testing.F) {
	f.Add("Basic cm9ib3Q6czNjcmV0", "", "", "robot", "s3cret")
	f.Add("basic !", "robot", "x", "a:b", "ä%&+ ")
	f.Add("Bearer x", "robot", "", "", "\x00")
	f.Fuzz(func(t *testing.T, authorization, bodyID, bodySecret, id, secret string) {
		header := http.Header{"Authorization": {authorization}}
		got, err := clientForm{ClientID: bodyID, ClientSecret: bodySecret}.credentials(header)
		if err == nil && (got.place != inHeader || bodySecret != "" || bodyID != "" && got.id != bodyID) {
			t.Errorf("%q with %q and %q is %+v", authorization, bodyID, bodySecret, got)
		}
		r := &http.Request{Header: make(http.Header)}
		r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		if gotID, gotSecret, ok := basicAuth(r.Header); !ok || gotID != id || gotSecret != secret {
			t.Errorf("%q and %q arrive as %q and %q", id, secret, gotID, gotSecret)
		}
	})
}

// FuzzRedirect has any redirect URI. One that is not registered leads to the user's own machine, however
// it is read, and the answer stays behind it.
func FuzzRedirect(f *testing.F) {
	for _, uri := range []string{
		"http://127.0.0.1:8123/cb?a=b", "http://[::1]/", "http://localhost", "https://app.test/", `http://127.0.0.1\@evil.test/`,
		"http://127.0.0.1%2f@evil.test/", "http://localhost:80@evil.test", "HTTP://LOCALHOST/", "Http://[::1]", "http://127.0.0.1/\t", "http://127.0.0.1/%zz?%zz",
	} {
		f.Add(uri, "state")
	}
	f.Fuzz(func(t *testing.T, uri, state string) {
		if !(Application{}).redirectsTo(uri) {
			return
		}
		const scheme = "http://"
		if len(uri) < len(scheme) || !strings.EqualFold(uri[:len(scheme)], scheme) {
			t.Fatalf("%q has another scheme than http", uri)
		}
		authority, _, _ := strings.Cut(uri[len(scheme):], "/")
		authority, _, _ = strings.Cut(authority, "?")
		host := authority
		if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
			host = authority[:i]
		}
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !address.IsLoopback()) {
			t.Errorf("%q leads to %q", uri, host)
		}
		to := authorization{redirectURI: uri, state: state}.back(url.Values{"code": {"c"}})
		u, err := url.Parse(to)
		if err != nil || !isLoopback(u) {
			t.Fatalf("%q leads to %q: %v", uri, to, err)
		}
		if values := u.Query()["state"]; state != "" && (len(values) == 0 || values[len(values)-1] != state) {
			t.Errorf("%q has the state %q in %q", uri, state, to)
		}
	})
}
