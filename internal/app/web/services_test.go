package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/notificationstest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const (
	servicesPage = "/settings/notification-services"
	acmeServices = servicesPage + "/acme"
	servicesAPI  = "/v2/organizations/acme/services"
)

// fields returns the values that the form with an action submits unchanged.
func (p *page) fields(action string) url.Values {
	p.t.Helper()
	doc, err := html.Parse(strings.NewReader(p.Body))
	if err != nil {
		p.t.Fatal(err)
	}
	attr := func(n *html.Node, name string) (string, bool) {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val, true
			}
		}
		return "", false
	}
	text := func(n *html.Node) string {
		if n.FirstChild == nil {
			return ""
		}
		return n.FirstChild.Data
	}
	form := make(url.Values)
	found := false
	for n := range doc.Descendants() {
		if to, _ := attr(n, "action"); n.Data != "form" || to != action {
			continue
		}
		found = true
		for field := range n.Descendants() {
			name, named := attr(field, "name")
			value, _ := attr(field, "value")
			kind, _ := attr(field, "type")
			_, checked := attr(field, "checked")
			switch {
			case !named:
			case field.Data == "input" && (kind == "checkbox" || kind == "radio"):
				if checked {
					form.Add(name, value)
				}
			case field.Data == "input":
				form.Add(name, value)
			case field.Data == "textarea":
				form.Add(name, text(field))
			case field.Data == "select":
				for option := range field.Descendants() {
					if _, selected := attr(option, "selected"); option.Data == "option" && selected {
						value, _ := attr(option, "value")
						form.Add(name, value)
					}
				}
			}
		}
		break
	}
	if !found {
		p.t.Fatalf("%s: no form for %s in\n%s", p.what, action, p.Body)
	}
	return form
}

func TestServices_AreCreatedChangedAndDeletedOnPages(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, v := s.As(t, servertest.Ada), signIn(t, s, "ada@acme.test")
		v.get("/").want(200, "Notification services")
		v.get(servicesPage).want(200, "Acme Inc", "No notification services yet", "Chat Webhook").wantNot("Rival", "Connect Chat")
		form := v.get(acmeServices+"/new?provider=webhook").want(200, "New webhook", "URL", "Token mode", "TLS verify").fields(acmeServices)
		form.Set("description", "Deploys")
		form.Set("settings.url", "https://example.test/hook")
		form.Set("settings.events", "build.finished")
		form.Set("branch_configuration", "main")
		made := v.send("POST", acmeServices, form)
		at := made.Header.Get("Location")
		made.wantRedirect(at)
		if !regexp.MustCompile(`^/settings/notification-services/acme/[0-9a-f-]{36}$`).MatchString(at) {
			t.Fatalf("redirected to %q", at)
		}
		service := ada.Get(servicesAPI + at[len(acmeServices):]).Want(http.StatusOK)
		for field, want := range map[string]any{
			"description": "Deploys", "branch_configuration": "main", "scope": "all", "settings.url": "https://example.test/hook", "settings.version": 3.0,
			"settings.tls_verify": true, "build_states.build_failed": true, "build_states.build_fixed": true, "build_states.build_passed": false, "created_by.id": servertest.AdaID,
		} {
			if got := service.At(field); got != want {
				t.Errorf("%s is %v, want %v", field, got, want)
			}
		}
		edit := v.get(at).want(200, "Notification service created.", "Webhook", "Disable")
		unchanged := edit.fields(at)
		v.send("POST", at, unchanged).wantRedirect(at)
		if again := ada.Get(servicesAPI + at[len(acmeServices):]); string(again.Body) != string(service.Body) {
			t.Errorf("saving the form as it is makes\n%s of\n%s", again.Body, service.Body)
		}
		unchanged.Set("description", "Production <b>")
		unchanged.Set("scope", "some_projects")
		unchanged.Set("scope_uuids", servertest.AcmePipelineID+"\r\n")
		unchanged["build_states"] = []string{"build_passed"}
		v.send("POST", at, unchanged).wantRedirect(at)
		service = ada.Get(servicesAPI + at[len(acmeServices):])
		if service.String("description") != "Production <b>" || service.String("scope_uuids.0") != servertest.AcmePipelineID || service.At("build_states.build_failed") != false {
			t.Errorf("%s", service.Body)
		}
		v.post(at + "/disable").wantRedirect(at)
		v.get(at).want(200, "Notification service disabled.", "Nothing is sent", "Enable")
		v.get(servicesPage).want(200, "Production <b>", "disabled")
		v.post(at + "/enable").wantRedirect(at)
		err := s.DB.Write(t.Context(), func(q *db.Q) error {
			return notifications.MarkBroken(q, s.OrganizationID(t, "acme"), at[len(acmeServices)+1:], "every delivery failed", s.Clock.Now())
		})
		if err != nil {
			t.Fatal(err)
		}
		v.get(servicesPage).want(200, "broken")
		v.get(at).want(200, "every delivery failed")
		v.post(at + "/enable").wantRedirect(at)
		v.get(acmeServices).want(200, "enabled")
		v.post(at + "/delete").wantRedirect(servicesPage)
		v.get(servicesPage).want(200, "Notification service deleted.", "No notification services yet")
		v.get(at).want(404)
	})
}

