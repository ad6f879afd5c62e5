package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
)

func TestDeliveries_ShowRequestsAndResponses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.service("webhook", fields{"url": w.receiver.URL + "/hook", "token": "top-secret", "events": []string{"build.scheduled"}}, nil).String("id")
		w.receiver.respondWith(201)
		build := w.build(nil)
		w.runDue()
		list := w.deliveries(id)
		servertest.WantAt(t, list, fields{"items.0.event": "build.scheduled", "items.1.event": "ping", "items.0.state": "delivered", "items.0.build_id": build.String("id"), "items.0.redelivery_of": nil})
		if list.Has("items.0.request") {
			t.Error("the list has requests")
		}
		one := w.ada.Get(list.String("items.0.url")).Want(200)
		servertest.WantAt(t, one, fields{
			"request.method": "POST", "request.url": w.receiver.URL + "/hook", "request.headers.X-Service-Event": "build.scheduled",
			"request.headers.X-Service-Token": "********", "request.headers.X-Buildkite-Token": "********",
			"response.status": 201, "response.body": "answer to build.scheduled", "status": 201,
		})
		if body := one.String("request.body"); !strings.Contains(body, build.String("id")) {
			t.Errorf("request body %.100q", body)
		}
		if strings.Contains(string(one.Body), "top-secret") {
			t.Error("the record has the token")
		}
		servertest.WantEqual(t, "id", one.String("id"), w.receiver.take()[1].Get("X-Service-Delivery"))
	})
}

func TestDeliveries_ArePaged(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		for range 4 {
			w.build(nil)
		}
		w.runDue()
		w.receiver.respondWith(500)
		w.build(nil)
		w.runDue()
		first := w.ada.Get(services + "/" + id + "/deliveries?per_page=4").Want(200)
		servertest.WantAt(t, first, fields{"items.0.state": "pending", "items.1.state": "delivered"})
		second := w.ada.Get(first.String("links.next")).Want(200)
		servertest.WantEqual(t, "items of the second page", second.Len("items"), 2)
		servertest.WantAt(t, second, fields{"items.1.event": "ping"})
		back := w.ada.Get(second.String("links.prev")).Want(200)
		servertest.WantEqual(t, "first item", back.String("items.0.id"), first.String("items.0.id"))
		for _, query := range []string{"?after=nonsense", "?per_page=0", "?after=a&before=b"} {
			w.ada.Get(services + "/" + id + "/deliveries" + query).Want(400)
		}
	})
}

func TestRedeliver_SendsTheSameEventUnderAnotherID(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.receiver.respondWith(404)
		build := w.build(nil)
		w.runDue()
		failed := w.receiver.take()[0]
		w.finish(build, "0")
		w.receiver.respondWith(200)
		path := services + "/" + id + "/deliveries/" + failed.Get("X-Service-Delivery")
		again := w.ada.Post(path+"/redeliver", nil).Want(201)
		servertest.WantAt(t, again, fields{"state": "pending", "attempts": 0, "event": "build.scheduled", "redelivery_of": failed.Get("X-Service-Delivery")})
		w.runDue()
		got := w.receiver.take()
		if len(got) != 1 {
			t.Fatalf("%d requests, want 1", len(got))
		}
		servertest.WantEqual(t, "id", got[0].Get("X-Service-Delivery"), again.String("id"))
		got[0].want(fields{"event": "build.scheduled", "build.state": "scheduled", "build.id": build.String("id")})

		w.ada.Put(services+"/"+id+"/disable", nil).Want(200)
		w.ada.Post(path+"/redeliver", nil).WantMessage(422, "The notification service is not enabled; enable it first")
		w.ada.Put(services+"/"+id+"/enable", nil).Want(200)
		w.ada.Post(services+"/"+id+"/deliveries/"+core.NewID()+"/redeliver", nil).WantMessage(404, "No delivery found")
		w.Clock.Advance(events.DefaultKeep + time.Hour)
		w.runDue() // removes the event
		w.ada.Post(path+"/redeliver", nil).WantMessage(422, "The event of this delivery is not kept any more")
	})
}

func TestRedeliver_SendsPings(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook()
		ping := w.deliveries(id).String("items.0.id")
		w.ada.Post(services+"/"+id+"/deliveries/"+ping+"/redeliver", nil).Want(201)
		w.runDue()
		w.receiver.wantEvents("ping")
	})
}

func TestDeliveries_AreForThoseWhoManageServices(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		path := services + "/" + w.webhook() + "/deliveries"
		w.As(t, servertest.Bo).Get(path).Want(403)
		w.As(t, servertest.Cy).Get(path).Want(404)
		w.As(t, servertest.Cy).Get(strings.Replace(path, "acme", "rival", 1)).Want(404)
		w.ada.Get(services + "/" + core.NewID() + "/deliveries").Want(404)
	})
}

