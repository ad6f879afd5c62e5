package server_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

const auditPath = "/v2/organizations/acme/audit-events"

// unaudited are the routes that change something and write nothing to the audit trail, by what their paths and summaries
// contain, with the reason.
var unaudited = []struct{ path, reason string }{
	{"/builds", "builds and jobs are what the product does: they have events and a timeline"},
	{"/jobs/", "the same"},
	{"/reserved-jobs/{job}", "the same: reservations end by themselves too"},
	{"/agent-images/{image}/log", "logs are no configuration"},
	{"/services/{service}/deliveries/{delivery}/redeliver", "a delivery has a record of its own"},
	{"/services/{service}/test", "a delivery has a record of its own"},
	{"/webhook-deliveries/", "a delivery has a record of its own"},
	{"/source-connections/{connection}/test", "changes nothing"},
	{"/suites/{suite}/tests/", "tests are data, in a database of their own, with a history of their own"},
	{"/pipelines/{pipeline}/webhook", "changes the source host"},
	{"/pipeline-settings/build-export", "needs an object store; the statement is that of the other settings"},
	{"POST /graphql", "calls routes of the REST API, which are recorded"},
}

// A step is a request that must be recorded.
type step struct {
	method, path string
	body         map[string]any
	action       string
	keep         string // the wildcard that gets the id of what was created
}

type fields = map[string]any

