package notifications_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/domain/notifications/notificationstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/identity"
)

// connected starts a server with a configured chat and connects a workspace.
func connected(t *testing.T, d *db.DB, expiresIn int) (*servertest.Server, *notificationstest.Workspace, *notifications.Service, *notifications.Receiver) {
	t.Helper()
	w := notificationstest.NewWorkspace(t)
	w.ExpiresIn = expiresIn
	connections := notifications.Connections{Chat: w.Connection()}
	s := servertest.Start(t, d, func(p *server.Parts) { p.Connections = connections })
	s.Apply(servertest.World)
	service := notifications.New(s.DB, s.Key, core.PublicURL(s.URL), s.Clock.Now, connections)
	return s, w, service, authorize(t, s, service, "chat_workspace")
}

// authorize connects a provider the way a browser does.
func authorize(t *testing.T, s *servertest.Server, service *notifications.Service, provider string) *notifications.Receiver {
	t.Helper()
	p := notifications.ProviderByID(provider)
	const verifier = "an-unguessable-verifier-of-at-least-43-characters"
	to, err := service.AuthorizeURL(p, "state", verifier)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil || !strings.HasPrefix(back.String(), s.URL+"/settings/connect/callback?") {
		t.Fatalf("the workspace sends the browser to %v, %v", back, err)
	}
	org, err := identity.NewDirectory(s.DB, s.Clock.Now).Organization(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	r, err := service.FinishConnecting(t.Context(), org, identity.User{ID: servertest.AdaID}, p, back.Query().Get("code"), verifier)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAccessToken_IsRefreshedOnceWhenItExpires(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, w, service, r := connected(t, d, 3600)
		first, err := service.AccessToken(t.Context(), r)
		if err != nil || !w.Works(first) {
			t.Fatalf("%q, %v", first, err)
		}
		s.Clock.Advance(30 * time.Minute)
		if again, err := service.AccessToken(t.Context(), r); err != nil || again != first {
			t.Errorf("the token is refreshed too early: %v", err)
		}
		s.Clock.Advance(30 * time.Minute)
		// Concurrent requests in two processes.
		other := notifications.New(s.DB, s.Key, core.PublicURL(s.URL), s.Clock.Now, notifications.Connections{Chat: w.Connection()})
		var got [8]string
		var asking sync.WaitGroup
		for i := range got {
			asking.Go(func() {
				process := service
				if i%2 == 1 {
					process = other
				}
				var err error
				if got[i], err = process.AccessToken(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		for _, token := range got {
			if token == first || token != got[0] {
				t.Errorf("tokens after the refresh: %q", got)
				break
			}
		}
		if !w.Works(got[0]) {
			t.Error("the new token does not work")
		}
		s.As(t, servertest.Ada).Patch(path+"/"+r.ID, body{"description": "Still ours"}).Want(http.StatusOK)
		s.Clock.Advance(2 * time.Hour)
		w.Set(func(w *notificationstest.Workspace) { w.Down = true })
		if _, err := service.AccessToken(t.Context(), r); core.KindOf(err) != core.Unavailable {
			t.Errorf("while the workspace is down: %v", err)
		}
		w.Set(func(w *notificationstest.Workspace) { w.Down = false })
		if third, err := service.AccessToken(context.Background(), r); err != nil || !w.Works(third) || third == got[0] {
			t.Errorf("%q, %v", third, err)
		}
	})
}

func TestDelete_RevokesTheAccessToken(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, w, service, r := connected(t, d, 0)
		ada := s.As(t, servertest.Ada)
		token, err := service.AccessToken(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		at := path + "/" + r.ID
		w.Set(func(w *notificationstest.Workspace) { w.Down = true })
		refused := ada.Delete(at).Want(http.StatusUnprocessableEntity)
		if !strings.HasPrefix(refused.String("message"), "The configuration at Chat Workspace could not be removed: it answers with status 502.") {
			t.Errorf("%s", refused.Body)
		}
		ada.Get(at).Want(http.StatusOK)
		w.Set(func(w *notificationstest.Workspace) { w.Down = false })
		ada.Delete(at).Want(http.StatusNoContent)
		wantEqual(t, "revoked", w.Revoked(), []string{token})
		again := authorize(t, s, service, "chat_workspace")
		if token, err = service.AccessToken(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		ada.Get(path + "/" + again.ID).Want(http.StatusOK)
		hook := authorize(t, s, service, "chat_webhook")
		wantEqual(t, "settings of a connected chat webhook", ada.Get(path+"/"+hook.ID).At("settings"), any(body{"theme": "text", "channel": "#builds", "workspace_name": "Acme Chat"}))
		w.Close()
		ada.Delete(path + "/" + hook.ID).Want(http.StatusNoContent) // there is nothing to revoke
		if message := ada.Delete(path + "/" + again.ID).Want(http.StatusUnprocessableEntity).String("message"); strings.Contains(message, token) || !strings.Contains(message, "it does not answer") {
			t.Errorf("%q", message)
		}
	})
}
