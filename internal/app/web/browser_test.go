package web_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stackyard/internal/app/server/servertest"
)

// stepTimeout limits one step of a browser.
const stepTimeout = 60 * time.Second

// chromium is started once for all tests of the package. Each test gets its own profile.
var chromium = struct {
	once  sync.Once
	err   error
	ctx   context.Context
	close func()
}{close: func() {}}

func TestMain(m *testing.M) {
	status := m.Run()
	chromium.close()
	os.Exit(status)
}

func startChromium() {
	profile, err := os.MkdirTemp("", "stackyard-chromium-*")
	if err != nil {
		chromium.err = err
		return
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true),
		// Host names that are not local: browsers distrust plain http to them and treat them as different
		// sites.
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"),
		chromedp.UserDataDir(profile),
	)
	ctx, cancel := chromedp.NewContext(allocator)
	chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
	chromium.close = func() {
		cancel()
		stop()
		os.RemoveAll(profile)
	}
}

// A browser is a browser profile with its own cookies.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string
}

// screen is a size and a color scheme.
type screen struct {
	name          string
	width, height int64
	scheme        string
}

// screens are those of screenshots. Pages are checked on the first ones: both themes, and the widths at which they look
// different.
var screens = []screen{
	{"desktop-light", 1280, 860, "light"},
	{"phone-dark", 390, 780, "dark"},
	{"small-phone-light", 320, 640, "light"},
	{"desktop-dark", 1280, 860, "dark"},
	{"phone-light", 390, 780, "light"},
}

// audited are how many screens are checked with axe-core, and usedOn how many without it.
const audited, usedOn = 2, 3

// browse starts a server on SQLite and a browser without a session.
func browse(t *testing.T) (*browser, *servertest.Server) {
	t.Helper()
	s := onSQLite(t)
	return newBrowser(t, s.URL), s
}

func newBrowser(t *testing.T, url string) *browser {
	t.Helper()
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		t.Fatalf("Chromium does not start: %v", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, url: url}
	if err := chromedp.Do(ctx); err != nil { // opens a page that exists until the test ends
		t.Fatal(err)
	}
	b.use(screens[0])
	return b
}

// do runs steps with a time limit.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\nat %s", err, b.where())
	}
}

// ask runs an action and returns its result.
func ask[T any](b *browser, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	response, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatalf("%v\nat %s", err, b.where())
	}
	return response
}

func (b *browser) use(s screen) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(s.width, s.height), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return err
	}))
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

// where describes the current page for messages.
func (b *browser) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// fill types into the field with a label.
func (b *browser) fill(label, text string) {
	b.t.Helper()
	field := fmt.Sprintf(`//*[@id=//label[normalize-space()=%q]/@for]`, label)
	b.do(chromedp.Clear(field), chromedp.SendKeys(field, text))
}

// typeAt types on the keyboard once the field with an id has the focus. A page gives the focus to its first
// field only after it was loaded, and keys that come earlier are lost.
func (b *browser) typeAt(id, text string) {
	b.t.Helper()
	b.do(chromedp.WaitReady("#"+id+":focus"), chromedp.KeyEvent(text))
	if got := ask(b, chromedp.Value("#"+id)); got != text {
		b.t.Fatalf("%s is %q after typing %q", id, got, text)
	}
}

// press clicks the button or link with a text that begins so, and waits for the next page.
func (b *browser) press(text string) {
	b.t.Helper()
	target := fmt.Sprintf(`(//main//*[self::button or self::a][starts-with(normalize-space(), %q)] | //header//*[self::button or self::a][starts-with(normalize-space(), %q)])[1]`, text, text)
	b.leave(chromedp.Click(target))
}

// enter presses the Enter key, and waits for the next page.
func (b *browser) enter() {
	b.t.Helper()
	b.leave(chromedp.KeyEvent(kb.Enter))
}

// leave runs a step that leads to another page, and waits for it.
func (b *browser) leave(step chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, step); err != nil {
		b.t.Fatalf("%v\nat %s", err, b.where())
	}
}

// choose selects the checkbox or radio button with a label that begins so.
func (b *browser) choose(text string) {
	b.t.Helper()
	b.do(chromedp.Click(fmt.Sprintf(`//label[starts-with(normalize-space(), %q)]//input`, text)))
}