// changes are requests to every route that changes configuration, in an order in which they succeed.
var changes = func() []step {
	const org = "/v2/organizations/{org}"
	const cluster, suites = org + "/clusters/{cluster}", "/v2/analytics/organizations/{org}/suites"
	const pipeline, team = org + "/pipelines/{pipeline}", org + "/teams/{team}"
	const settings = org + "/pipeline-settings"
	return []step{
		{"POST", org + "/pipelines", fields{"name": "New", "repository": "https://github.com/acme/new.git", "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: x}]"}, "pipeline.created", ""},
		{"PATCH", pipeline, fields{"description": "x"}, "pipeline.updated", ""},
		{"POST", pipeline + "/archive", nil, "pipeline.updated", ""},
		{"POST", pipeline + "/unarchive", nil, "pipeline.updated", ""},
		{"DELETE", pipeline + "/source-webhooks", nil, "pipeline.updated", ""},
		{"PUT", pipeline + "/source-webhooks", nil, "pipeline.updated", ""},
		{"POST", pipeline + "/schedules", fields{"cronline": "@daily"}, "schedule.created", "{schedule}"},
		{"PATCH", pipeline + "/schedules/{schedule}", fields{"message": "a"}, "schedule.updated", ""},
		{"PUT", pipeline + "/schedules/{schedule}", fields{"message": "b"}, "schedule.updated", ""},
		{"DELETE", pipeline + "/schedules/{schedule}", nil, "schedule.deleted", ""},
		{"POST", org + "/pipeline-templates", fields{"name": "T", "configuration": "steps: [{command: x}]"}, "pipeline_template.created", "{template}"},
		{"PATCH", org + "/pipeline-templates/{template}", fields{"description": "x"}, "pipeline_template.updated", ""},
		{"DELETE", org + "/pipeline-templates/{template}", nil, "pipeline_template.deleted", ""},
		{"POST", org + "/rules", fields{"type": "pipeline.trigger_build.pipeline", "value": fields{"source_pipeline": "hello", "target_pipeline": "hello"}}, "rule.created", "{rule}"},
		{"DELETE", org + "/rules/{rule}", nil, "rule.deleted", ""},

		{"POST", org + "/services", fields{"provider": "webhook", "settings": fields{"url": "https://example.test"}}, "notification_service.created", "{service}"},
		{"PATCH", org + "/services/{service}", fields{"description": "x"}, "notification_service.updated", ""},
		{"PUT", org + "/services/{service}/disable", nil, "notification_service.updated", ""},
		{"PUT", org + "/services/{service}/enable", nil, "notification_service.updated", ""},
		{"DELETE", org + "/services/{service}", nil, "notification_service.deleted", ""},
		{"POST", org + "/source-connections", fields{"host": "github.com", "token": "ghp_x"}, "source_connection.created", "{connection}"},
		{"PATCH", org + "/source-connections/{connection}", fields{"token": "ghp_y"}, "source_connection.updated", ""},
		{"DELETE", org + "/source-connections/{connection}", nil, "source_connection.deleted", ""},

		{"POST", org + "/clusters/{cloud}/agent-images", fields{"name": "tools", "dockerfile": "RUN true"}, "agent_image.created", "{image}"},
		{"PATCH", org + "/clusters/{cloud}/agent-images/{image}", fields{"dockerfile": "RUN false"}, "agent_image.updated", ""},
		{"DELETE", org + "/clusters/{cloud}/agent-images/{image}", nil, "agent_image.deleted", ""},
		{"PUT", org + "/agents/{agent}/pause", fields{}, "agent.paused", ""},
		{"PUT", org + "/agents/{agent}/resume", fields{}, "agent.resumed", ""},
		{"PUT", org + "/agents/{agent}/stop", fields{}, "agent.stopped", ""},
		{"DELETE", org + "/clusters/{first}/stacks/{stack}", nil, "stack.deleted", ""},
		{"POST", org + "/clusters", fields{"name": "Two"}, "cluster.created", "{cluster}"},
		{"PATCH", cluster, fields{"description": "a"}, "cluster.updated", ""},
		{"PUT", cluster, fields{"description": "b"}, "cluster.updated", ""},
		{"POST", cluster + "/queues", fields{"key": "q"}, "queue.created", "{queue}"},
		{"PATCH", cluster + "/queues/{queue}", fields{"description": "a"}, "queue.updated", ""},
		{"PUT", cluster + "/queues/{queue}", fields{"description": "b"}, "queue.updated", ""},
		{"POST", cluster + "/queues/{queue}/pause_dispatch", fields{}, "queue.updated", ""},
		{"POST", cluster + "/queues/{queue}/resume_dispatch", fields{}, "queue.updated", ""},
		{"DELETE", cluster + "/queues/{queue}", nil, "queue.deleted", ""},
		{"POST", cluster + "/secrets", fields{"key": "A_KEY", "value": "s"}, "secret.created", "{secret}"},
		{"PUT", cluster + "/secrets/{secret}", fields{"description": "d"}, "secret.updated", ""},
		{"PUT", cluster + "/secrets/{secret}/value", fields{"value": "t"}, "secret.updated", ""},
		{"DELETE", cluster + "/secrets/{secret}", nil, "secret.deleted", ""},
		{"POST", cluster + "/tokens", fields{"description": "t"}, "agent_token.created", "{token}"},
		{"PATCH", cluster + "/tokens/{token}", fields{"description": "u"}, "agent_token.updated", ""},
		{"PUT", cluster + "/tokens/{token}", fields{"description": "v"}, "agent_token.updated", ""},
		{"DELETE", cluster + "/tokens/{token}", nil, "agent_token.deleted", ""},
		{"POST", cluster + "/maintainers", fields{"user": servertest.BoID}, "cluster_maintainer.created", "{maintainer}"},
		{"DELETE", cluster + "/maintainers/{maintainer}", nil, "cluster_maintainer.deleted", ""},
		{"DELETE", cluster, nil, "cluster.deleted", ""},

		{"PATCH", settings, fields{"default_branch": "trunk"}, "pipeline_settings.created", ""},
		{"PUT", settings + "/hosted-agents-ssh", nil, "pipeline_settings.updated", ""},
		{"DELETE", settings + "/hosted-agents-ssh", nil, "pipeline_settings.updated", ""},
		{"PUT", settings + "/public-pipelines", nil, "pipeline_settings.updated", ""},
		{"DELETE", settings + "/public-pipelines", nil, "pipeline_settings.updated", ""},
		{"PUT", settings + "/advanced-queue-metrics", nil, "pipeline_settings.updated", ""},

		{"PATCH", org + "/retention", fields{"artifact_retention_days": 30}, "organization.updated", ""},
		{"POST", org + "/teams/enable", nil, "organization.updated", ""},
		{"POST", org + "/teams", fields{"name": "Other"}, "team.created", ""},
		{"PATCH", team, fields{"description": "x"}, "team.updated", ""},
		{"POST", team + "/members", fields{"user_id": servertest.BoID}, "team_member.created", ""},
		{"PATCH", team + "/members/{user}", fields{"role": "maintainer"}, "team_member.updated", ""},
		{"DELETE", team + "/members/{user}", nil, "team_member.deleted", ""},
		{"POST", team + "/pipelines", fields{"pipeline_id": servertest.AcmePipelineID, "access_level": "read_only"}, "team_pipeline.created", ""},
		{"PATCH", team + "/pipelines/{pipeline_id}", fields{"access_level": "build_and_read"}, "team_pipeline.updated", ""},
		{"DELETE", team + "/pipelines/{pipeline_id}", nil, "team_pipeline.deleted", ""},
		{"POST", suites, fields{"name": "Unit", "default_branch": "main", "team_ids": []string{servertest.AcmeTeamID}}, "suite.created", "{suite_id}"},
		{"PATCH", suites + "/{suite}", fields{"default_branch": "trunk"}, "suite.updated", ""},
		{"POST", team + "/suites", fields{"suite_id": "{suite_id}", "access_level": []string{"read"}}, "team_suite.created", ""},
		{"PATCH", team + "/suites/{suite_id}", fields{"access_level": []string{"read", "edit"}}, "team_suite.updated", ""},
		{"DELETE", team + "/suites/{suite_id}", nil, "team_suite.deleted", ""},
		{"POST", team + "/suite", fields{"suite_id": "{suite_id}", "access_level": []string{"read"}}, "team_suite.created", ""},
		{"DELETE", suites + "/{suite}", nil, "suite.deleted", ""},
		{"DELETE", team, nil, "team.deleted", ""},
		{"POST", org + "/invitations", fields{"email": "new@acme.test", "role": "member"}, "invitation.created", "{invitation}"},
		{"DELETE", org + "/invitations/{invitation}", nil, "invitation.deleted", ""},
		{"PATCH", org + "/members/{user}", fields{"role": "admin"}, "member.updated", ""},
		{"DELETE", org + "/members/{user}", nil, "member.deleted", ""},
		{"DELETE", pipeline, nil, "pipeline.deleted", ""},
		{"DELETE", "/v2/access-token", nil, "access_token.deleted", ""},
	}
}()