func TestServices_FormsShowWhatIsWrong(t *testing.T) {
	s := onSQLite(t)
	v := signIn(t, s, "ada@acme.test")
	form := v.get(acmeServices + "/new?provider=event_bus").fields(acmeServices)
	form.Set("description", "Kept")
	form.Set("settings.cloud_region", "nowhere")
	form.Set("scope", "some_teams")
	form.Set("scope_uuids", "nonsense")
	wrong := v.send("POST", acmeServices, form).want(422, "Cloud region must be a region", "Cloud account ID cannot be blank", `The list has "nonsense", which is not a UUID`)
	kept := wrong.fields(acmeServices)
	for field, want := range map[string]string{"description": "Kept", "settings.cloud_region": "nowhere", "scope": "some_teams", "scope_uuids": "nonsense"} {
		if kept.Get(field) != want {
			t.Errorf("%s is %q, want %q", field, kept.Get(field), want)
		}
	}
	v.get(acmeServices + "/new?provider=chat_workspace").want(404)
	v.get(acmeServices + "/new?provider=x").want(404)
	v.post(acmeServices, "provider", "tracker").want(404)
	v.get(servicesPage + "/nobody").want(404)
	v.get(acmeServices + "?page=x").want(400)
}

// Saving an unchanged form changes nothing, for every provider.
func TestServices_HaveAFormForEveryProvider(t *testing.T) {
	s := onSQLite(t)
	ada, v := s.As(t, servertest.Ada), signIn(t, s, "ada@acme.test")
	for provider, settings := range map[string]map[string]any{
		"webhook":                           {"url": "https://example.test/hook", "events": []string{"ping", "job.finished"}, "version": 2, "token_mode": "signature", "tls_verify": false},
		"chat_webhook":                      {"url": "https://chat.example.test/secret", "theme": "emoji"},
		"event_bus":                         {"cloud_region": "us-east-1", "cloud_account_id": "123456789012", "include_build_meta_data": true},
		"observability_pipeline_visibility": {"api_key": "0123456789abcdef", "vendor_tags": []string{"a:b", "c:d"}},
		"open_telemetry_tracing":            {"endpoint": "https://otlp.example.test", "headers": map[string]string{"a": "secret"}, "resource_attributes": map[string]string{"x": "y: z"}, "tracestate": map[string]string{"a": "b"}},
		"event_log_api":                     {"events": []string{"build.finished"}},
	} {
		v.get(acmeServices+"/new?provider="+provider).want(200, "Create service")
		made := ada.Post(servicesAPI, map[string]any{"provider": provider, "settings": settings, "scope": "some_clusters", "scope_uuids": []string{servertest.AcmeClusterID}}).Want(http.StatusCreated)
		at := acmeServices + "/" + made.String("id")
		edit := v.get(at).want(200)
		if strings.Contains(edit.Body, "secret") || strings.Contains(edit.Body, "0123456789abcdef") || strings.Contains(edit.Body, "123456789012") {
			t.Errorf("the form of %s shows a secret", provider)
		}
		v.send("POST", at, edit.fields(at)).wantRedirect(at)
		if again := ada.Get(servicesAPI + "/" + made.String("id")); string(again.Body) != string(made.Body) {
			t.Errorf("saving the form of %s as it is makes\n%s of\n%s", provider, again.Body, made.Body)
		}
	}
}

