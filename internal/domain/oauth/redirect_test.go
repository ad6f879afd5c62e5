package oauth

import "testing"

func TestRedirectsTo(t *testing.T) {
	const web, local, six = "https://app.test/cb?x=1", "http://127.0.0.1/callback", "http://[::1]:1/cb"
	for _, c := range []struct {
		registered []string
		uri        string
		want       bool
	}{
		{nil, "http://127.0.0.1:8123/any/path", true},
		{nil, "http://localhost:8123", true},
		{nil, "http://[::1]:8123/", true},
		{nil, "http://127.0.0.1/", true},
		{nil, "https://127.0.0.1/", false},
		{nil, "http://127.0.0.2/", false},
		{nil, "http://127.0.0.1.evil.test/", false},
		{nil, "http://localhost.evil.test/", false},
		{nil, "http://127.0.0.1@evil.test/", false},
		{nil, "http://user@127.0.0.1/", false},
		{nil, `http://127.0.0.1\@evil.test/`, false},
		{nil, "http://evil.test#@127.0.0.1/", false},
		{nil, "http://127.0.0.1/#f", false},
		{nil, "http://127.0.0.1/\n", false},
		{nil, "//127.0.0.1/", false},
		{nil, "http:127.0.0.1/", false},
		{nil, "javascript:alert(1)", false},
		{nil, web, false},
		{nil, "", false},
		{[]string{web}, web, true},
		{[]string{web}, "https://app.test/cb?x=2", false},
		{[]string{web}, "https://app.test/cb", false},
		{[]string{web}, "https://app.test:443/cb?x=1", false},
		{[]string{web}, "https://APP.test/cb?x=1", false},
		{[]string{web}, "http://127.0.0.1/", false},
		{[]string{web, local}, "http://127.0.0.1:49152/callback", true},
		{[]string{web, local}, "http://127.0.0.1:49152/callback/more", false},
		{[]string{web, local}, "http://127.0.0.1:49152/callback?more", false},
		{[]string{web, local}, "http://localhost:49152/callback", false},
		{[]string{six}, "http://[::1]:2/cb", true},
		{[]string{six}, "http://[::1]/cb", true},
		{[]string{"https://app.test:1/"}, "https://app.test:2/", false},
	} {
		if got := (Application{RedirectURIs: c.registered}).redirectsTo(c.uri); got != c.want {
			t.Errorf("with %q, to %q: %v, want %v", c.registered, c.uri, got, c.want)
		}
	}
}

func TestValidRedirectURI(t *testing.T) {
	for uri, want := range map[string]bool{
		"https://app.test/cb":        true,
		"https://app.test":           true,
		"http://127.0.0.1/cb":        true,
		"http://localhost:1234/cb":   true,
		"http://app.test/cb":         false,
		"https://app.test/cb#f":      false,
		"https://u:p@app.test/":      false,
		"https:///cb":                false,
		"app.test:/cb":               false,
		"":                           false,
		"https://app.test/\u00e9":    false,
		"http://127.0.0.1:8080/a b":  false,
		"https://app.test/%0d%0aX:1": true,
	} {
		if got := validRedirectURI(uri); got != want {
			t.Errorf("%q: %v, want %v", uri, got, want)
		}
	}
}
