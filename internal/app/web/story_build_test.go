package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// builds puts a visual pipeline together with mouse and keyboard, watches the log of its build while it is written,
// retries, unblocks, and cancels another build. The job waits for files, so that nothing depends on time.
func (b *browser) builds(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	create := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.open("/organizations/acme/pipelines/visual")
	b.fill("Name", "Release")
	b.fill("Repository", "https://git.example.test/release.git")
	b.fill("Commands", fmt.Sprintf("echo first line\nuntil [ -e %[1]s/go ]; do sleep 0.05; done\necho second line\n[ -e %[1]s/ok ]", folder))
	b.do(chromedp.Click(`//summary[normalize-space()="Environment"]`))
	b.do(chromedp.SendKeys(`textarea[name=env]`, "SERVICE_SKIP_CHECKOUT=true"))
	b.mark()
	b.do(chromedp.Click(`//button[@value="add:manual"]`), chromedp.WaitVisible(`//*[contains(., "2. Block")]`))
	b.do(chromedp.KeyEvent("Ship it?")) // the first field of the new step has the focus
	b.moveStep("ArrowUp", 1)
	b.moveStep("ArrowDown", 2)
	b.unmoved()
	b.audit("pipeline-visual-new")
	b.press("Create pipeline")
	b.see("Pipeline created", "No builds yet")
	b.press("Create build")
	build := ask(b, chromedp.Evaluate[string](`location.pathname`))

	b.press("Tests")
	b.await("first line")
	b.mark()
	create("go")
	b.await("second line")
	b.await("Failed")
	b.unmoved()
	create("ok")
	b.press("Retry")
	b.open(build)
	b.do(chromedp.WaitVisible(`form.unblock button`))
	b.press("Unblock")
	b.await("Unblocked by Ada")

	if err := os.Remove(filepath.Join(folder, "go")); err != nil {
		t.Fatal(err)
	}
	b.open("/acme/release")
	b.do(chromedp.Click(`//summary[normalize-space()="New build"]`))
	b.press("Create build")
	b.await("Running")
	b.do(chromedp.Click(`#cancel-build summary`))
	b.press("Yes, cancel this build")
	b.await("Canceled")

	b.open("/acme/release/settings/steps")
	b.see("1. Commands", "2. Block")
	b.audit("pipeline-visual")
	b.press("Convert to YAML")
	b.do(chromedp.WaitVisible(`//*[@data-result]//*[contains(., "2 steps, no errors")]`))
	b.audit("pipeline-visual-yaml")
}

// moveStep moves the step with the focus, and waits until the block step is at a position.
func (b *browser) moveStep(key string, position int) {
	b.t.Helper()
	ask(b, chromedp.Evaluate[bool](fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: %q, altKey: true, bubbles: true, cancelable: true}))`, key)))
	b.do(chromedp.WaitVisible(fmt.Sprintf(`//li[@data-step][%d]//b[.="Ship it?"]`, position)))
}

// choosesRepository creates a pipeline of a repository of a connected host.
func (b *browser) choosesRepository(t *testing.T) {
	t.Helper()
	host := startSourceHost(t)
	b.open("/organizations/acme/settings/connections")
	b.fill("Host", "github.com")
	b.fill("Token", "good")
	b.fill("API", host.URL)
	b.press("Connect")
	b.see("Connected")
	b.audit("connections")
	b.open("/organizations/acme/pipelines/new")
	b.press("Choose from github.com")
	b.see("acme/shop", "acme/vault")
	b.audit("repositories")
	b.fill("Search repositories", "vault")
	b.leave(chromedp.Click(`form.search button`))
	b.press("Create pipeline")
	b.see("Create a webhook at github.com")
	b.do(chromedp.WaitReady(".editor"))
	b.audit("pipeline-new-repository")
	b.press("Create pipeline")
	b.see("Pipeline and webhook created. Start its first build.", "Create build")
}

// refuses has a member send what only administrators may do.
func (b *browser) refuses(path, name, value string) {
	b.t.Helper()
	ask(b, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
		const form = document.createElement("form");
		form.method = "post";
		form.action = %q;
		const field = form.appendChild(document.createElement("input"));
		[field.name, field.value] = [%q, %q];
		document.body.append(form);
		form.submit();
		return true;
	})()`, path, name, value)))
	b.await("403")
}
