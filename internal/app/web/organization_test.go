package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// The pages that administrators use now and then: templates with the editor, usage, the audit trail, and error pages.
func TestBrowser_LooksAfterAnOrganization(t *testing.T) {
	s := onSQLite(t)
	template := s.As(t, servertest.Ada).Post("/v2/organizations/acme/pipeline-templates", map[string]any{"name": "Shared", "configuration": "steps:\n  - command: make\n"}).Want(201).String("uuid")
	b := watch(t, s, "/organizations/acme/pipeline-templates/"+template)
	b.do(chromedp.WaitReady(".editor"), chromedp.WaitVisible(`//*[@data-result]//*[contains(., "1 step, no errors")]`))
	b.audit("pipeline-template")
	// The editor offers the keys that a step can have.
	ask(b, chromedp.Evaluate[bool](`document.querySelector(".editor").shadowRoot.querySelector(".cm-content").focus(); true`))
	b.do(chromedp.KeyEvent(kb.End, chromedp.KeyModifiers(2)), chromedp.KeyEvent("    lab"))
	b.awaitScript(`(document.querySelector(".editor").shadowRoot.querySelector(".cm-tooltip-autocomplete")?.textContent || "").includes("label")`)
	b.awaitScript(`document.querySelector("textarea.code").value.endsWith("    lab")`)

	b.open("/organizations/acme/settings/usage")
	b.see("Usage and retention", "Keep artifacts, in days")
	b.audit("usage")
	b.open("/organizations/acme/settings/audit")
	b.see("Audit trail", "created pipeline template", "Shared")
	b.audit("audit-trail")

	bo := newBrowser(t, s.URL)
	bo.open("/organizations/acme/settings/audit")
	bo.signIn("bo@acme.test")
	bo.see("Only administrators")
	bo.refuses("/organizations/acme/clusters", "name", "Mine")
	bo.audit("access-denied")

	if err := s.DB.Write(t.Context(), func(q *db.Q) error { _, err := q.Exec(`DROP TABLE pipeline_favorites`); return err }); err != nil {
		t.Fatal(err)
	}
	b.open("/acme")
	b.see("500", "Something went wrong", "request id")
	b.audit("server-error")
}