func TestChatWebhook_SendsReadableMessagesInBothThemes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		all := fields{"build_passed": true, "build_failed": true, "build_blocked": true, "build_canceled": true, "build_failing": true, "job_activated": true, "build_fixed": true}
		var id string
		for _, theme := range []string{"text", "emoji"} {
			id = w.service("chat_webhook", fields{"url": w.receiver.URL + "/secret-" + theme, "theme": theme}, fields{"build_states": all}).String("id")
		}
		messages := func() map[string]*request {
			t.Helper()
			w.runDue()
			byTheme := map[string]*request{}
			for _, r := range w.receiver.take() {
				byTheme[strings.TrimPrefix(r.Path, "/secret-")] = r
			}
			if len(byTheme) != 2 {
				t.Fatalf("%d messages, want one for each theme", len(byTheme))
			}
			return byTheme
		}
		build := w.build(fields{"message": "Fix <it> & that\n\nwith a body", "commit": strings.Repeat("ab", 20)}, "{command: a}")
		w.finish(build, "1")
		got := messages()
		got["text"].want(fields{"text": "Build Hello #1 failed"})
		got["emoji"].want(fields{"text": ":x: Build Hello #1 failed"})
		for theme, r := range got {
			body := string(r.Body)
			for _, want := range []string{`"color":"#dc2626"`, fmt.Sprintf(`*\u003c%s|Hello #1\u003e* failed`, build.String("web_url")), `Fix \u0026lt;it\u0026gt; \u0026amp; that`, `main · ababababab · Ada`} {
				if !strings.Contains(body, want) {
					t.Errorf("%s: no %q in %s", theme, want, body)
				}
			}
			if strings.Contains(body, "with a body") {
				t.Errorf("%s has the whole message: %s", theme, body)
			}
		}
		w.finish(w.build(nil), "0")
		messages()["text"].want(fields{"text": "Build Hello #2 passed and is fixed"})
		build = w.build(nil, "{block: Ship it}", "{command: a}")
		messages()["emoji"].want(fields{"text": ":hand: Build Hello #3 is blocked"})
		w.ada.Put("/v2/organizations/acme/jobs/"+build.String("jobs.0.id")+"/unblock", nil).Want(200)
		messages()["text"].want(fields{"text": "Step “Ship it” of build Hello #3 was unblocked"})

		one := w.ada.Get(w.deliveries(id).String("items.0.url")).Want(200)
		servertest.WantEqual(t, "recorded URL", one.String("request.url"), w.receiver.URL+"/********")
		if strings.Contains(string(one.Body), "secret-") {
			t.Error("the record has the secret URL")
		}
	})
}

func TestEventLog_IsReadByCursor(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.service("event_log_api", fields{"events": []string{"build.scheduled", "build.finished"}}, fields{"branch_configuration": "main"}).String("id")
		path := services + "/" + id + "/events"
		empty := w.ada.Get(path).Want(200)
		servertest.WantEqual(t, "events before any happened", empty.Len("items"), 0)
		var numbers []string
		for range 3 {
			build := w.build(nil)
			w.finish(build, "0")
			numbers = append(numbers, build.String("number"))
		}
		w.build(fields{"branch": "feature"})
		w.runDue()
		servertest.WantEqual(t, "requests", len(w.receiver.take()), 0)
		var got []string
		for cursor := empty.String("next_cursor"); ; {
			page := w.ada.Get(path + "?per_page=2&after=" + cursor).Want(200)
			for i := range page.Len("items") {
				at := fmt.Sprintf("items.%d.", i)
				got = append(got, page.String(at+"payload.build.number")+" "+page.String(at+"event")+" "+page.String(at+"payload.build.state"))
				servertest.WantEqual(t, "event in the payload", page.String(at+"payload.event"), page.String(at+"event"))
			}
			if page.Len("items") == 0 {
				break
			}
			cursor = page.String("next_cursor")
		}
		var want []string
		for _, number := range numbers {
			want = append(want, number+" build.scheduled scheduled", number+" build.finished passed")
		}
		servertest.WantEqual(t, "log", strings.Join(got, ", "), strings.Join(want, ", "))

		w.ada.Get(path + "?after=nonsense").Want(400)
		w.ada.Get(path + "?before=nonsense").Want(400)
		w.ada.Get(services + "/" + w.webhook() + "/events").Want(404)
		w.ada.Delete(servertest.HelloPath).Want(204)
		w.runDue()
		servertest.WantAt(t, w.ada.Get(path).Want(200), fields{"items.0.event": "build.scheduled", "items.0.payload": nil})
		w.ada.Put(services+"/"+id+"/disable", nil).Want(200)
		w.ada.Get(path).Want(404)
	})
}
