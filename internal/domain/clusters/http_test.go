package clusters_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const (
	acme  = "/v2/organizations/acme/clusters"
	rival = "/v2/organizations/rival/clusters"
	// home is acme's first cluster, with one queue, one agent token and one pipeline.
	home = acme + "/" + servertest.AcmeClusterID
)

// newCluster creates a cluster in acme and returns its path.
func newCluster(ada *servertest.Client, name string) string {
	return acme + "/" + ada.Post(acme, map[string]any{"name": name}).Want(http.StatusCreated).String("id")
}

// body is a request body.
type body = map[string]any

func TestClusters_ShowEveryField(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := ada.Post(acme, body{
			"name": "Macs", "description": "Under the desk", "emoji": ":desktop_computer:", "color": "#A9CCE3",
			"maintainers": []body{{"user": servertest.BoID}, {"team": servertest.AcmeTeamID}},
		}).Want(http.StatusCreated)
		id := made.String("id")
		if _, ok := core.ParseID(id); !ok {
			t.Errorf("the id %q is not a UUID", id)
		}
		for path, want := range map[string]any{
			"graphql_id":                      core.GraphQLID("Cluster", id),
			"default_queue_id":                nil,
			"name":                            "Macs",
			"description":                     "Under the desk",
			"emoji":                           ":desktop_computer:",
			"color":                           "#A9CCE3",
			"url":                             s.URL + acme + "/" + id,
			"web_url":                         s.URL + "/organizations/acme/clusters/" + id,
			"queues_url":                      s.URL + acme + "/" + id + "/queues",
			"default_queue_url":               nil,
			"created_at":                      s.Clock.Now().Format("2006-01-02T15:04:05.000Z"),
			"created_by.id":                   servertest.AdaID,
			"created_by.graphql_id":           core.GraphQLID("User", servertest.AdaID),
			"created_by.name":                 "Ada",
			"created_by.email":                "ada@acme.test",
			"maintainers.users.0.actor.id":    servertest.BoID,
			"maintainers.users.0.actor.type":  "user",
			"maintainers.users.0.actor.email": "bo@acme.test",
			"maintainers.teams.0.actor.id":    servertest.AcmeTeamID,
			"maintainers.teams.0.actor.type":  "team",
			"maintainers.teams.0.actor.slug":  "everyone",
			"hosted_git_mirror_enabled":       false,
			"hosted_container_cache_enabled":  false,
		} {
			if got := made.At(path); got != want {
				t.Errorf("%s is %v, want %v", path, got, want)
			}
		}
		if got := ada.Get(acme + "/" + id).Want(http.StatusOK); string(got.Body) != string(made.Body) {
			t.Errorf("get shows %s\ncreate showed %s", got.Body, made.Body)
		}
		first := ada.Get(home).Want(http.StatusOK)
		if first.String("default_queue_id") != servertest.AcmeQueueID || first.String("default_queue_url") != s.URL+home+"/queues/"+servertest.AcmeQueueID {
			t.Errorf("the default queue is not shown: %s", first.Body)
		}
		if first.At("created_by") != nil || first.At("emoji") != nil || first.Len("maintainers.users") != 0 || first.Len("maintainers.teams") != 0 {
			t.Errorf("what is not there is not shown as such: %s", first.Body)
		}
	})
}

func TestClusters_AreListedInPagesOldestFirst(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for _, name := range []string{"Zinc", "Alum", "Mica"} {
			s.Clock.Advance(time.Second)
			newCluster(ada, name)
		}
		var names []string
		next := acme + "?per_page=2"
		for next != "" {
			page := ada.Get(next).Want(http.StatusOK)
			for i := range page.Len("") {
				names = append(names, page.String(fmt.Sprint(i, ".name")))
			}
			link := page.Header.Get("Link")
			next = ""
			if before, _, ok := strings.Cut(link, `>; rel="next"`); ok {
				next = before[strings.LastIndex(before, "<")+1:]
			}
		}
		if got := strings.Join(names, " "); got != "Default Zinc Alum Mica" {
			t.Errorf("listed are %s", got)
		}
		if got := s.As(t, servertest.Cy).Get(rival).Want(http.StatusOK); got.Len("") != 1 || got.String("0.id") != servertest.RivalClusterID {
			t.Errorf("rival sees %s", got.Body)
		}
		ada.Get(acme + "?per_page=101").Want(http.StatusBadRequest)
	})
}

func TestCreateCluster_MakesNoQueueAndNoToken(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		made := newCluster(ada, "Empty")
		for _, list := range []string{"/queues", "/tokens", "/secrets", "/maintainers"} {
			if got := ada.Get(made + list).Want(http.StatusOK); string(got.Body) != "[]\n" {
				t.Errorf("%s: %s", list, got.Body)
			}
		}
	})
}

