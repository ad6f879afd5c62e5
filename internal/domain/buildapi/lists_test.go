package buildapi_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
)

func TestLists_FilterBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "{block: Go, key: ask, branches: blocked}")
		bo := w.As(t, servertest.Bo)
		times := []string{""}
		for _, c := range []struct {
			by   *servertest.Client
			body map[string]any
		}{
			{w.Ada, map[string]any{"commit": "aaa", "branch": "main", "meta_data": map[string]any{"release": "1", "ready": "yes"}}},
			{w.Ada, map[string]any{"commit": "bbb", "branch": "feature/x", "meta_data": map[string]any{"release": "1"}}},
			{bo, map[string]any{"commit": "ccc", "branch": "feature/y", "meta_data": map[string]any{"release": "10"}}},
			{bo, map[string]any{"commit": "aaa", "branch": "blocked"}},
			{w.Ada, map[string]any{"commit": "ddd", "branch": "100%_x"}},
			{w.Ada, map[string]any{"commit": "eee", "branch": "100 x"}},
		} {
			w.Clock.Advance(time.Minute)
			times = append(times, w.Clock.Now().UTC().Format(time.RFC3339Nano))
			c.by.Post(hello, c.body).Want(http.StatusCreated)
		}
		w.Clock.Advance(time.Minute)
		w.Run(1, "a", 0) // 1 has passed
		w.Clock.Advance(time.Minute)
		w.Run(2, "a", 1)       // 2 has failed
		w.Start(w.Job(3, "a")) // 3 runs
		w.Run(4, "a", 0)       // 4 is blocked
		w.Ada.Put(hello+"/5/cancel", nil).Want(http.StatusOK)
		finished := w.Clock.Now().UTC().Format(time.RFC3339)

		q := url.QueryEscape
		for query, want := range map[string]string{
			"":                               "6 5 4 3 2 1",
			"branch=main":                    "1",
			"branch[]=main&branch[]=blocked": "4 1",
			"branch=feature/*":               "3 2",
			"branch[]=*x":                    "6 5 2",
			"branch=" + q("100%_x"):          "5",
			"branch=" + q("100%_*"):          "5",
			"branch=Main":                    "",
			"branch=ma":                      "",
			"commit=aaa":                     "4 1",
			"commit[]=aaa&commit[]=ccc":      "4 3 1",
			"commit=a":                       "",
			"creator=" + servertest.BoID:     "4 3",
			"creator=bo@acme.test":           "4 3",
			"creator=Bo":                     "4 3",
			"creator=nobody":                 "",
			"creator=" + strings.ToUpper(servertest.AdaID):               "6 5 2 1",
			"created_from=" + q(times[3]):                                "6 5 4 3",
			"created_to=" + q(times[3]):                                  "2 1",
			"created_from=" + q(times[2]) + "&created_to=" + q(times[4]): "3 2",
			"created_from=2000-01-01":                                    "6 5 4 3 2 1",
			"created_to=2000-01-01T00:00:00":                             "",
			"finished_from=" + q(finished):                               "5 2",
			"state=passed":                                               "1",
			"state[]=failed":                                             "2",
			"state=RUNNING":                                              "3",
			"state=blocked":                                              "4",
			"state=canceled":                                             "5",
			"state=scheduled":                                            "6",
			"state=finished":                                             "5 4 2 1",
			"state[]=running&state[]=scheduled":                          "6 3",
			"state[]=failing&state[]=canceling":                          "",
			"state[]=skipped&state[]=not_run&state[]=creating":           "",
			"meta_data[release]=1":                                       "2 1",
			"meta_data[release]=1&meta_data[ready]=yes":                  "1",
			q("meta_data[release]") + "=10":                              "3",
			"meta_data[release]=":                                        "",
			"branch=feature/*&state=failed&commit=bbb&creator=Ada":       "2",
			"include_paused=true":                                        "6 5 4 3 2 1",
		} {
			for _, path := range []string{hello, acme + "/builds", "/v2/builds"} {
				servertest.WantEqual(t, path+"?"+query, buildstest.Numbers(t, w.Ada.Get(path+"?"+query)), want)
			}
			w.Clock.Advance(time.Second) // for the rate limit
		}
		for query, message := range map[string]string{
			"state=x":                 "is not a state of a build",
			"state[]=passed&state[]=": "is not a state of a build",
			"created_from=x":          "created_from must be a time in ISO 8601",
			"created_to=yesterday":    "created_to must be a time in ISO 8601",
			"finished_from=1":         "finished_from must be a time in ISO 8601",
			"include_paused=x":        "include_paused must be true or false",
			"page=0":                  "page must be an integer from 1",
			"per_page=101":            "per_page must be an integer from 1 to 100",
			"per_page=x":              "per_page must be an integer",
			"page=1000&per_page=100":  "narrow the query",
		} {
			for _, path := range []string{hello, acme + "/builds", "/v2/builds"} {
				refused := w.Ada.Get(path + "?" + query).Want(http.StatusBadRequest)
				if !strings.Contains(refused.String("message"), message) {
					t.Errorf("%s?%s: got %s, want %q", path, query, refused.Body, message)
				}
			}
		}
	})
}

