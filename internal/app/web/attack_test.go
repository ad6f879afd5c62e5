package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"stackyard/internal/app/server/servertest"
)

// under returns a URL of this machine with another host name.
func under(url, host string) string { return strings.Replace(url, "127.0.0.1", host, 1) }

// elsewhere serves a page of another site.
func elsewhere(t *testing.T, markup string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>Evil</title><main>%s</main>", markup)
	}))
	t.Cleanup(s.Close)
	return under(s.URL, "evil.test")
}

func wantPending(t *testing.T, d *device) {
	t.Helper()
	if got := d.poll().Want(400).String("error"); got != "authorization_pending" {
		t.Errorf("the device got %s", got)
	}
}

// victim is signed in, over plain http on a separate host name, and visits another site. That site knows
// everything but the cookie.
func victim(t *testing.T) (*browser, *servertest.Server, *device) {
	t.Helper()
	s := onSQLite(t)
	b := newBrowser(t, under(s.URL, "ci.test"))
	b.open("/")
	b.signIn("ada@acme.test")
	b.see("Hello, Ada")
	return b, s, startDevice(t, s)
}

func TestAttack_AnotherSiteCannotSendTheForm(t *testing.T) {
	b, s, d := victim(t)
	form := fmt.Sprintf(`<form method="post" action="%s"><input name="decision" value="approve"><input name="organization" value="%s"><button>Win a prize</button></form>`,
		html.EscapeString(b.url+d.Complete), s.OrganizationID(t, "acme"))
	b.do(chromedp.Navigate(elsewhere(t, form)))
	b.press("Win a prize")
	b.see("403", "came from another site")
	wantPending(t, d)
	b.open(d.Complete)
	b.press("Approve") // the same form from our own page
	b.see("Approved")
}

func TestAttack_AnotherSiteCannotShowThePageAsItsOwn(t *testing.T) {
	b, _, d := victim(t)
	b.do(chromedp.Navigate(elsewhere(t, fmt.Sprintf(`<iframe src="%s"></iframe>`, html.EscapeString(b.url+d.Complete)))))
	targets, err := chromedp.Targets(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(targets, func(info *target.Info) bool { return info.Type == "iframe" && strings.HasPrefix(info.URL, b.url) })
	if i < 0 {
		t.Fatal("there is no frame")
	}
	frame, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(targets[i].TargetID))
	defer cancel()
	shown := ask(&browser{t: t, ctx: frame}, chromedp.Evaluate[string](`location.href + " " + document.body.innerText`))
	if !strings.HasPrefix(shown, "chrome-error:") || strings.Contains(shown, "Stackyard") {
		t.Errorf("the frame shows %s", shown)
	}
}

// A program on the user's machine gets its code although the policy of our page is strict.
func TestBrowser_IsSentBackToTheProgramThatAsked(t *testing.T) {
	b, _ := browse(t)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "<main>The program has %s %s</main>", r.FormValue("code")[:6], html.EscapeString(r.FormValue("error")))
	}))
	t.Cleanup(program.Close)
	b.open(authorizePath("redirect_uri", program.URL+"/callback"))
	b.signIn("ada@acme.test")
	b.see("Authorize Stackyard CLI?", "then returns to "+strings.TrimPrefix(program.URL, "http://"))
	b.audit("authorize")
	b.press("Approve")
	b.see("The program has svcac_")
}
