package delivery_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications/mail"
	"stackyard/internal/domain/notifications/mail/mailtest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// test sends a test message and returns its record.
func (w *world) test(service string) *servertest.Response {
	w.t.Helper()
	made := w.ada.Post(services+"/"+service+"/test", nil).Want(http.StatusCreated)
	servertest.WantAt(w.t, made, fields{"event": "ping", "state": "pending", "attempts": 0, "build_id": nil})
	w.runDue()
	return w.ada.Get(made.String("url")).Want(http.StatusOK)
}

func TestTest_SendsAMessageOfEachKind(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, workspace := withWorkspace(t, d)
		server := mailtest.Start(t, mail.NoTLS)
		delivered := fields{"state": "delivered", "attempts": 1}

		mailed := w.service("smtp", fields{"server": server.Address, "from": "ci@acme.test", "tls": "none"}, nil).String("id")
		servertest.WantAt(t, w.test(mailed), delivered)
		if got := server.Received(); len(got) != 1 || got[0].To[0] != "ada@acme.test" || !strings.Contains(string(got[0].Body), "Subject: Test message from Stackyard") {
			t.Errorf("got %+v", got)
		}
		servertest.WantAt(t, w.test(w.webhook()), delivered)
		w.receiver.wantEvents("ping")
		hook := w.service("chat_webhook", fields{"url": w.receiver.URL, "theme": "emoji"}, nil).String("id")
		servertest.WantAt(t, w.test(hook), delivered)
		if text := w.receiver.take()[0].at("text"); text != ":wave: Test message from Stackyard: builds of Acme Inc will be reported here." {
			t.Errorf("got %q", text)
		}
		chat := w.connect("chat_workspace")
		servertest.WantAt(t, w.test(chat), fields{"state": "failed", "error": "no channel; set the setting channel"})
		w.settings(chat, fields{"channel": "#builds"})
		servertest.WantAt(t, w.test(chat), delivered)
		servertest.WantEqual(t, "messages", len(workspace.Messages()), 1)
		issues := w.connect("tracker")
		servertest.WantAt(t, w.test(issues), fields{"state": "delivered", "response.body": "The connection works. A test writes no issue."})
		servertest.WantEqual(t, "issues", len(workspace.Issues()), 0)
	})
}

func TestTest_ReportsWhatIsWrong(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		server := mailtest.Start(t, mail.NoTLS)
		server.Refuse(550)
		id := w.service("smtp", fields{"server": server.Address, "from": "ci@acme.test", "tls": "none"}, nil).String("id")
		if record := w.test(id); record.String("state") != "failed" || !strings.Contains(record.String("error"), "550") {
			t.Errorf("got %s", record.Body)
		}
		w.ada.Put(services+"/"+id+"/disable", nil).Want(http.StatusOK)
		w.ada.Post(services+"/"+id+"/test", nil).WantMessage(http.StatusUnprocessableEntity, "The notification service is not enabled; enable it first")
		log := w.service("event_log_api", fields{}, nil).String("id")
		w.ada.Post(services+"/"+log+"/test", nil).WantMessage(http.StatusUnprocessableEntity, "Services of the provider event_log_api have no test message")
		w.As(t, servertest.Bo).Post(services+"/"+id+"/test", nil).Want(http.StatusForbidden)
		w.As(t, servertest.Cy).Post(services+"/"+id+"/test", nil).Want(http.StatusNotFound)
	})
}

func TestTest_PutsAPingOnAnEventBus(t *testing.T) {
	eachAt(t, func(t *testing.T, w *world) {
		id := w.service("event_bus", fields{"cloud_region": "eu-west-1", "cloud_account_id": "123456789012"}, nil).String("id")
		w.test(id)
		if got := w.receiver.take(); len(got) != 1 || !strings.Contains(string(got[0].Body), `"DetailType":"Ping"`) {
			t.Errorf("got %v", got)
		}
	})
}

// Somebody who asks for a message does not wait until the rest of a receiver ends.
func TestTest_EndsTheRestOfAReceiver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respondWith(http.StatusTooManyRequests)
		w.build(nil)
		w.runDue()
		w.receiver.take()
		w.receiver.respondWith(http.StatusOK)
		servertest.WantAt(t, w.test(id), fields{"state": "delivered"})
		w.receiver.wantEvents("ping")
	})
}