func TestLists_CanLeaveOutWhatWaitsForPausedQueues(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		queues := acme + "/clusters/" + servertest.AcmeClusterID + "/queues"
		paused := w.Ada.Post(queues, map[string]any{"key": "slow"}).Want(http.StatusCreated).String("id")
		w.Steps("{command: a, key: a, agents: {queue: slow}}", "{command: b, key: b, branches: mixed}", "wait", "{command: c, key: c}")
		w.Create(nil)                               // 1 waits for the paused queue alone
		w.Create(map[string]any{"branch": "mixed"}) // 2 does in part
		w.Create(nil)                               // 3 has ended
		w.Run(3, "a", 0)
		w.Run(3, "c", 0)
		w.Ada.Post(queues+"/"+paused+"/pause_dispatch", nil).Want(http.StatusOK)
		servertest.WantEqual(t, "all", buildstest.Numbers(t, w.Ada.Get(hello)), "3 2 1")
		list := w.Ada.Get(hello + "?include_paused=false")
		servertest.WantEqual(t, "not paused", buildstest.Numbers(t, list), "3 2")
		var builds []struct{ Jobs []buildstest.Job }
		list.JSON(&builds)
		servertest.WantEqual(t, "jobs of the ended one", buildstest.Describe(builds[0].Jobs), "a passed, b broken, waiter passed, c passed")
		servertest.WantEqual(t, "jobs of the mixed one", buildstest.Describe(builds[1].Jobs), "b scheduled, waiter waiting, c waiting")
	})
}

var linked = regexp.MustCompile(`<([^>]+)>; rel="([a-z]+)"`)

// links are those of a page, by their relation.
func links(r *servertest.Response) map[string]string {
	found := make(map[string]string)
	for _, match := range linked.FindAllStringSubmatch(r.Header.Get("Link"), -1) {
		found[match[2]] = match[1]
	}
	return found
}

func TestLists_PageWithTheirFilters(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for i := range 7 {
			w.Clock.Advance(time.Second)
			w.Create(map[string]any{"branch": []string{"a,b;c", "other"}[min(i%4, 1)]})
			w.Create(map[string]any{"branch": "x"})
		}
		for _, path := range []string{hello, acme + "/builds", "/v2/builds"} {
			url, pages := w.URL+path+"?branch[]=x&branch[]=other&per_page=5&exclude_jobs=true&state=scheduled", []string{}
			var page *servertest.Response
			for url != "" {
				page = w.Ada.Get(url).Want(http.StatusOK)
				pages = append(pages, buildstest.Numbers(t, page))
				url = links(page)["next"]
				if url != "" && strings.ContainsAny(url, ",;") {
					t.Errorf("the link %s has commas or semicolons", url)
				}
			}
			servertest.WantEqual(t, path, strings.Join(pages, " | "), "14 13 12 11 10 | 8 7 6 5 4 | 3 2")
			servertest.WantEqual(t, "jobs", page.Has("0.jobs"), false)
			back := links(page)
			servertest.WantEqual(t, "prev", buildstest.Numbers(t, w.Ada.Get(back["prev"])), "8 7 6 5 4")
			servertest.WantEqual(t, "first", buildstest.Numbers(t, w.Ada.Get(back["first"])), "14 13 12 11 10")
			servertest.WantEqual(t, "the only page", w.Ada.Get(path).Header.Get("Link"), "")
			servertest.WantEqual(t, "beyond", buildstest.Numbers(t, w.Ada.Get(path+"?page=9")), "")
			full := w.Ada.Get(path + "?per_page=14")
			servertest.WantEqual(t, "next of a full last page", links(full)["next"], "")
		}
	})
}

func TestLists_ShowThirtyBuildsUnlessMoreAreRequested(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for range 31 {
			buildstest.PostBuild(t, w.URL+hello)
		}
		servertest.WantEqual(t, "a page", w.Ada.Get(hello+"?exclude_jobs=1").Len(""), 30)
		servertest.WantEqual(t, "a large page", w.Ada.Get(hello+"?per_page=100&exclude_jobs=1").Len(""), 31)
	})
}

func TestLists_ShowBuildsOfAllOrganizationsOfTheToken(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply(`
organizations:
  - slug: second
    name: Second
    members:
      - {email: ada@acme.test, role: admin, access_tokens: [{description: second, token: svcua_second, scopes: ["*"]}]}
    clusters: [{name: Default, default: true, queues: [{key: default, default: true}]}]
    pipelines:
      - {slug: hello, name: Hello, repository: "https://git.example.test/second/hello.git", cluster: Default, configuration: "steps: [command: x]"}
`)
		w.Create(nil)
		w.Clock.Advance(time.Second)
		second := w.As(t, "svcua_second")
		second.Post("/v2/organizations/second/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		w.Clock.Advance(time.Second)
		w.Create(nil)
		slugs := func(c *servertest.Client) string {
			var builds []struct{ URL string }
			c.Get("/v2/builds").Want(http.StatusOK).JSON(&builds)
			var found []string
			for _, b := range builds {
				found = append(found, strings.Split(b.URL, "/")[5])
			}
			return strings.Join(found, " ")
		}
		first, other := slugs(w.Ada), slugs(second)
		if !slices.Contains([]string{"acme acme", "acme second acme"}, first) || !slices.Contains([]string{"second", "acme second acme"}, other) {
			t.Errorf("Ada's tokens see the builds of %q and %q", first, other)
		}
		w.Apply("organizations: [{slug: acme, suspended: true}]")
		if got := slugs(w.Ada); strings.Contains(got, "acme") {
			t.Errorf("builds of a suspended organization are listed: %q", got)
		}
	})
}
