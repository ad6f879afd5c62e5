package notifications_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// ids returns those of a page's items.
func ids(page *servertest.Response) []string {
	list := []string{}
	for i := range page.Len("items") {
		list = append(list, page.String(fmt.Sprintf("items.%d.id", i)))
	}
	return list
}

func TestList_PagesOldestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		empty := ada.Get(path).Want(http.StatusOK)
		wantEqual(t, "no services", empty.At("items"), any([]any{}))
		wantEqual(t, "self", empty.At("links.self"), s.URL+path)
		wantEqual(t, "next", empty.At("links.next"), nil)
		var all []string
		for i := range 35 {
			all = append(all, ada.Post(path, with(service("event_log_api", nil), body{"description": fmt.Sprint(i)})).Want(http.StatusCreated).String("id"))
			if i%3 == 0 { // others are created at the same moment
				s.Clock.Advance(1e6)
			}
		}
		s.As(t, servertest.Cy).Post(rivalPath, service("webhook", nil)).Want(http.StatusCreated)

		first := ada.Get(path).Want(http.StatusOK)
		wantEqual(t, "first page", ids(first), all[:30])
		second := ada.Get(first.String("links.next")).Want(http.StatusOK)
		wantEqual(t, "second page", ids(second), all[30:])
		wantEqual(t, "next of the last page", second.At("links.next"), nil)
		wantEqual(t, "self of the second page", second.At("links.self"), first.At("links.next"))
		wantEqual(t, "all on one page", ids(ada.Get(path+"?per_page=100").Want(http.StatusOK)), all)

		for _, size := range []int{1, 7, 35, 36} {
			var walked []string
			for next := any(fmt.Sprintf("%s%s?per_page=%d", s.URL, path, size)); next != nil; {
				page := ada.Get(next.(string)).Want(http.StatusOK)
				if n := page.Len("items"); n > size {
					t.Fatalf("a page of %d has %d items", size, n)
				}
				walked = append(walked, ids(page)...)
				next = page.At("links.next")
			}
			wantEqual(t, fmt.Sprintf("pages of %d", size), walked, all)
		}
		// Backwards, pages are oldest first too.
		after, err := url.Parse(first.String("links.next"))
		if err != nil {
			t.Fatal(err)
		}
		cursor := url.QueryEscape(after.Query().Get("after"))
		wantEqual(t, "before the 30th", ids(ada.Get(path+"?before="+cursor).Want(http.StatusOK)), all[:29])
		wantEqual(t, "ten before the 30th", ids(ada.Get(path+"?per_page=10&before="+cursor).Want(http.StatusOK)), all[19:29])
		// A cursor outlives what it points at.
		ada.Delete(path + "/" + all[29]).Want(http.StatusNoContent)
		wantEqual(t, "after what was deleted", ids(ada.Get(path+"?after="+cursor).Want(http.StatusOK)), all[30:])

		for _, query := range []string{
			"per_page=0", "per_page=101", "per_page=-1", "per_page=x", "per_page=", "per_page=1.5",
			"after=" + cursor + "&before=" + cursor, "after=&before=", "after=x", "after=", "before=AAAA", "before=%F0%9F%98%80",
			"after=" + url.QueryEscape(core.Cursor{"notification services of someone", "1", "x"}.String()),
			"after=" + url.QueryEscape(core.Cursor{"1", "x"}.String()),
		} {
			ada.Get(path + "?" + query).Want(http.StatusBadRequest)
		}
		wantEqual(t, "message", ada.Get(path+"?after="+cursor+"&before="+cursor).String("message"), "after and before cannot be used together")
		s.As(t, servertest.Cy).Get(rivalPath + "?after=" + cursor).Want(http.StatusBadRequest)
	})
}

func TestAccess_IsForAdministratorsUnlessMembersManageServices(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo, cy := s.As(t, servertest.Ada), s.As(t, servertest.Bo), s.As(t, servertest.Cy)
		id := ada.Post(path, service("webhook", nil)).Want(http.StatusCreated).String("id")
		type request struct {
			method, path string
			body         any
			status       int
		}
		requests := []request{
			{"GET", path, nil, http.StatusOK},
			{"GET", path + "/" + id, nil, http.StatusOK},
			{"POST", path, service("webhook", nil), http.StatusCreated},
			{"PATCH", path + "/" + id, body{"description": "x"}, http.StatusOK},
			{"PUT", path + "/" + id + "/disable", nil, http.StatusOK},
			{"PUT", path + "/" + id + "/enable", nil, http.StatusOK},
			{"DELETE", path + "/" + id, nil, http.StatusNoContent},
		}
		for _, r := range requests {
			refused := bo.Do(r.method, r.path, r.body).Want(http.StatusForbidden)
			if !strings.Contains(refused.String("message"), "manage_notification_services") {
				t.Errorf("%s %s: %s", r.method, r.path, refused.Body)
			}
			cy.Do(r.method, r.path, r.body).Want(http.StatusNotFound)
		}
		// Permission comes before the resource and the body.
		bo.Get(path + "/" + core.NewID()).Want(http.StatusForbidden)
		bo.Post(path, "{").Want(http.StatusForbidden)
		for _, r := range requests[1:] {
			if r.method == http.MethodPost {
				continue
			}
			// Another organization's service, a malformed id and an unknown one are all unknown, whatever the body is.
			cy.Do(r.method, strings.Replace(r.path, "/acme/", "/rival/", 1), body{"description": 7}).WantMessage(http.StatusNotFound, missing)
			for _, other := range []string{core.NewID(), "nonsense", "1"} {
				ada.Do(r.method, strings.Replace(r.path, id, other, 1), "{").WantMessage(http.StatusNotFound, missing)
			}
		}
		ada.Get(path + "/" + strings.ToUpper(id)).Want(http.StatusOK)

		s.Apply(`
organizations:
  - slug: acme
    members:
      - email: ada@acme.test
        access_tokens:
          - {description: read, token: svcua_read, scopes: [read_notification_services]}
          - {description: write, token: svcua_write, scopes: [write_notification_services]}
`)
		for _, r := range requests {
			allowed, refused, scope := "svcua_write", "svcua_read", "write_notification_services"
			if r.method == http.MethodGet {
				allowed, refused, scope = refused, allowed, "read_notification_services"
			}
			message := s.As(t, refused).Do(r.method, r.path, r.body).Want(http.StatusForbidden).String("message")
			if !strings.Contains(message, scope) {
				t.Errorf("%s %s: %q does not name %s", r.method, r.path, message, scope)
			}
			if r.method != http.MethodDelete {
				s.As(t, allowed).Do(r.method, r.path, r.body).Want(r.status)
			}
		}
		s.Apply("organizations: [{slug: acme, features: {members_manage_notification_services: true}}]")
		for _, r := range requests {
			bo.Do(r.method, r.path, r.body).Want(r.status)
		}
		mine := bo.Post(path, service("webhook", nil)).Want(http.StatusCreated)
		wantEqual(t, "created_by", mine.At("created_by.id"), servertest.BoID)
		cy.Get(path).Want(http.StatusNotFound)
		s.As(t, "").Get(path).Want(http.StatusUnauthorized)
	})
}