// Each change of configuration has a record, and nothing else has one.
func TestAudit_RecordsEveryRouteThatChangesConfiguration(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		const cloud = "0190c0de-0000-7000-8000-0000000000c9"
		s.Apply("organizations: [{slug: acme, clusters: [{name: Cloud, id: " + cloud + ", hosted: true, queues: [{key: default, default: true}]}]}]")
		grant(s, "svcua_audit", []string{`"*"`})
		ids := walk{
			"{org}": "acme", "{pipeline}": "new", "{first}": servertest.AcmeClusterID, "{cloud}": cloud, "{team}": "other", "{user}": servertest.BoID,
			"{suite}": "unit", "{pipeline_id}": servertest.AcmePipelineID, "{agent}": s.Register(t, nil).ID,
			"{stack}": s.AsAgent(t, servertest.AcmeAgent).Post("/v3/stacks/register", fields{"key": "robot", "type": "custom", "queue_key": "__default__", "metadata": fields{}}).Want(http.StatusCreated).String("id"),
		}
		ada := s.As(t, servertest.Ada)
		seen := newestAudit(ada)
		covered := map[string]bool{}
		for _, change := range changes {
			as := s.As(t, "svcua_audit").With("User-Agent", "audit-test/1").With("X-Forwarded-For", "198.51.100.7")
			if id, ok := change.body["suite_id"].(string); ok {
				change.body = maps.Clone(change.body)
				change.body["suite_id"] = ids[id]
			}
			resp := as.Do(change.method, ids.fill(change.path), change.body)
			if resp.Status >= 300 {
				t.Errorf("%s %s: status %d, %s", change.method, change.path, resp.Status, resp.Body)
				continue
			}
			if change.keep != "" {
				for _, name := range []string{"id", "uuid"} {
					if resp.Has(name) {
						ids[change.keep] = resp.String(name)
					}
				}
			}
			covered[change.method+" "+pattern(change.path)] = true
			events := auditSince(ada, seen)
			if len(events) == 0 || events[0] != change.action {
				t.Errorf("%s %s: recorded %v, want %s first", change.method, change.path, events, change.action)
			}
			seen = newestAudit(ada)
		}
		got := ada.Get(auditPath + "?action=queue.created").Want(http.StatusOK)
		for path, want := range map[string]string{
			"items.0.actor.email": "ada@acme.test", "items.0.actor.token.description": "svcua_audit", "items.0.ip_address": "198.51.100.7",
			"items.0.user_agent": "audit-test/1", "items.0.channel": "api", "items.0.subject.name": "Two/q",
		} {
			if text := got.String(path); text != want {
				t.Errorf("%s is %q, want %q", path, text, want)
			}
		}
		for _, r := range s.Routes() {
			name := r.Method + " " + pattern(r.Path)
			if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Auth != route.Bearer || covered[name] {
				continue
			}
			if !slices.ContainsFunc(unaudited, func(u struct{ path, reason string }) bool { return strings.Contains(r.Method+" "+r.Path, u.path) }) {
				t.Errorf("%s %s changes something; add it to changes, or with a reason to unaudited", r.Method, r.Path)
			}
		}
	})
}

