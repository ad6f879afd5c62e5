package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// newHook returns a webhook receiver, and what it answers with.
func newHook(t *testing.T) (url string, status *atomic.Int64) {
	status = &atomic.Int64{}
	status.Store(http.StatusOK)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		w.Write([]byte(`{"received": "<b>thanks</b>"}`))
	}))
	t.Cleanup(hook.Close)
	return hook.URL, status
}

func runDue(t *testing.T, s *servertest.Server) {
	t.Helper()
	if err := s.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDeliveries_AreShownAndSentAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		s.Apply(servertest.World)
		prepare(t, s)
		url, status := newHook(t)
		status.Store(http.StatusTeapot)
		ada, v := s.As(t, servertest.Ada), signIn(t, s, "ada@acme.test")
		service := ada.Post(servicesAPI, map[string]any{"provider": "webhook", "description": "Deploys", "settings": map[string]any{"url": url, "token": "a-secret-token"}}).Want(http.StatusCreated)
		at := acmeServices + "/" + service.String("id")
		v.get(at).want(200, "Deliveries", "ping", "pending", "Send test message")
		runDue(t, s)
		v.get(at).want(200, "failed", "the receiver answered with status 418", "status 418")

		status.Store(http.StatusOK)
		page := v.post(at + "/test").want(303).Header.Get("Location")
		v.get(page).want(200, "Test message on its way", "pending", "Nothing has been sent yet")
		runDue(t, s)
		shown := v.get(page).want(200, "Delivery of ping", "delivered", "POST "+url, "X-Service-Event", `"event": "ping"`, "Status 200", "<b>thanks</b>")
		if strings.Contains(shown.Body, "a-secret-token") {
			t.Error("the page shows the token")
		}
		again := v.post(page + "/redeliver").want(303).Header.Get("Location")
		runDue(t, s)
		v.get(again).want(200, "delivered", "Repeats", page[len(page)-36:])

		ada.Put(servicesAPI+"/"+service.String("id")+"/disable", nil).Want(http.StatusOK)
		v.post(page+"/redeliver").want(422, "The notification service is not enabled; enable it first")
		v.post(at+"/test").want(422, "The notification service is not enabled; enable it first")
		v.get(at).wantNot("Send test message")
		v.get(at+"/deliveries/"+service.String("id")).want(404, "Delivery not found")
		v.get(at + "/deliveries/nonsense").want(404)
		for _, other := range []string{"bo@acme.test", "cy@rival.test"} {
			o := signIn(t, s, other)
			o.get(page).want(404)
			o.post(page + "/redeliver").want(404)
			o.post(at + "/test").want(404)
		}
		log := ada.Post(servicesAPI, map[string]any{"provider": "event_log_api"}).Want(http.StatusCreated).String("id")
		v.get(acmeServices+"/"+log).want(200).wantNot("Deliveries", "Send test message")
	})
}

func TestBuild_ShowsItsNotifications(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := servertest.Start(t, d)
		s.Apply(servertest.World)
		prepare(t, s)
		url, status := newHook(t)
		status.Store(http.StatusServiceUnavailable)
		build(t, s, `{steps: [{command: a, if: "false"}], notify: [{webhook: "`+url+`/hook?key=secret"}]}`)
		v := signIn(t, s, "ada@acme.test")
		runDue(t, s)
		v.get("/acme/hello/builds/1").want(200, "Notifications", "webhook", url+"/hook", "retrying", "the receiver answered with status 503").wantNot("key=secret")
	})
}

func TestBrowser_SendsADeliveryAgain(t *testing.T) {
	s := servertest.Start(t, dbtest.New(t, db.SQLite))
	s.Apply(servertest.World)
	prepare(t, s)
	url, status := newHook(t)
	ada := s.As(t, servertest.Ada)
	service := ada.Post(servicesAPI, map[string]any{"provider": "webhook", "description": "Deploys", "settings": map[string]any{"url": url, "events": []string{"build.scheduled"}}}).Want(http.StatusCreated)
	runDue(t, s)
	status.Store(http.StatusServiceUnavailable)
	build(t, s, `{steps: [{command: a}], notify: [{webhook: "`+url+`/hook"}]}`)
	runDue(t, s)
	status.Store(http.StatusNotFound)
	build(t, s, `{steps: [{command: a, if: "false"}], notify: [{webhook: "`+url+`/hook"}, {email: team@acme.test}]}`)
	runDue(t, s)
	status.Store(http.StatusOK)
	b := newBrowser(t, s.URL)
	b.open(acmeServices + "/" + service.String("id"))
	b.signIn("ada@acme.test")
	b.see("Deliveries", "retrying", "status 503")
	b.audit("service-deliveries")
	b.press("ping")
	b.see("Request", "Response", "thanks")
	b.audit("delivery")
	b.press("Send again")
	b.see("Sending again.", "Nothing has been sent yet")
	b.audit("delivery-pending")
	b.open("/acme/hello/builds/2")
	b.see("Notifications", "status 404")
	b.audit("build-notifications")
}