// see ends the test unless the page contains all texts.
func (b *browser) see(texts ...string) {
	b.t.Helper()
	said := ask(b, chromedp.Evaluate[string](`document.body.innerText.replace(/\s+/g, " ")`))
	for _, text := range texts {
		if !strings.Contains(said, text) {
			b.t.Fatalf("no %q in:\n%s", text, said)
		}
	}
}

// await waits until the current page contains a text.
func (b *browser) await(text string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(fmt.Sprintf(`//main//*[contains(normalize-space(), %q)]`, text)))
}

// mark marks the page; unmoved fails the test if another page was loaded since.
func (b *browser) mark() { b.t.Helper(); ask(b, chromedp.Evaluate[bool](`window.marked = true`)) }

func (b *browser) unmoved() {
	b.t.Helper()
	if !ask(b, chromedp.Evaluate[bool](`window.marked === true`)) {
		b.t.Fatal("the page was loaded again")
	}
}

// signIn signs a user in on the current page.
func (b *browser) signIn(email string) {
	b.t.Helper()
	b.fill("Email", email)
	b.fill("Password", password)
	b.press("Sign in")
}

func (b *browser) saveScreenshot(path string) {
	b.t.Helper()
	picture := ask(b, chromedp.FullScreenshot(100))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// wantUsable fails the test if the page is wider than the screen, or contains something that a keyboard or
// screen reader cannot use.
func (b *browser) wantUsable(what string) {
	b.t.Helper()
	for _, problem := range ask(b, chromedp.Evaluate[[]string](usable)) {
		b.t.Errorf("%s: %s", what, problem)
	}
}

const usable = `(() => {
	const problems = [];
	const all = (selector) => [...document.querySelectorAll(selector)];
	const show = (e) => e.outerHTML.slice(0, 120);
	if (document.documentElement.scrollWidth > innerWidth) {
		const wide = all("body *").filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll"));
		problems.push("wider than the screen: " + wide.slice(0, 3).map(show).join(" "));
	}
	if (!document.documentElement.lang || !document.title) problems.push("no language or no title");
	if (all("h1").length !== 1) problems.push(all("h1").length + " main headings");
	for (const landmark of ["header", "main", "footer"]) {
		if (all(landmark).length !== 1) problems.push(all(landmark).length + " " + landmark);
	}
	let level = 0;
	for (const h of all("h1, h2, h3")) {
		if (+h.tagName[1] > level + 1) problems.push("a level is missing before the heading: " + show(h));
		level = +h.tagName[1];
	}
	for (const field of all("input:not([type=hidden]):not([hidden]), select, textarea")) {
		if (!field.labels.length && !field.getAttribute("aria-label")) problems.push("no label: " + show(field));
	}
	for (const e of all("button, a")) {
		if (!e.textContent.trim() && !e.getAttribute("aria-label")) problems.push("no text: " + show(e));
		const r = e.getBoundingClientRect();
		if (e.tagName === "BUTTON" && r.width && (r.height < 24 || r.width < 24)) problems.push("too small to touch: " + show(e));
	}
	for (const image of all("img")) {
		if (!image.hasAttribute("alt")) problems.push("no alternative text: " + show(image));
		if (image.complete && !image.naturalWidth) problems.push("not loaded: " + show(image));
	}
	for (const e of all("[id]")) {
		if (all("#" + CSS.escape(e.id)).length > 1) problems.push("the same id twice: " + e.id);
	}
	for (const e of all("[aria-describedby], [aria-labelledby]")) {
		const id = e.getAttribute("aria-describedby") || e.getAttribute("aria-labelledby");
		if (!document.getElementById(id)) problems.push("described by nothing: " + show(e));
	}
	if (all("script:not([src]), [style]:not(.lines *), [onclick]").length) problems.push("script or style within the page");
	if (all("body *").some((e) => e.matches("form [type=submit], form button") && e.form.method !== "post" && e.form.method !== "get")) problems.push("a form without method");
	if (!getComputedStyle(document.body).getPropertyValue("--accent")) problems.push("the stylesheet did not load");
	return problems;
})()`
