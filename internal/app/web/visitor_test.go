package web_test

import (
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// password is the password of all users.
const password = "correct horse battery staple"

// passwordHash is a hash of the password that is checked at once. Those of the server take a while on purpose.
var passwordHash = func() string {
	text, salt := base64.RawStdEncoding, []byte("salt of the tests")
	return fmt.Sprintf("$argon2id$v=%d$m=8,t=1,p=1$%s$%s", argon2.Version, text.EncodeToString(salt), text.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32)))
}()

// each runs a test against a server on each engine, with what pages need besides servertest.World.
func each(t *testing.T, fn func(t *testing.T, s *servertest.Server)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		prepare(t, s)
		fn(t, s)
	})
}

// onSQLite starts a server for tests whose pages do not depend on the engine.
func onSQLite(t *testing.T) *servertest.Server {
	t.Helper()
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	prepare(t, s)
	return s
}

// prepare adds the built-in applications, like a starting server, and passwords.
func prepare(t *testing.T, s *servertest.Server) {
	t.Helper()
	if err := s.DB.Write(t.Context(), func(q *db.Q) error { return oauth.EnsureBuiltIn(q, s.Clock.Now()) }); err != nil {
		t.Fatal(err)
	}
	givePasswords(t, s)
}

// givePasswords gives passwords to Ada and Bo of acme and to Cy of the other organization.
func givePasswords(t *testing.T, s *servertest.Server) {
	t.Helper()
	err := s.DB.Write(t.Context(), func(q *db.Q) error {
		_, err := q.Exec(`UPDATE users SET password_hash = $1 WHERE email IN ('ada@acme.test', 'bo@acme.test', 'cy@rival.test')`, passwordHash)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A visitor is a minimal browser: it keeps cookies, accepts HTML and sends the headers about its site.
type visitor struct {
	t      *testing.T
	url    string
	client *http.Client
	header http.Header
}

func visit(t *testing.T, s *servertest.Server) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{
		t:      t,
		url:    s.URL,
		client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		header: http.Header{"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"}, "Sec-Fetch-Site": {"same-origin"}},
	}
}

// signIn returns a signed-in visitor.
func signIn(t *testing.T, s *servertest.Server, email string) *visitor {
	t.Helper()
	v := visit(t, s)
	v.post("/login", "email", email, "password", password).wantRedirect("/")
	return v
}

// A page is a response to a visitor.
type page struct {
	t      *testing.T
	what   string
	Status int
	Header http.Header
	Body   string
}

func (v *visitor) get(path string) *page { v.t.Helper(); return v.send("GET", path, nil) }

// post sends a form; fields alternate names and values.
func (v *visitor) post(path string, fields ...string) *page {
	v.t.Helper()
	form := make(url.Values)
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return v.send("POST", path, form)
}

func (v *visitor) send(method, path string, form url.Values) *page {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header = v.header.Clone()
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return &page{v.t, method + " " + path, resp.StatusCode, resp.Header, string(body)}
}

// want ends the test unless the page has a status and all texts.
func (p *page) want(status int, texts ...string) *page {
	p.t.Helper()
	if p.Status != status {
		p.t.Fatalf("%s: status %d, want %d\n%s", p.what, p.Status, status, p.text())
	}
	for _, text := range texts {
		if !strings.Contains(p.text(), text) {
			p.t.Errorf("%s: no %q in\n%s", p.what, text, p.text())
		}
	}
	return p
}

// wantNot fails the test if the page has one of the texts.
func (p *page) wantNot(texts ...string) *page {
	p.t.Helper()
	for _, text := range texts {
		if strings.Contains(p.text(), text) {
			p.t.Errorf("%s: %q in\n%s", p.what, text, p.text())
		}
	}
	return p
}

func (p *page) wantRedirect(to string) *page {
	p.t.Helper()
	if got := p.Header.Get("Location"); p.Status != http.StatusSeeOther || got != to {
		p.t.Fatalf("%s: status %d to %q, want 303 to %q\n%s", p.what, p.Status, got, to, p.text())
	}
	return p
}

var (
	tags   = regexp.MustCompile(`(?s)<head>.*</head>|<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// text returns the page without markup.
func (p *page) text() string {
	return html.UnescapeString(spaces.ReplaceAllString(tags.ReplaceAllString(p.Body, ""), " "))
}

// find returns the first group of a pattern in the markup.
func (p *page) find(pattern string) string {
	p.t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(p.Body)
	if m == nil {
		p.t.Fatalf("%s: nothing like %s in\n%s", p.what, pattern, p.Body)
	}
	return html.UnescapeString(m[1])
}

// sessionCookie returns the value of the visitor's session.
func (v *visitor) sessionCookie() string {
	v.t.Helper()
	at, err := url.Parse(v.url)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, c := range v.client.Jar.Cookies(at) {
		if c.Name == "stackyard" {
			return c.Value
		}
	}
	return ""
}

// setSessionCookie sets the session of the visitor.
func (v *visitor) setSessionCookie(value string) {
	v.t.Helper()
	at, err := url.Parse(v.url)
	if err != nil {
		v.t.Fatal(err)
	}
	v.client.Jar.SetCookies(at, []*http.Cookie{{Name: "stackyard", Value: value, Path: "/"}})
}