func TestServices_AreForThoseWhoManageThem(t *testing.T) {
	s := onSQLite(t)
	ada := s.As(t, servertest.Ada)
	id := ada.Post(servicesAPI, map[string]any{"provider": "event_log_api"}).Want(http.StatusCreated).String("id")
	bo, cy := signIn(t, s, "bo@acme.test"), signIn(t, s, "cy@rival.test")
	bo.get("/settings/tokens").wantNot("Notification services")
	bo.get(servicesPage).want(200, "You do not manage any notification services")
	for _, v := range []*visitor{bo, cy} {
		for _, path := range []string{acmeServices, acmeServices + "/new?provider=webhook", acmeServices + "/" + id, "/settings/connect/acme/tracker"} {
			v.get(path).want(404)
		}
		for _, path := range []string{acmeServices, acmeServices + "/" + id, acmeServices + "/" + id + "/enable", acmeServices + "/" + id + "/disable", acmeServices + "/" + id + "/delete"} {
			v.post(path, "provider", "event_log_api", "scope", "all").want(404)
		}
	}
	cy.post(servicesPage + "/rival/" + id + "/delete").want(404)
	ada.Get(servicesAPI + "/" + id).Want(http.StatusOK)
	s.Apply("organizations: [{slug: acme, features: {members_manage_notification_services: true}}]")
	bo.get("/settings/tokens").want(200, "Notification services")
	bo.get(servicesPage).want(200, "Event Log API")
	bo.post(acmeServices + "/" + id + "/delete").wantRedirect(servicesPage)
}

func TestServices_ShowThirtyAndThenAll(t *testing.T) {
	s := onSQLite(t)
	ada, v := s.As(t, servertest.Ada), signIn(t, s, "ada@acme.test")
	for range 31 {
		ada.Post(servicesAPI, map[string]any{"provider": "event_log_api"}).Want(http.StatusCreated)
	}
	v.get(servicesPage).want(200, "Show all 31")
	v.get(acmeServices).want(200, "Next").wantNot("Show all")
	v.get(acmeServices+"?page=2").want(200, "Previous").wantNot("Next")
}

// withWorkspace starts a server with a configured chat and tracker.
func withWorkspace(t *testing.T, d *db.DB) (*servertest.Server, *notificationstest.Workspace) {
	t.Helper()
	w := notificationstest.NewWorkspace(t)
	s := servertest.Start(t, d, func(p *server.Parts) {
		p.Connections = notifications.Connections{Chat: w.Connection(), Tracker: w.Connection()}
	})
	s.Apply(servertest.World)
	prepare(t, s)
	return s, w
}

// toWorkspace follows the redirect to the workspace and returns the path of the redirect back.
func (v *visitor) toWorkspace(w *notificationstest.Workspace, provider string) string {
	v.t.Helper()
	sent := v.get("/settings/connect/acme/" + provider).want(303)
	to := sent.Header.Get("Location")
	if !strings.HasPrefix(to, w.URL+"/authorize?") {
		v.t.Fatalf("sent to %q", to)
	}
	resp, err := v.client.Get(to)
	if err != nil {
		v.t.Fatal(err)
	}
	resp.Body.Close()
	back := resp.Header.Get("Location")
	if resp.StatusCode != http.StatusFound || !strings.HasPrefix(back, v.url+"/settings/connect/callback?") {
		v.t.Fatalf("the workspace answers %d to %q", resp.StatusCode, back)
	}
	return strings.TrimPrefix(back, v.url)
}

func TestConnect_MakesAServiceOfWhatPeopleAuthorize(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, w := withWorkspace(t, d)
		ada, v := s.As(t, servertest.Ada), signIn(t, s, "ada@acme.test")
		v.get(servicesPage).want(200, "Connect Chat Workspace", "Connect Chat Webhook", "Connect Tracker")
		for provider, facts := range map[string][]string{
			"chat_workspace": {"Chat Workspace connected.", "Workspace ID", "T012", "Workspace name", "Acme Chat", "Channel", "Theme"},
			"tracker":        {"Tracker connected.", "Acme Chat"},
			"chat_webhook":   {"Chat Webhook connected.", "#builds", "Theme"},
		} {
			done := v.get(v.toWorkspace(w, provider)).want(303)
			at := done.Header.Get("Location")
			edit := v.get(at).want(200, facts...)
			service := ada.Get(servicesAPI + at[len(acmeServices):]).Want(http.StatusOK)
			if service.String("provider.id") != provider || service.At("enabled") != true || service.String("created_by.id") != servertest.AdaID {
				t.Errorf("%s", service.Body)
			}
			for _, secret := range []string{"access-", "refresh-", "/hooks/"} {
				if strings.Contains(edit.Body, secret) || strings.Contains(string(service.Body), secret) {
					t.Errorf("%s shows a credential: %s", provider, service.Body)
				}
			}
			v.send("POST", at, edit.fields(at)).wantRedirect(at)
			if again := ada.Get(servicesAPI + at[len(acmeServices):]); string(again.Body) != string(service.Body) {
				t.Errorf("saving the form of %s as it is makes\n%s of\n%s", provider, again.Body, service.Body)
			}
		}
		workspace := v.get(v.toWorkspace(w, "chat_workspace")).want(303).Header.Get("Location")
		if n := ada.Get(servicesAPI).Len("items"); n != 3 {
			t.Errorf("%d services after connecting one of three again", n)
		}
		w.Set(func(w *notificationstest.Workspace) { w.Down = true })
		v.post(workspace+"/delete").want(422, "could not be removed")
		w.Set(func(w *notificationstest.Workspace) { w.Down = false })
		v.post(workspace + "/delete").wantRedirect(servicesPage)
		if len(w.Revoked()) != 1 {
			t.Errorf("revoked: %v", w.Revoked())
		}
	})
}