func TestCreateCluster_ReportsProblems(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		maintained := func(entries ...body) body { return body{"name": "New", "maintainers": entries} }
		for _, c := range []struct {
			body        any
			field, text string
		}{
			{nil, "name", "is required"},
			{body{"name": nil}, "name", "is required"},
			{body{"name": "\t "}, "name", "is required"},
			{body{"name": 1}, "name", "must be a string, not a number"},
			{body{"name": strings.Repeat("ä", 256)}, "name", "must have at most 255 characters, not 256"},
			{body{"name": "Default"}, "name", "has already been taken"},
			{body{"name": "New", "description": strings.Repeat("a", 2049)}, "description", "must have at most 2048 characters"},
			{body{"name": "New", "emoji": "rocket"}, "emoji", "must be an emoji"},
			{body{"name": "New", "color": "red"}, "color", "must be a color in hex"},
			{maintained(body{}), "maintainers[0].user", "or maintainers[0].team must be given, and not both"},
			{maintained(body{"user": servertest.BoID, "team": servertest.AcmeTeamID}), "maintainers[0].user", "and not both"},
			{maintained(body{"user": servertest.BoID}, body{"user": "bo"}), "maintainers[1].user", "must be a UUID"},
			{maintained(body{"team": "everyone"}), "maintainers[0].team", "must be a UUID"},
			{maintained(body{"user": servertest.CyID}), "maintainers[0].user", "must be the id of one in this organization"},
			{maintained(body{"team": core.NewID()}), "maintainers[0].team", "must be the id of one in this organization"},
			{maintained(body{"user": servertest.BoID}, body{"user": servertest.BoID}), "maintainers[1].user", "is already a maintainer of this cluster"},
			{maintained(make([]body, 101)...), "maintainers", "must be at most 100"},
		} {
			ada.Post(acme, c.body).WantFieldError(c.field, c.text)
		}
		if got := ada.Get(acme).Want(http.StatusOK); got.Len("") != 1 {
			t.Errorf("a refused cluster was made: %s", got.Body)
		}
		s.As(t, servertest.Cy).Post(rival, body{"name": "New"}).Want(http.StatusCreated)
	})
}

func TestUpdateCluster_ChangesWhatIsSentByPutAndPatch(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := newCluster(ada, "Old")
		queue := ada.Post(path+"/queues", body{"key": "linux"}).Want(http.StatusCreated)
		for _, method := range []string{http.MethodPut, http.MethodPatch} {
			for _, c := range []struct {
				sent body
				want map[string]any
			}{
				{body{"name": method}, body{"name": method}},
				{body{"description": "d"}, body{"name": method, "description": "d"}},
				{body{"emoji": "🚀", "color": "#000000"}, body{"emoji": "🚀", "color": "#000000", "description": "d"}},
				{body{"emoji": nil, "color": nil, "description": nil}, body{"emoji": nil, "color": nil, "description": ""}},
				{body{"default_queue_id": strings.ToUpper(queue.String("id"))}, body{"default_queue_id": queue.At("id"), "default_queue_url": queue.At("url")}},
				{body{"hosted_git_mirror_enabled": true, "hosted_container_cache_enabled": true}, body{
					"hosted_git_mirror_enabled": true, "hosted_container_cache_enabled": true, "default_queue_id": queue.At("id"),
				}},
				{body{"default_queue_id": nil, "hosted_git_mirror_enabled": false}, body{
					"default_queue_id": nil, "default_queue_url": nil, "hosted_git_mirror_enabled": false, "hosted_container_cache_enabled": true,
				}},
				{body{}, body{"name": method}},
			} {
				got := ada.Do(method, path, c.sent).Want(http.StatusOK)
				for field, want := range c.want {
					if got.At(field) != want {
						t.Errorf("%s %v: %s is %v, want %v", method, c.sent, field, got.At(field), want)
					}
				}
			}
		}
	})
}

func TestUpdateCluster_ReportsProblems(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := newCluster(ada, "Other")
		for _, c := range []struct {
			sent        body
			field, text string
		}{
			{body{"name": nil}, "name", "is required"},
			{body{"name": "Default"}, "name", "has already been taken"},
			{body{"color": "#FFFF"}, "color", "must be a color in hex"},
			{body{"default_queue_id": servertest.AcmeQueueID}, "default_queue_id", "must be the id of a queue of this cluster"},
			{body{"default_queue_id": "default"}, "default_queue_id", "must be the id of a queue of this cluster"},
			{body{"hosted_git_mirror_enabled": "yes"}, "hosted_git_mirror_enabled", "must be true or false"},
		} {
			ada.Patch(path, c.sent).WantFieldError(c.field, c.text)
		}
		if got := ada.Get(path).Want(http.StatusOK); got.String("name") != "Other" || got.At("default_queue_id") != nil {
			t.Errorf("a refused change was made: %s", got.Body)
		}
	})
}

