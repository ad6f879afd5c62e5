package web_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/account"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

func TestBrowser_SignsInAndLooksAround(t *testing.T) {
	b, _ := browse(t)
	b.open("/")
	b.see("Sign in", "Email", "Password")
	b.audit("sign-in")
	b.fill("Email", "ada@acme.test")
	b.fill("Password", "wrong")
	b.press("Sign in")
	b.see("The email or the password is wrong")
	b.audit("sign-in-wrong")
	b.signIn("ada@acme.test")
	b.see("Hello, Ada", "Acme Inc", "admin")
	b.audit("home")
	b.press("Password")
	b.see("Current password")
	b.fill("Current password", "wrong")
	b.fill("New password", "a brand new password")
	b.fill("Repeat new password", "a brand new password")
	b.press("Change password")
	b.see("The current password is wrong")
	b.audit("password")
	b.open("/settings/sessions")
	b.see("Chrome on Linux", "this session")
	b.audit("sessions")
	b.open("/nothing/here")
	b.see("Page not found", "404")
	b.audit("not-found")
	b.press("Go home")
	b.press("Sign out")
	b.see("You are signed out")
	b.audit("signed-out")
}

// device requests codes like the command line.
type device struct {
	t        *testing.T
	s        *servertest.Server
	code     string
	UserCode string
	Complete string // the path of the page with the code
}

func startDevice(t *testing.T, s *servertest.Server, fields ...string) *device {
	t.Helper()
	form := url.Values{"client_id": {"stackyard-cli"}, "scope": {"read_user read_builds write_builds read_pipelines"}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	response := oauthPost(t, s, "/oauth/device_authorization", form).Want(200)
	return &device{t, s, response.String("device_code"), response.String("user_code"), strings.TrimPrefix(response.String("verification_uri_complete"), s.URL)}
}

func oauthPost(t *testing.T, s *servertest.Server, path string, form url.Values) *servertest.Response {
	t.Helper()
	return s.As(t, "").With("Content-Type", "application/x-www-form-urlencoded").With("User-Agent", "stackyard/1.0 (linux)").Post(path, form.Encode())
}

// poll requests the token.
func (d *device) poll() *servertest.Response {
	d.t.Helper()
	d.s.Clock.Advance(10 * time.Second)
	return oauthPost(d.t, d.s, "/oauth/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {"stackyard-cli"}, "device_code": {d.code},
	})
}

func TestBrowser_ApprovesADeviceAndRevokesItAgain(t *testing.T) {
	b, s := browse(t)
	d := startDevice(t, s, "organization", "acme")
	b.open("/oauth/device")
	b.see("Sign in")
	b.signIn("ada@acme.test")
	b.see("Connect a device")
	b.shoot("device")
	b.fill("Code", strings.ToLower(strings.ReplaceAll(d.UserCode, "-", " ")))
	b.press("Continue")
	b.see("Authorize Stackyard CLI?", d.UserCode, "127.0.0.1", "stackyard/1.0", "Start, cancel, rebuild, retry and unblock builds", "Acme Inc")
	b.shoot("approval")
	b.press("Approve")
	b.see("Approved", "Return to your device")
	b.shoot("approved")
	token := d.poll().Want(200).String("access_token")
	s.As(t, token).Get("/v2/user").Want(200)

	b.press("Authorized applications")
	b.see("Stackyard CLI in Acme Inc")
	b.shoot("authorized-applications")
	b.press("Revoke")
	b.see("Application revoked", "No authorized applications")
	b.shoot("authorized-applications-none")
	s.As(t, token).Get("/v2/user").Want(401)
}

func TestBrowser_DeniesADevice(t *testing.T) {
	b, s := browse(t)
	d := startDevice(t, s)
	b.open(d.Complete)
	b.signIn("ada@acme.test")
	b.see("Authorize Stackyard CLI?")
	b.press("Deny")
	b.see("Denied", "was denied access")
	b.shoot("denied")
	if got := d.poll().Want(400).String("error"); got != "access_denied" {
		t.Errorf("the device got %s", got)
	}
}

func TestBrowser_EntersWrongAndExpiredCodes(t *testing.T) {
	b, s := browse(t)
	d := startDevice(t, s)
	b.open("/oauth/device")
	b.signIn("ada@acme.test")
	b.fill("Code", "hello")
	b.press("Continue")
	b.see("That is not a code")
	b.fill("Code", "BBBB-BBBB")
	b.press("Continue")
	b.see("No device is waiting with the code BBBB-BBBB")
	b.shoot("device-wrong-code")
	s.Clock.Advance(11 * time.Minute)
	b.fill("Code", d.UserCode)
	b.press("Continue")
	b.see("This code has expired")
	b.shoot("device-expired-code")
	for range 10 {
		b.open("/oauth/device/BBBB-BBBB")
		b.see("No device is waiting")
	}
	b.open("/oauth/device/BBBB-BBBB")
	b.see("429", "Too many wrong codes")
	b.shoot("too-many")
}