func TestConnect_AnswersOnlyTheBrowserThatSetOut(t *testing.T) {
	s, w := withWorkspace(t, dbtest.New(t, db.SQLite))
	ada, other := signIn(t, s, "ada@acme.test"), signIn(t, s, "ada@acme.test")
	back := ada.toWorkspace(w, "tracker")
	const lost = "was started in another browser or took too long"
	other.get(back).want(400, lost)
	other.toWorkspace(w, "tracker")
	other.get(back).want(400, lost)
	ada.get(strings.Replace(back, "state=", "state=x", 1)).want(400, lost)
	ada.get(back).want(400, lost) // the failed attempt ended it

	back = ada.toWorkspace(w, "tracker")
	ada.get(back).want(303)
	ada.get(back).want(400, lost)

	back = ada.toWorkspace(w, "tracker")
	s.Clock.Advance(11 * time.Minute)
	ada.get(back).want(400, lost)

	// Permission is checked again on return.
	back = ada.toWorkspace(w, "tracker")
	s.Apply("organizations: [{slug: acme, members: [{email: ada@acme.test, role: member}, {email: bo@acme.test, role: admin}]}]")
	ada.get(back).want(404)
	ada.get("/settings/connect/acme/tracker").want(404)
	if n := s.As(t, servertest.Bo).Get(servicesAPI).Len("items"); n != 1 {
		t.Errorf("%d services", n)
	}
}

func TestConnect_ReportsWhenAProviderRefusesOrIsAway(t *testing.T) {
	s, w := withWorkspace(t, dbtest.New(t, db.SQLite))
	v := signIn(t, s, "ada@acme.test")
	v.get("/settings/connect/acme/webhook").want(404)
	v.get("/settings/connect/acme/x").want(404)
	w.Refuse("access_denied<b>")
	v.get(v.toWorkspace(w, "tracker")).want(403, "Tracker was not connected", "access_denied<b>")
	w.Refuse("")
	back := v.toWorkspace(w, "tracker")
	v.get(regexp.MustCompile(`code=[^&]*`).ReplaceAllString(back, "code=wrong")).want(422, "refused the connection", "invalid_grant")
	back = v.toWorkspace(w, "tracker")
	w.Set(func(w *notificationstest.Workspace) { w.Down = true })
	v.get(back).want(503, "does not answer as it should")
	if n := s.As(t, servertest.Ada).Get(servicesAPI).Len("items"); n != 0 {
		t.Errorf("%d services", n)
	}
}

func TestBrowser_CreatesANotificationService(t *testing.T) {
	s, w := withWorkspace(t, dbtest.New(t, db.SQLite))
	b := newBrowser(t, s.URL)
	b.open(servicesPage)
	b.signIn("ada@acme.test")
	b.see("Notification services", "No notification services yet")
	b.shoot("services-none")
	b.press("Webhook")
	b.see("New webhook")
	b.shoot("service-new")
	b.fill("URL", "https://user:pass@example.test/hook")
	b.press("Create service")
	b.see("URL must have no user name and no password")
	b.shoot("service-wrong")
	b.fill("URL", "https://example.test/hook")
	b.choose("job.finished")
	b.press("Create service")
	b.see("Notification service created.")
	b.shoot("service")
	b.open(servicesPage)
	b.press("Connect Chat Workspace")
	b.see("Chat Workspace connected.", "Acme Chat")
	b.shoot("service-connected")
	b.do(chromedp.Click(`//summary[normalize-space()="Delete"]`))
	b.press("Delete service")
	b.see("Notification service deleted.", "Webhook")
	b.shoot("services")
	if len(w.Revoked()) != 1 {
		t.Errorf("revoked: %v", w.Revoked())
	}
}