func TestUpdateCluster_IsSeenByAgentsAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		agent := s.AsAgent(t, servertest.AcmeAgent)
		agent.Get("/v3/token").Want(http.StatusOK)
		s.As(t, servertest.Ada).Patch(home, body{"name": "Renamed"}).Want(http.StatusOK)
		if got := agent.Get("/v3/token").Want(http.StatusOK).String("cluster_name"); got != "Renamed" {
			t.Errorf("the agent's cluster is called %s", got)
		}
	})
}

func TestDeleteCluster_TakesAllThatIsInIt(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		path := newCluster(ada, "Short-lived")
		queue := ada.Post(path+"/queues", body{"key": "linux"}).Want(http.StatusCreated)
		ada.Patch(path, body{"default_queue_id": queue.At("id")}).Want(http.StatusOK)
		token := ada.Post(path+"/tokens", body{"description": "boot"}).Want(http.StatusCreated)
		ada.Post(path+"/secrets", body{"key": "KEY", "value": "v"}).Want(http.StatusCreated)
		ada.Post(path+"/maintainers", body{"user": servertest.BoID}).Want(http.StatusCreated)
		agent := s.AsAgent(t, token.String("token"))
		agent.Get("/v3/token").Want(http.StatusOK)

		ada.Delete(path).Want(http.StatusNoContent)
		agent.Get("/v3/token").Want(http.StatusUnauthorized)
		for _, at := range []string{path, path + "/queues", queue.String("url"), token.String("url")} {
			ada.Get(at).WantMessage(http.StatusNotFound, "No cluster found")
		}
		ada.Delete(path).Want(http.StatusNotFound)
	})
}

func TestDeleteCluster_IsRefusedWhilePipelinesUseIt(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.As(t, servertest.Ada).Delete(home).WantMessage(http.StatusUnprocessableEntity,
			"The cluster cannot be deleted while pipelines use it (1); move them to another cluster first")
		s.As(t, servertest.Cy).Delete(rival + "/" + servertest.RivalClusterID).Want(http.StatusNoContent)
	})
}

// crew adds two members to acme: one who can manage clusters, and one in a team.
const crew = `
organizations:
  - slug: acme
    members:
      - {email: mo@acme.test, name: Mo, permissions: [manage_clusters], access_tokens: [{description: all, token: svcua_mo, scopes: ["*"]}]}
      - {email: to@acme.test, name: To, access_tokens: [{description: all, token: svcua_to, scopes: ["*"]}]}
      - email: ada@acme.test
        access_tokens:
          - {description: clusters, token: svcua_reader, scopes: [read_clusters]}
          - {description: writing, token: svcua_writer, scopes: [write_clusters]}
    teams:
      - {name: Crew, slug: crew, id: 0190c0de-0000-7000-8000-0000000000e2, members: [to@acme.test]}
`

const crewID = "0190c0de-0000-7000-8000-0000000000e2"

func TestClusters_AreChangedByThoseWhoMay(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(crew)
		ada, bo, mo, to := s.As(t, servertest.Ada), s.As(t, servertest.Bo), s.As(t, "svcua_mo"), s.As(t, "svcua_to")
		bos, teams := newCluster(ada, "Bo's"), newCluster(ada, "The team's")
		ada.Post(bos+"/maintainers", body{"user": servertest.BoID}).Want(http.StatusCreated)
		ada.Post(teams+"/maintainers", body{"team": crewID}).Want(http.StatusCreated)

		for _, c := range []struct {
			who  string
			as   *servertest.Client
			path string
			may  bool
		}{
			{"an administrator", ada, bos, true},
			{"a member who manages clusters", mo, bos, true},
			{"a maintainer", bo, bos, true},
			{"a maintainer of another cluster", bo, teams, false},
			{"a member of a team that maintains", to, teams, true},
			{"a member of a team that does not", to, bos, false},
		} {
			got := c.as.Get(c.path).Want(http.StatusOK)
			if got.Has("hosted_git_mirror_enabled") != c.may || got.Has("hosted_container_cache_enabled") != c.may {
				t.Errorf("%s sees %s", c.who, got.Body)
			}
			key := strings.NewReplacer(" ", "_", "'", "").Replace(c.who)
			for _, change := range []struct {
				method, path string
				sent         body
				status       int
			}{
				{http.MethodPatch, "", body{"description": c.who}, http.StatusOK},
				{http.MethodPut, "", body{"description": c.who}, http.StatusOK},
				{http.MethodPost, "/queues", body{"key": key}, http.StatusCreated},
				{http.MethodPost, "/tokens", body{"description": c.who}, http.StatusCreated},
				{http.MethodPost, "/secrets", body{"key": key, "value": "v"}, http.StatusCreated},
				{http.MethodPost, "/maintainers", body{"user": servertest.AdaID}, http.StatusCreated},
			} {
				got := c.as.Do(change.method, c.path+change.path, change.sent)
				if !c.may {
					got.WantMessage(http.StatusForbidden, "Forbidden: this needs the permission manage_clusters")
					continue
				}
				made := got.Want(change.status)
				if change.path == "/maintainers" {
					c.as.Delete(c.path + "/maintainers/" + made.String("id")).Want(http.StatusNoContent)
				}
			}
		}
		bo.Post(acme, body{"name": "Mine"}).WantMessage(http.StatusForbidden, "Forbidden: this needs the permission manage_clusters")
		mo.Post(acme, body{"name": "Mine"}).Want(http.StatusCreated)
		bo.Delete(bos).Want(http.StatusNoContent)
		to.Delete(teams).Want(http.StatusNoContent)
	})
}