func TestBrowser_MakesATokenAndRevokesIt(t *testing.T) {
	b, s := browse(t)
	b.open("/settings/tokens")
	b.signIn("bo@acme.test")
	b.see("Access tokens")
	b.shoot("tokens-first")
	b.press("New access token")
	b.fill("Description", "Nightly report")
	b.shoot("token-new")
	b.press("Create token")
	b.see("Token not created", "Scopes must be at least one")
	b.choose("See your name and email")
	b.choose("See builds, jobs and annotations")
	b.press("Create token")
	b.see("Copy it now", "Nightly report")
	b.shoot("token-made")
	token := ask(b, chromedp.Text(`code.secret`))
	s.As(t, token).Get("/v2/user").Want(200)
	s.As(t, token).Get("/v2/organizations/acme/pipelines").Want(403)
	if err := s.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.press("Back to Access tokens")
	b.see("Nightly report", "last used just now from 127.0.0.1", "expires on")
	b.shoot("tokens")
	b.press("Revoke")
	b.see("Access token revoked")
	s.As(t, token).Get("/v2/user").Want(401)
}

func TestBrowser_LooksAfterOAuthApplications(t *testing.T) {
	b, _ := browse(t)
	b.open("/settings/oauth-applications")
	b.signIn("ada@acme.test")
	b.see("No applications")
	b.press("New application")
	b.fill("Name", "Dashboard")
	b.choose("Confidential")
	b.choose("See builds")
	b.shoot("application-new")
	b.press("Create application")
	b.see("Client secret of Dashboard", "Copy it now")
	b.shoot("application-secret")
	b.press("Back to Dashboard")
	b.see("Client id", "confidential")
	b.choose("Enabled")
	b.press("Save")
	b.see("Application saved")
	b.shoot("application")
	b.press("Create new secret")
	b.see("Client secret of Dashboard")
	b.press("Back")
	b.press("OAuth applications")
	b.see("Dashboard", "disabled")
	b.shoot("applications")
}

func TestBrowser_FirstAdministratorChoosesAPassword(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	link, _, err := account.New(s.DB, identity.NewDirectory(s.DB, s.Clock.Now), s.Clock.Now).FirstLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, s.URL)
	b.open("/login/link/" + link)
	b.see("Choose a password", "ada@acme.test")
	b.fill("New password", "a brand new password")
	b.fill("Repeat new password", "another one")
	b.press("Set password")
	b.see("This is not the same as the new password")
	b.shoot("first-password")
	b.fill("New password", "a brand new password")
	b.fill("Repeat new password", "a brand new password")
	b.press("Set password")
	b.see("Password set", "Hello, Ada")
	b.open("/login/link/" + link)
	b.see("410", "has been used")
}

func TestBrowser_IsUsedWithTheKeyboardAlone(t *testing.T) {
	b, s := browse(t)
	d := startDevice(t, s)
	b.open(d.Complete)
	b.typeAt("email", "ada@acme.test")
	b.do(chromedp.KeyEvent(kb.Tab))
	b.typeAt("password", password)
	b.enter()
	b.see("Authorize Stackyard CLI?")
	b.do(chromedp.KeyEvent(kb.Tab))
	if at := ask(b, chromedp.Evaluate[string](`document.activeElement.textContent`)); at != "Skip to content" {
		t.Errorf("the first stop is %q", at)
	}
	if left := ask(b, chromedp.Evaluate[float64](`document.activeElement.getBoundingClientRect().left`)); left < 0 {
		t.Error("the way past the header stays hidden")
	}
	for range 10 {
		if ask(b, chromedp.Evaluate[string](`document.activeElement.textContent`)) == "Approve" {
			break
		}
		b.do(chromedp.KeyEvent(kb.Tab))
		if outline := ask(b, chromedp.Evaluate[string](`getComputedStyle(document.activeElement).outlineStyle`)); outline == "none" {
			t.Errorf("the focus on %s is not visible", ask(b, chromedp.Evaluate[string](`document.activeElement.outerHTML`)))
		}
	}
	b.enter()
	b.see("Approved")
}
