package web_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/app/web"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// forms returns the patterns of all forms: every route of a page that changes something.
func forms(t *testing.T) (patterns []string) {
	t.Helper()
	site := web.New(web.Config{Base: pages.Config{Public: "http://ci.test"}, Bus: bus.New(dbtest.New(t, db.SQLite), slog.New(slog.DiscardHandler))})
	for _, r := range site.Routes() {
		if r.Method != http.MethodGet {
			patterns = append(patterns, r.Path)
		}
	}
	if len(patterns) < 90 {
		t.Fatalf("only %d forms", len(patterns))
	}
	return patterns
}

// with returns the path of a pattern with values, and new ids for what has none.
func with(pattern string, values map[string]string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if value, ok := values[s]; ok {
			segments[i] = value
		} else if strings.HasPrefix(s, "{") {
			segments[i] = core.NewID()
		}
	}
	return strings.Join(segments, "/")
}

// changed matches statements that change a table.
var changed = regexp.MustCompile(`^\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)`)

// Every form does nothing for another site, for visitors who are not signed in, for members of other organizations, and
// for a member who can only look.
func TestEveryForm_ChangesNothingWithoutPermission(t *testing.T) {
	s := onSQLite(t)
	values := furnish(t, s)
	api := s.As(t, servertest.Ada)
	const acme = "/v2/organizations/acme"
	values["{invitation}"] = api.Post(acme+"/invitations", map[string]any{"email": "new@acme.test"}).Want(201).String("id")
	values["{schedule}"] = api.Post(acme+"/pipelines/hello/schedules", map[string]any{"cronline": "@hourly"}).Want(201).String("id")
	values["{connection}"] = api.Post(acme+"/source-connections", map[string]any{"host": "github.com", "token": "x"}).Want(201).String("id")
	share(t, s, "read_only")
	values["{team}"], values["{organization}"] = "bakers", s.OrganizationID(t, "acme")

	ada, bo, cy, nobody := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test"), signIn(t, s, "cy@rival.test"), visit(t, s)
	ada.header.Set("Sec-Fetch-Site", "cross-site")
	var mu sync.Mutex
	var tables []string
	s.DB.OnStatement(func(text string, _ []any) {
		if m := changed.FindStringSubmatch(text); m != nil && m[1] != "sessions" {
			mu.Lock()
			defer mu.Unlock()
			tables = append(tables, m[1])
		}
	})
	unchanged := func(who, pattern string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(tables) > 0 {
			t.Errorf("POST %s by %s changed %v", pattern, who, tables)
			tables = nil
		}
	}
	for _, pattern := range forms(t) {
		path := with(pattern, values)
		ada.post(path, "name", "x").want(403, "came from another site")
		unchanged("another site", pattern)
		if !strings.Contains(pattern, "{org}") { // one's own account: see TestEveryForm_WithoutASessionLeadsToSigningIn
			continue
		}
		if p := nobody.post(path); p.Status != http.StatusSeeOther || !strings.HasPrefix(p.Header.Get("Location"), "/login?return_to=") {
			t.Errorf("POST %s without a session: status %d", pattern, p.Status)
		}
		unchanged("a visitor", pattern)
		if p := cy.post(path); p.Status != http.StatusNotFound {
			t.Errorf("POST %s by a stranger: status %d", pattern, p.Status)
		}
		unchanged("a stranger", pattern)
		switch pattern {
		case "/{org}/{pipeline}/favorite", "/organizations/{org}/pipelines/check":
			continue // their own list, and a check that changes nothing
		}
		form := url.Values{"name": {"x"}, "key": {"x"}, "email": {"x@acme.test"}, "confirm": {"Hello"}, "commit": {"HEAD"}, "branch": {"main"}, "configuration": {"steps: [{command: make}]"}, "cronline": {"@daily"}, "do": {"delete"}, "setting": {"public-pipelines"}, "role": {"admin"},
			"user": {servertest.AdaID}, "user_id": {servertest.AdaID}, "pipeline_id": {servertest.AcmePipelineID}, "access_level": {"manage_build_and_read"}}
		if strings.HasSuffix(pattern, "/visual") {
			form.Set("do", "save")
		}
		switch p := bo.send("POST", path, form); p.Status {
		case http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity:
		case http.StatusSeeOther: // to a page that says why it was not done
		default:
			t.Errorf("POST %s by a reader: status %d to %q: %s", pattern, p.Status, p.Header.Get("Location"), core.Cut(p.text(), 300))
		}
		unchanged("a reader", pattern)
	}
}

// A list of ten thousand builds costs the same as one of ten: each statement follows an index in the order of the list,
// so that its limit bounds the rows that are read.
func TestLists_FollowAnIndex(t *testing.T) {
	s := onSQLite(t)
	build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
	ada := signIn(t, s, "ada@acme.test")
	type statement struct {
		text string
		args []any
	}
	var mu sync.Mutex
	var listed []statement
	s.DB.OnStatement(func(text string, args []any) {
		if strings.Contains(text, "FROM builds") && strings.Contains(text, "LIMIT") {
			mu.Lock()
			defer mu.Unlock()
			listed = append(listed, statement{text, args})
		}
	})
	for _, path := range []string{"/acme/hello", "/acme/hello?branch=main", "/acme/hello?state=passed", "/organizations/acme/builds", "/acme/hello/commits/2f1c8a0e55d1b1f7c9a4e8d3b6f5a4c3d2e1f0a9", "/", "/acme"} {
		mu.Lock()
		listed = nil
		mu.Unlock()
		ada.get(path).want(200)
		mu.Lock()
		found := listed
		mu.Unlock()
		if len(found) == 0 && path != "/" && path != "/acme" {
			t.Errorf("%s lists no builds", path)
		}
		for _, of := range found {
			err := s.DB.Read(t.Context(), func(q *db.Q) error {
				return db.Each(q, func(scan db.Scan) error {
					var id, parent, unused int
					var detail string
					if err := scan(&id, &parent, &unused, &detail); err != nil {
						return err
					}
					if strings.Contains(detail, "TEMP B-TREE") || strings.HasPrefix(detail, "SCAN b ") && !strings.Contains(detail, "INDEX") {
						t.Errorf("%s: %s in %s", path, detail, of.text)
					}
					return nil
				}, "EXPLAIN QUERY PLAN "+of.text, of.args...)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