// pattern returns a path with all wildcards alike, because changes name them differently.
func pattern(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") {
			segments[i] = "*"
		}
	}
	return strings.Join(segments, "/")
}

// newestAudit returns the id of the newest record of acme.
func newestAudit(c *servertest.Client) string {
	return c.Get(auditPath + "?per_page=1").Want(http.StatusOK).String("items.0.id")
}

// auditSince returns the actions after a record, oldest first.
func auditSince(c *servertest.Client, id string) (actions []string) {
	list := c.Get(auditPath + "?per_page=20").Want(http.StatusOK)
	for i := range list.Len("items") {
		if list.String(fmt.Sprintf("items.%d.id", i)) == id {
			break
		}
		actions = append([]string{list.String(fmt.Sprintf("items.%d.action", i))}, actions...)
	}
	return actions
}

// planted is a part of every secret value that the next test uses.
const planted = "planted9"

func TestAudit_HasNoSecrets(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		const acme, cluster = "/v2/organizations/acme", "/v2/organizations/acme/clusters/" + servertest.AcmeClusterID
		secret := func(n int) string { return fmt.Sprintf("%sAB%dcdefghijk", planted, n) }
		for n := range 2 { // created, then changed
			s.Apply(fmt.Sprintf(`
organizations:
  - slug: acme
    members:
      - {email: eve@acme.test, name: Eve, password: %[1]s, access_tokens: [{description: x, token: svcua_%[1]s, scopes: ["*"]}]}
    clusters:
      - {name: Default, agent_tokens: [{description: y, token: svcct_%[1]s}]}
    oauth_applications:
      - {name: Robot, client_id: robot, client_secret: %[1]s, confidential: true, scopes: ["*"]}
    source_connections:
      - {host: git.example.test, provider: gitea, api_url: "https://git.example.test/api/v1", token: %[1]s}
    suites:
      - {name: Unit, slug: unit, default_branch: main, token: %[1]s}
    pipelines:
      - slug: hello
        name: Hello
        schedules: [{label: nightly, cronline: "@daily", env: {PASSWORD: %[1]s}}]
`, secret(n)))
			ada.Patch(acme+"/pipelines/hello", fields{"repository": "https://ada:" + secret(n) + "@git.example.test/acme/hello.git"}).Want(http.StatusOK)
		}
		ada.Post(acme+"/pipelines", fields{"name": "Visual", "repository": "https://git.example.test/v.git", "cluster_id": servertest.AcmeClusterID,
			"steps": []fields{{"type": "script", "command": "x"}}, "env": fields{"PASSWORD": secret(3)}}).Want(http.StatusCreated)
		made := ada.Post(cluster+"/secrets", fields{"key": "A_KEY", "value": secret(4)}).Want(http.StatusCreated)
		ada.Put(cluster+"/secrets/"+made.String("id")+"/value", fields{"value": secret(5)}).Want(http.StatusOK)
		token := ada.Post(cluster+"/tokens", fields{"description": "z"}).Want(http.StatusCreated)
		service := ada.Post(acme+"/services", fields{"provider": "webhook", "settings": fields{"url": "https://example.test/" + secret(6), "token": secret(7)}}).Want(http.StatusCreated)
		ada.Patch(acme+"/services/"+service.String("id"), fields{"settings": fields{"url": "https://example.test/" + secret(8)}}).Want(http.StatusOK)
		ada.Delete(acme + "/services/" + service.String("id")).Want(http.StatusNoContent)
		web := s.As(t, "").With("Origin", s.URL).With("Accept", "text/html")
		web.PostForm("/login", map[string][]string{"email": {"eve@acme.test"}, "password": {secret(9)}})
		web.PostForm("/login", map[string][]string{"email": {"eve@acme.test"}, "password": {secret(1)}})
		for _, action := range []string{"session.failed", "session.created", "user.updated", "access_token.updated"} {
			if ada.Get(auditPath+"?action="+action).Want(http.StatusOK).Len("items") == 0 {
				t.Errorf("there is no record of %s", action)
			}
		}
		var rows, text string
		err := s.DB.Read(t.Context(), func(q *db.Q) error {
			return db.Each(q, func(scan db.Scan) error {
				var cells [7]string
				err := scan(&cells[0], &cells[1], &cells[2], &cells[3], &cells[4], &cells[5], &cells[6])
				rows += strings.Join(cells[:], " ") + "\n"
				return err
			}, `SELECT action, subject_id, subject_name, actor_name, token_description, user_agent, changes FROM audit_events`)
		})
		if err != nil {
			t.Fatal(err)
		}
		text = string(ada.Get(auditPath + "/export").Want(http.StatusOK).Body)
		for _, all := range []string{rows, text} {
			if !strings.Contains(all, "[hidden]") {
				t.Errorf("nothing is hidden")
			}
			for _, hidden := range []string{planted, token.String("token")} {
				if at := strings.Index(all, hidden); at >= 0 {
					t.Errorf("the trail has a secret: …%s", all[max(0, at-300):min(len(all), at+50)])
				}
			}
		}
	})
}