func TestClusters_AskForTheirScopes(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		s.Apply(crew)
		reader, writer := s.As(t, "svcua_reader"), s.As(t, "svcua_writer")
		for _, path := range []string{acme, home, home + "/queues", home + "/tokens", home + "/maintainers"} {
			reader.Get(path).Want(http.StatusOK)
			writer.Get(path).WantMessage(http.StatusForbidden, "Forbidden: your access token needs the scope read_clusters")
		}
		for _, as := range []*servertest.Client{reader, writer} {
			as.Get(home+"/secrets").WantMessage(http.StatusForbidden, "Forbidden: your access token needs the scope read_secrets_details")
			as.Post(home+"/secrets", nil).WantMessage(http.StatusForbidden, "Forbidden: your access token needs the scope write_secrets")
		}
		reader.Patch(home, body{}).WantMessage(http.StatusForbidden, "Forbidden: your access token needs the scope write_clusters")
		writer.Patch(home, body{}).Want(http.StatusOK)
	})
}

func TestClusters_AreSeenByTheirOwnOrganizationOnly(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, cy := s.As(t, servertest.Ada), s.As(t, servertest.Cy)
		parts := []string{"/queues/" + servertest.AcmeQueueID}
		for kind, sent := range map[string]body{
			"/tokens":      {"description": "boot"},
			"/secrets":     {"key": "KEY", "value": "v"},
			"/maintainers": {"user": servertest.BoID},
		} {
			parts = append(parts, kind+"/"+ada.Post(home+kind, sent).Want(http.StatusCreated).String("id"))
		}
		for _, part := range append(parts, "", "/queues", "/tokens", "/secrets", "/maintainers") {
			ada.Get(home + part).Want(http.StatusOK)
			cy.Get(home+part).WantMessage(http.StatusNotFound, "No organization found")
			cy.Get(rival+"/"+servertest.AcmeClusterID+part).WantMessage(http.StatusNotFound, "No cluster found")
			s.As(t, "").Get(home + part).Want(http.StatusUnauthorized)
		}
		for _, part := range parts {
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				cy.Do(method, rival+"/"+servertest.RivalClusterID+part, nil).Want(http.StatusNotFound)
			}
		}
	})
}

func TestClusters_AnswerNotFoundBeforeTheyLookAtTheBody(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		for path, message := range map[string]string{
			acme + "/" + core.NewID():               "No cluster found",
			acme + "/Default":                       "No cluster found",
			acme + "/" + core.NewID() + "/queues/x": "No cluster found",
			home + "/queues/" + core.NewID():        "No cluster queue found",
			home + "/queues/default":                "No cluster queue found",
			home + "/tokens/" + core.NewID():        "No agent token found",
			home + "/tokens/boot":                   "No agent token found",
			home + "/secrets/" + core.NewID():       "No secret found",
			home + "/secrets/KEY":                   "No secret found",
		} {
			ada.Get(path).WantMessage(http.StatusNotFound, message)
			ada.Put(path, "not JSON").WantMessage(http.StatusNotFound, message)
			ada.Delete(path).WantMessage(http.StatusNotFound, message)
		}
		ada.Get(home+"/maintainers/"+core.NewID()).WantMessage(http.StatusNotFound, "No cluster maintainer found")
		ada.Delete(home+"/maintainers/bo").WantMessage(http.StatusNotFound, "No cluster maintainer found")
		ada.Patch(home, "not JSON").Want(http.StatusBadRequest)
	})
}
