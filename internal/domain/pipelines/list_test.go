package pipelines_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// slugs returns the slugs of a list, in its order.
func slugs(t *testing.T, r *servertest.Response) string {
	t.Helper()
	var pipelines []struct{ Slug string }
	r.Want(http.StatusOK).JSON(&pipelines)
	list := make([]string, len(pipelines))
	for i, p := range pipelines {
		list[i] = p.Slug
	}
	return strings.Join(list, " ")
}

func TestList_FiltersByNameAndRepository(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for name, repository := range map[string]string{
			"Apple Pie":   "git@github.com:Acme/apple.git",
			"Banana":      "https://github.com/acme/banana",
			"100% Cherry": "/srv/git/cherry_tree.git",
			"Ünder":       "https://git.example.test/acme/under.git",
			"App":         "https://git.example.test/acme/app.git",
			"App Two":     "https://git.example.test/acme/app-two.git",
			"Apptwo":      "https://git.example.test/acme/apptwo.git",
		} {
			ada.Post(path, yaml(name, map[string]any{"repository": repository})).Want(http.StatusCreated)
		}
		for _, c := range []struct{ query, want string }{
			{"", "100-cherry app app-two apple-pie apptwo banana hello under"},
			{"name=AN", "banana"},
			{"name=pple+p", "apple-pie"},
			{"name=%25", "100-cherry"},
			{"name=_", ""},
			{"name=%C3%9CNDER", "under"},
			{"name=nothing", ""},
			{"repository=APPLE", "apple-pie"},
			{"repository=github.com", "apple-pie banana"},
			{"repository=" + url.QueryEscape("git@github.com:acme/Apple"), "apple-pie"},
			// A whole URL finds the other spellings of it.
			{"repository=" + url.QueryEscape("https://github.com/acme/apple.git"), "apple-pie"},
			{"repository=" + url.QueryEscape("https://robot:x@GitHub.com/acme/APPLE/"), "apple-pie"},
			{"repository=" + url.QueryEscape("git@github.com:acme/banana.git"), "banana"},
			{"repository=" + url.QueryEscape("ssh://git@ssh.github.com:443/acme/banana.git"), "banana"},
			{"repository=" + url.QueryEscape("git@git.example.test:acme/app.git"), "app"},
			{"repository=" + url.QueryEscape("git@git.example.test:acme/ap.git"), ""},
			{"repository=.git", "100-cherry app app-two apple-pie apptwo hello under"},
			{"repository=app.git", "app"},
			{"repository=APP.GIT", "app"},
			{"repository=app", "app app-two apple-pie apptwo"},
			{"repository=" + url.QueryEscape("acme/app.git git"), ""},
			{"repository=cherry_tree", "100-cherry"},
			{"repository=cherry%5Ctree", ""},
			{"name=a&repository=github", "apple-pie banana"},
			{"name=&repository=", "100-cherry app app-two apple-pie apptwo banana hello under"},
		} {
			if got := slugs(t, ada.Get(path+"?"+c.query)); got != c.want {
				t.Errorf("%s: %q, want %q", c.query, got, c.want)
			}
		}
	})
}

func TestList_FiltersByCreationNewestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		begin := s.Clock.Now().Truncate(time.Second)
		at := func(seconds int) string {
			return url.QueryEscape(begin.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339))
		}
		for _, name := range []string{"C", "A", "B"} {
			s.Clock.Advance(10 * time.Second)
			ada.Post(path, yaml(name, nil)).Want(http.StatusCreated)
		}
		for _, c := range []struct{ query, want string }{
			{"created_from=" + at(5), "b a c"},
			{"created_from=" + at(15), "b a"},
			{"created_from=" + at(5) + "&created_to=" + at(25), "a c"},
			{"created_to=" + at(15), "c hello"},
			{"created_from=2000-01-01&name=a", "a"},
			{"created_from=2000-01-01T00:00:00", "b a c hello"},
			{"created_from=2999-01-01", ""},
		} {
			if got := slugs(t, ada.Get(path+"?"+c.query)); got != c.want {
				t.Errorf("%s: %q, want %q", c.query, got, c.want)
			}
		}
		for _, bad := range []string{"created_from=yesterday", "created_to=1", "archived=maybe", "page=0", "per_page=101", "per_page=x", "name=%00", "name=%FF", "name=" + strings.Repeat("x", 3000)} {
			ada.Get(path + "?" + bad).Want(http.StatusBadRequest)
		}
	})
}

func TestList_HidesArchivedPipelinesUnlessRequested(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		ada.Post(path, yaml("Old", nil)).Want(http.StatusCreated)
		ada.Post(path+"/old/archive", nil).Want(http.StatusOK)
		wantEqual(t, "by default", slugs(t, ada.Get(path)), "hello")
		wantEqual(t, "archived=false", slugs(t, ada.Get(path+"?archived=false")), "hello")
		wantEqual(t, "archived=true", slugs(t, ada.Get(path+"?archived=true")), "hello old")
	})
}

func TestList_ComesInPages(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, name := range []string{"A", "B", "C", "D"} {
			ada.Post(path, yaml(name, nil)).Want(http.StatusCreated)
		}
		wantEqual(t, "first", slugs(t, ada.Get(path+"?per_page=2")), "a b")
		second := ada.Get(path + "?per_page=2&page=2")
		wantEqual(t, "second", slugs(t, second), "c d")
		link := second.Header.Get("Link")
		for _, want := range []string{`?page=3&per_page=2>; rel="next"`, `?page=3&per_page=2>; rel="last"`, `?page=1&per_page=2>; rel="first"`, `?page=1&per_page=2>; rel="prev"`} {
			if !strings.Contains(link, want) {
				t.Errorf("Link %q lacks %q", link, want)
			}
		}
		wantEqual(t, "last", slugs(t, ada.Get(path+"?per_page=2&page=3")), "hello")
		wantEqual(t, "beyond", slugs(t, ada.Get(path+"?per_page=2&page=4")), "")
	})
}

// A page of pipelines that would be too large is refused, with advice what to request instead.
func TestList_BoundsTheBytesOfAPage(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for i := range 9 {
			ada.Post("/v2/organizations/acme/pipelines", map[string]any{
				"name": fmt.Sprintf("Large %d", i), "repository": "https://git.example.test/large.git",
				"cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: a}]",
			}).Want(http.StatusCreated)
		}
		err := s.DB.Write(t.Context(), func(q *db.Q) error {
			_, err := q.Exec(`UPDATE pipelines SET configuration = $1 WHERE slug LIKE 'large-%'`, strings.Repeat("#", 8<<20))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		ada.Get("/v2/organizations/acme/pipelines").WantMessage(http.StatusBadRequest, "This page has more than 67108864 bytes; ask for fewer items at a time with per_page")
		ada.Get("/v2/organizations/acme/pipelines?per_page=2").Want(http.StatusOK)
	})
}