func TestAudit_ListsFiltersAndExports(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		hello := "/v2/organizations/acme/pipelines/hello"
		from := s.Clock.Now()
		for i := range 25 {
			ada.Patch(hello, fields{"description": fmt.Sprintf("=%d", i)}).Want(http.StatusOK)
			s.Clock.Advance(time.Minute)
		}
		first := ada.Get(auditPath + "?subject=" + servertest.AcmePipelineID + "&per_page=10&created_from=" + from.Format(time.RFC3339)).Want(http.StatusOK)
		if n := first.Len("items"); n != 10 || string(mustJSON(first.At("items.0.changes"))) != `[{"after":"=24","before":"=23","field":"description"}]` {
			t.Fatalf("the first page has %d items: %s", n, first.Body)
		}
		next := ada.Get(strings.TrimPrefix(first.String("links.next"), s.URL)).Want(http.StatusOK)
		last := ada.Get(strings.TrimPrefix(next.String("links.next"), s.URL)).Want(http.StatusOK)
		if next.Len("items") != 10 || last.Len("items") != 5 || last.At("links.next") != nil {
			t.Errorf("the pages have %d and %d items", next.Len("items"), last.Len("items"))
		}
		back := ada.Get(strings.TrimPrefix(next.String("links.prev"), s.URL)).Want(http.StatusOK)
		if back.String("items.0.id") != first.String("items.0.id") {
			t.Errorf("the previous page is not the first")
		}
		one := ada.Get(auditPath + "/" + first.String("items.0.id")).Want(http.StatusOK)
		if one.String("subject.name") != "Hello" || one.String("actor.id") != servertest.AdaID {
			t.Errorf("one event: %s", one.Body)
		}
		for query, want := range map[string]int{
			"actor=ada@acme.test&action=pipeline.updated": 25, "actor=" + servertest.AdaID + "&action=pipeline.updated": 25, "actor=no@one.test": 0,
			"subject_type=team": 1, "channel=apply&action=cluster.created": 1, "channel=web": 0, "created_to=2001-01-01": 0,
		} {
			if n := ada.Get(auditPath + "?per_page=100&" + query).Want(http.StatusOK).Len("items"); n != want {
				t.Errorf("%s: %d events, want %d", query, n, want)
			}
		}
		lines := strings.Split(strings.TrimSpace(string(ada.Get(auditPath+"/export?action=pipeline.updated").Want(http.StatusOK).Body)), "\n")
		if len(lines) != 25 || !strings.Contains(lines[0], `"=0"`) {
			t.Fatalf("the export has %d lines: %s", len(lines), lines[0])
		}
		var tenth struct{ ID string }
		if err := json.Unmarshal([]byte(lines[9]), &tenth); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(ada.Get(auditPath + "/export?format=csv&action=pipeline.updated&after=" + tenth.ID).Want(http.StatusOK).Body))).ReadAll()
		if err != nil || len(rows) != 16 || rows[1][5] != "Hello" {
			t.Errorf("the CSV has %d rows: %v", len(rows), err)
		}
		if got := ada.Get(auditPath + "?per_page=1").String("items.0.action"); got != "audit_trail.exported" {
			t.Errorf("the newest record is %s", got)
		}
		s.As(t, servertest.Bo).Get(auditPath).WantMessage(http.StatusForbidden, "Forbidden: this needs an organization administrator (permission read_audit_trail)")
		s.As(t, servertest.Cy).Get("/v2/organizations/rival/audit-events/" + tenth.ID).Want(http.StatusNotFound)
		ada.Get(auditPath + "/export?format=xml").Want(http.StatusBadRequest)
		ada.Get(auditPath + "/export?after=x").Want(http.StatusBadRequest)

		s.Clock.Advance(731 * 24 * time.Hour)
		if err := s.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := ada.Get(auditPath).Want(http.StatusOK).Len("items"); n != 0 {
			t.Errorf("%d records are left after two years", n)
		}
	})
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
