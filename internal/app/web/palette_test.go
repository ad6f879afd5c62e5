package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stackyard/internal/app/server/servertest"
)

// found returns the titles that a search finds, as the palette gets them.
func (v *visitor) found(path, text string) string {
	v.t.Helper()
	accept := v.header.Get("Accept")
	v.header.Set("Accept", "application/json")
	defer v.header.Set("Accept", accept)
	return v.get(path + "?q=" + url.QueryEscape(text)).want(200).Body
}

func TestSearch_FindsWhatTheVisitorMaySee(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		r := build(t, s, `steps: [{label: Thresh, command: make thresh}]`)
		s.Register(t, map[string]any{"name": "Harvester-1"})
		ada := signIn(t, s, "ada@acme.test")
		const search = "/organizations/acme/search"
		for text, want := range map[string]string{
			"hel":         `"title":"Hello"`,
			"HELLO":       `"path":"/acme/hello"`,
			"1":           `"path":"` + r.Path + `"`,
			"#1":          `Hello #1`,
			"hello 1":     `Hello #1`,
			"hello #1":    `Hello #1`,
			"harvester":   `"title":"Harvester-1"`,
			"members":     `"path":"/organizations/acme/settings/members"`,
			"":            `"title":"Pages"`,
			"new pipe":    `/organizations/acme/pipelines/new`,
			"%":           `{"groups":null}`,
			"no such one": `{"groups":null}`,
			"1 OR 1=1":    `{"groups":null}`,
		} {
			if got := ada.found(search, text); !strings.Contains(got, want) {
				t.Errorf("%q found %s, want %s", text, got, want)
			}
		}
		if got := ada.found("/organizations/search", "hel"); !strings.Contains(got, `"path":"/acme/hello"`) {
			t.Errorf("all organizations: %s", got)
		}
		// The same without script, and a long text.
		ada.get(search+"?q=hel").want(200, "Hello", "Pipeline")
		ada.get(search+"?q=none").want(200, "Nothing found for “none”")
		ada.get(search+"?q="+strings.Repeat("a", 5000)).want(200, "Nothing found")

		cy := signIn(t, s, "cy@rival.test")
		cy.get(search+"?q=hel").want(404, "does not exist")
		if got := cy.found("/organizations/search", "hel"); strings.Contains(got, "acme") {
			t.Errorf("another organization finds %s", got)
		}
		visit(t, s).get(search + "?q=hel").wantRedirect("/login?return_to=%2Forganizations%2Facme%2Fsearch%3Fq%3Dhel")

		share(t, s, "read_only")
		s.As(t, servertest.Ada).Delete("/v2/organizations/acme/teams/bakers/pipelines/" + servertest.AcmePipelineID).Want(204)
		bo := signIn(t, s, "bo@acme.test")
		for _, text := range []string{"hel", "1", "hello 1"} {
			if got := bo.found(search, text); strings.Contains(got, "hello") || strings.Contains(got, "Hello") {
				t.Errorf("a member without access finds %s", got)
			}
		}
	})
}

// A search runs the same few statements, however much there is.
func TestSearch_HasABoundedCost(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		var statements atomic.Int64
		s.DB.OnStatement(func(string, []any) { statements.Add(1) })
		cost := func() int64 {
			before := statements.Load()
			ada.found("/organizations/acme/search", "hello 1")
			return statements.Load() - before
		}
		cost() // fills caches
		few := cost()
		for i := range 30 {
			s.As(t, servertest.Ada).Post("/v2/organizations/acme/pipelines", map[string]any{
				"name": fmt.Sprint("Hello again ", i), "repository": "https://git.example.test/r.git", "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: make}]",
			}).Want(201)
		}
		cost()
		if many := cost(); many > few+1 {
			t.Errorf("a search costs %d statements with one pipeline and %d with 31", few, many)
		}
	})
}

func TestBrowser_UsesThePaletteAndShortcuts(t *testing.T) {
	s := onSQLite(t)
	r := build(t, s, `steps: [{label: Thresh, command: make thresh}, {label: Bake, command: make bake}]`)
	a := s.Register(t, nil)
	r.take(a, "Thresh").Finish("1")
	r.take(a, "Bake").Finish("1")
	b := watch(t, s, "/")
	option := func(text string) string {
		return fmt.Sprintf(`//dialog//*[@role="option"][@aria-selected="true"][contains(., %q)]`, text)
	}
	b.do(chromedp.WaitVisible(".search-link kbd"))
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)), chromedp.WaitReady(`dialog input:focus`), chromedp.KeyEvent("hello 1"), chromedp.WaitVisible(option("Hello #1")))
	b.audit("palette")
	b.enter()
	b.see("2 failed")
	b.audit("palette-build")

	b.do(chromedp.KeyEvent("?"), chromedp.WaitVisible(`//dialog//dd[contains(., "Retry failed jobs")]`))
	b.audit("shortcuts")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent("dialog"))
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"))
	if got := ask(b, chromedp.Evaluate[string](`document.activeElement.innerText.trim()`)); got != "Bake" {
		t.Errorf("j twice leads to %q", got)
	}
	b.leave(chromedp.KeyEvent("r"))
	b.await("2 jobs retried")

	// Canceling asks, also from the palette. The page may still get the state before the retry when the machine is busy.
	// Click instead of pressing Enter: the test's keyboard sends the character of a key to what has the focus then.
	b.open(r.Path)
	b.do(chromedp.WaitVisible(`#cancel-build summary`))
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)), chromedp.WaitReady(`dialog input:focus`), chromedp.KeyEvent("cancel build"), chromedp.Click(option("Cancel build")))
	b.do(chromedp.WaitReady(`#cancel-build[open] button:focus`))
	b.enter()
	b.await("Canceling build.")

	b.do(chromedp.KeyEvent("g"))
	b.leave(chromedp.KeyEvent("a"))
	b.see("Agents")
	b.do(chromedp.KeyEvent("g"))
	b.leave(chromedp.KeyEvent("b"))
	b.see("Builds", "Sort the sheaves")
	b.audit("builds")
	// Nothing happens in fields, and single keys can be turned off.
	b.do(chromedp.KeyEvent("?"), chromedp.Click(`dialog input[type=checkbox]`), chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent("dialog"))
	b.do(chromedp.KeyEvent("?"), chromedp.KeyEvent("/"))
	if ask(b, chromedp.Evaluate[bool](`document.querySelector("dialog") !== null`)) {
		t.Error("a single key works though they are turned off")
	}
}
