package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/app/server/servertest"
)

// A sourceHost speaks what GitHub documents of listing repositories and creating webhooks.
type sourceHost struct {
	*httptest.Server
	mu    sync.Mutex
	hooks []string // paths
	full  bool     // it refuses more hooks
}

func startSourceHost(t *testing.T) *sourceHost {
	t.Helper()
	h := &sourceHost{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /user/repos", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
			return
		}
		if r.URL.Query().Get("page") != "1" {
			fmt.Fprint(w, "[]")
			return
		}
		fmt.Fprint(w, `[
			{"name":"shop","full_name":"acme/shop","description":"Sells <b>things</b>","private":false,"default_branch":"trunk","clone_url":"https://github.com/acme/shop.git","ssh_url":"git@github.com:acme/shop.git"},
			{"name":"vault","full_name":"acme/vault","private":true,"default_branch":"main","clone_url":"https://github.com/acme/vault.git","ssh_url":"git@github.com:acme/vault.git"}]`)
	})
	mux.HandleFunc("POST /repos/{owner}/{name}/hooks", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.full {
			http.Error(w, `{"message":"Validation Failed","errors":[{"message":"The push event cannot have more than 20 hooks"}]}`, http.StatusUnprocessableEntity)
			return
		}
		h.hooks = append(h.hooks, r.PathValue("owner")+"/"+r.PathValue("name"))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":1}`)
	})
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func TestNewPipeline_FromAConnectedRepository(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		host := startSourceHost(t)
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		const form = "/organizations/acme/pipelines"
		ada.get(form+"/new").want(200, "Connect GitHub, GitLab, Gitea or Bitbucket")
		api := s.As(t, servertest.Ada)
		id := api.Post("/v2/organizations/acme/source-connections", map[string]any{"host": "github.com", "api_url": host.URL, "token": "good"}).Want(201).String("id")

		list := form + "/repositories?connection=" + id
		bo.get(form+"/new").want(200, "Choose from github.com").wantLink(list)
		bo.get(list).want(200, "acme/shop", "Sells <b>things</b>", "acme/vault private")
		bo.get(list+"&search=VAULT").want(200, "acme/vault").wantNot("acme/shop")
		bo.get(list+"&search=nothing").want(200, "No matching repositories", "Show all")
		// A private repository is cloned with an SSH key unless the connection has a token for jobs.
		bo.get(list + "&search=vault").wantLink(strings.ReplaceAll(form+"/new?default_branch=main&host=github.com&name=vault&repository=git%40github.com%3Aacme%2Fvault.git", "&", "&amp;"))
		prefilled := form + "/new?default_branch=trunk&host=github.com&name=shop&repository=https%3A%2F%2Fgithub.com%2Facme%2Fshop.git"
		bo.get(list).wantLink(strings.ReplaceAll(prefilled, "&", "&amp;"))
		bo.get(prefilled).want(200, "Create a webhook at github.com", "pipeline upload").wantHTML(`value="trunk"`, `value="https://github.com/acme/shop.git"`, `value="shop"`, servertest.AcmeClusterID)

		fields := []string{"host", "github.com", "repository", "https://github.com/acme/shop.git", "default_branch", "trunk", "cluster_id", servertest.AcmeClusterID, "configuration", "steps: [{command: make}]"}
		bo.post(form, append(fields, "name", "", "webhook", "true")...).want(422, "Name").wantHTML(`value="trunk"`)
		bo.post(form, append(fields, "name", "Shop", "webhook", "true")...).wantRedirect("/acme/shop")
		bo.get("/acme/shop").want(200, "Pipeline and webhook created. Start its first build.").wantHTML(`new-build" open`)
		if made := api.Get("/v2/organizations/acme/pipelines/shop"); made.String("default_branch") != "trunk" || made.String("cluster_id") != servertest.AcmeClusterID || strings.Join(host.hooks, " ") != "acme/shop" {
			t.Errorf("made %s, hooks %v", made.Body, host.hooks)
		}
		host.mu.Lock()
		host.full = true
		host.mu.Unlock()
		bo.post(form, append(fields, "name", "Second", "webhook", "true")...).wantRedirect("/acme/second")
		bo.get("/acme/second").want(200, "Pipeline created, without a webhook", "cannot have more than 20 hooks")

		api.Patch("/v2/organizations/acme/source-connections/"+id, map[string]any{"token": "bad"}).Want(200)
		s.Clock.Advance(2e11)
		bo.get(list).want(422, "does not accept the token")
		ada.get(form + "/repositories?connection=" + servertest.AdaID).want(404)
		signIn(t, s, "cy@rival.test").get("/organizations/rival/pipelines/repositories?connection=" + id).want(404)
	})
}

func TestVisualEditor_ChangesStepsWithoutScript(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, api := signIn(t, s, "ada@acme.test"), s.As(t, servertest.Ada)
		const form, one = "/organizations/acme/pipelines/visual", "/acme/picture/settings/steps"
		ada.get(form).want(200, "New visual pipeline", "1. Commands", "Add a step").wantNot("Convert to YAML")
		first := []string{"name", "Picture", "repository", "https://git.example.test/p.git", "steps[0].type", "script", "steps[0].name", "Build", "steps[0].command", "make\r\nmake install"}
		ada.post(form, append(first, "do", "add:manual")...).want(200, "2. Block").wantHTML(`value="Picture"`, `name="steps[1].label"`)
		ada.post(form, append(first, "steps[1].type", "script", "do", "save")...).want(422, "Commands can't be blank")
		ada.post(form, append(first, "env", "A=1\nnonsense", "do", "save")...).want(422, "must be lines of NAME=value")
		ada.post(form, append(first, "env", "A=1\nB=\"x\\ny\"", "do", "save")...).wantRedirect("/acme/picture")
		made := api.Get("/v2/organizations/acme/pipelines/picture").Want(200)
		servertest.WantAt(t, made, map[string]any{"steps.0.type": "script", "steps.0.name": "Build", "steps.0.command": "make\nmake install", "env.A": "1", "env.B": "x\ny"})

		ada.get(one).want(200, "1. Commands", "Build", "Convert to YAML").wantHTML(`B=&#34;x\ny&#34;`)
		step := func(i int, fields ...string) (list []string) {
			for n := 0; n < len(fields); n += 2 {
				list = append(list, fmt.Sprintf("steps[%d].%s", i, fields[n]), fields[n+1])
			}
			return list
		}
		script := func(i int) []string {
			return step(i, "type", "script", "name", "Test", "command", "echo $HOME", "agent_query_rules", "queue=linux\r\nos=any", "timeout_in_minutes", "5", "env", "C=d", "plugins", `[{"docker#v5": {"image": "go"}}]`)
		}
		trigger := func(i int) []string {
			return step(i, "type", "trigger", "trigger_project_slug", "hello", "async", "true", "build.message", "Go", "build.env", "E=f")
		}
		join := func(do string, lists ...[]string) (all []string) {
			for _, l := range lists {
				all = append(all, l...)
			}
			return append(all, "do", do)
		}
		wait := step(1, "type", "waiter")
		for do, want := range map[string]string{
			"up:2": "2. TriggerhelloUpDownCopyRemove", "down:0": "1. WaitDownCopyRemove", "remove:1": "2. Trigger", "copy:0": "2. CommandsTest", "add:manual": "4. Block", "up:0": "1. Commands", "up:99": "1. Commands", "x": "1. Commands",
		} {
			page := ada.post(one, join(do, script(0), wait, trigger(2))...).want(200, "Not saved yet")
			if got := strings.ReplaceAll(page.text(), " ", ""); !strings.Contains(got, strings.ReplaceAll(want, " ", "")) {
				t.Errorf("%s: no %q in %s", do, want, page.text())
			}
		}
		ada.post(one, join("save", script(0), step(1, "type", "trigger", "trigger_project_slug", "No slug"))...).want(422, "Pipeline must be the slug of a pipeline")
		ada.post(one, join("save", step(0, "type", "script", "command", "x", "timeout_in_minutes", "soon"))...).want(422)
		ada.post(one, join("save", step(0, "type", "script", "command", "x", "agent_query_rules", "="))...).want(422, "Agents must have the form key=value")
		ada.post(one, join("save", step(0, "type", "script", "command", "x", "plugins", "{"))...).want(422, "Plugins must be JSON")
		ada.post(one, join("save", step(0, "type", "x"))...).want(422, "must be one of script")
		ada.post(one, join("save")...).want(422, "must have at least one step")
		ada.post(one, join("save", script(0), wait, trigger(2), step(3, "type", "manual", "label", "Ship?"))...).wantRedirect(one)
		servertest.WantAt(t, api.Get("/v2/organizations/acme/pipelines/picture").Want(200), map[string]any{
			"steps.0.agent_query_rules.1": "os=any", "steps.0.timeout_in_minutes": 5, "steps.0.env.C": "d", "steps.0.plugins.0.docker#v5.image": "go", "steps.1.type": "waiter",
			"steps.2.pipeline": "hello", "steps.2.async": true, "steps.2.build.message": "Go", "steps.2.build.env.E": "f", "steps.3.label": "Ship?",
		})

		bo := signIn(t, s, "bo@acme.test")
		s.Apply(`organizations: [{slug: acme, features: {teams: true}, teams: [{name: Readers, slug: readers, members: [bo@acme.test]}], pipelines: [{slug: picture, teams: {readers: read_only}}]}]`)
		bo.get(one).want(200, "echo $HOME", "4. Block").wantNot("Save steps")
		bo.post(one, join("save", wait)...).want(403)

		ada.get(one+"?as=yaml").want(200, "steps:", "echo $$HOME", "Convert to YAML")
		yaml := ada.get(one + "?as=yaml").find(`(?s)<textarea[^>]*>(.*?)</textarea>`)
		ada.post(one, "configuration", yaml).wantRedirect(one)
		ada.get(one).want(200, "trigger: hello").wantNot("Add a step").wantHTML("data-keys")
	})
}

func TestForms_OfSchedulesConnectionsAndExports(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, api := signIn(t, s, "ada@acme.test"), s.As(t, servertest.Ada)
		const schedules = "/acme/hello/settings/schedules"
		ada.post(schedules, "cronline", "@daily", "branch", "main", "env", "nonsense").want(422, "must be lines of NAME=value")
		ada.post(schedules, "cronline", "@daily", "branch", "main", "env", "A=1").wantRedirect(schedules)
		id := api.Get("/v2/organizations/acme/pipelines/hello/schedules").String("0.id")
		ada.get(schedules).wantLink(schedules + "/" + id)
		ada.get(schedules+"/"+id).want(200, "Edit schedule", "A=1").wantHTML(`value="@daily"`)
		ada.post(schedules+"/"+id+"/edit", "cronline", "never").want(422, "When")
		ada.post(schedules+"/"+id+"/edit", "cronline", "@weekly", "label", "Rarely", "branch", "next", "env", "B=2").wantRedirect(schedules)
		servertest.WantAt(t, api.Get("/v2/organizations/acme/pipelines/hello/schedules/"+id), map[string]any{"cronline": "@weekly", "label": "Rarely", "branch": "next", "env": map[string]any{"B": "2"}})
		ada.get(schedules + "/" + servertest.AdaID).want(404)

		const connections = "/organizations/acme/settings/connections"
		ada.post(connections+"/app", "host", "github.com", "app_id", "7", "installation_id", "9", "private_key", "secret text").want(422, "Private key").wantNot("secret text")
		ada.post(connections, "host", "gitlab.com", "token", "glpat-hidden", "api_url", "https://gitlab.com/api/v4").wantRedirect(connections)
		connection := connections + "/" + api.Get("/v2/organizations/acme/source-connections").String("0.id")
		ada.get(connections).wantLink(connection)
		ada.get(connection).want(200, "gitlab.com", "https://gitlab.com/api/v4", "With a token").wantNot("glpat")
		ada.post(connection, "token", "", "clone_token", "has spaces in it").want(422, "New clone token must have")
		ada.post(connection, "token", "", "clone_token", "glpat-clone").wantRedirect(connections)
		ada.get(connections).want(200, "and a clone token for jobs")
		signIn(t, s, "bo@acme.test").post(connection, "token", "x").want(403)

		startBucket(t, "builds")
		const settings = "/organizations/acme/settings/pipelines"
		ada.get(settings).want(200, "Build export", "for your own analysis")
		ada.post(settings+"/export", "location", "", "strategy_id", "s3").want(422, "Bucket").wantHTML(`<option value="s3"`)
		ada.post(settings+"/export", "location", "builds/acme", "strategy_id", "s3").wantRedirect(settings)
		ada.get(settings).want(200, "written to builds/acme", "Stop exporting")
		ada.post(settings + "/export/stop").wantRedirect(settings)
		ada.get(settings).want(200, "not exported any more").wantNot("Stop exporting")
		s.Apply(`organizations: [{slug: acme, features: {build_exports: false}}]`)
		ada.get(settings).want(200, "does not include build exports")
	})
}

// startBucket starts an object store with a bucket, for the server to export to.
func startBucket(t *testing.T, bucket string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_S3": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": ""} {
		t.Setenv(name, value)
	}
}

func TestPickers_FindByNameAndSayWhatTheyFound(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, api := signIn(t, s, "ada@acme.test"), s.As(t, servertest.Ada)
		s.Apply(`organizations: [{slug: acme, features: {teams: true}, teams: [{name: Builders, slug: builders}]}]`)
		for _, name := range []string{"Hello World", "Hello Moon"} {
			api.Post("/v2/organizations/acme/pipelines", map[string]any{"name": name, "repository": "x", "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [wait]"}).Want(201)
		}
		const team = "/organizations/acme/settings/teams/builders"
		ada.get(team).want(200).wantHTML(`<option value="hello-moon">Hello Moon</option>`, `<option value="bo@acme.test">Bo</option>`)
		add := func(pipeline, want string) {
			t.Helper()
			ada.post(team+"/pipelines", "pipeline_id", pipeline, "access_level", "read_only").wantRedirect(team)
			ada.get(team).want(200, want)
		}
		add("nothing", `This is no pipeline: "nothing"`)
		add("llo", "This is several pipelines: ")
		add("hello", "Pipeline added.") // the exact one
		add("moon", "Pipeline added.")
		ada.post(team+"/members", "user_id", "bo", "role", "member").wantRedirect(team)
		ada.get(team).want(200, "Member added.", "hello-moon")
		ada.post(acmeCluster+"/maintainers", "user", "nobody").wantRedirect(acmeCluster + "/settings")
		ada.get(acmeCluster+"/settings").want(200, `This is no member: "nobody"`)
		ada.post(acmeCluster+"/maintainers", "user", "BO@acme.test").wantRedirect(acmeCluster + "/settings")
		ada.get(acmeCluster+"/settings").want(200, "Maintainer added.")
	})
}

// Fields suggest what people may mean while they type.
func TestSuggestions_FindWhatIsTyped(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada := signIn(t, s, "ada@acme.test")
		const at = "/organizations/acme/suggestions?what="
		ada.get(at+"member&q=BO").want(200, `[{"value":"bo@acme.test","text":"Bo"}]`)
		ada.get(at+"pipeline&q=ell").want(200, `[{"value":"hello","text":"Hello"}]`)
		ada.get(at+"cluster&q=").want(200, `"value":"Default"`)
		ada.get(at+"team&q=x").want(200, "[]")
		for _, branch := range []string{"main", "feature/One", "feature/two", "main"} {
			s.As(t, servertest.Ada).Post(helloPath, map[string]any{"commit": "abc", "branch": branch}).Want(201)
		}
		ada.get(at+"branch&pipeline=hello&q=ONE").want(200, `[{"value":"feature/One","text":""}]`)
		ada.get(at+"branch&pipeline=hello&q=").want(200, `[{"value":"main","text":""},{"value":"feature/two","text":""},{"value":"feature/One","text":""}]`)
		ada.get(at + "branch&pipeline=nothing&q=").want(404)
		ada.get(at + "nothing").want(400)
		signIn(t, s, "cy@rival.test").get(at + "member").want(404)
		ada.get("/acme/hello").wantHTML(`list="branches" data-suggest="/organizations/acme/suggestions?pipeline=hello&amp;what=branch"`, `list="filter-branches"`, `list="filter-creators"`)
	})
}

func TestStackPage_ReleasesOneReservation(t *testing.T) {
	each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := signIn(t, s, "ada@acme.test"), signIn(t, s, "bo@acme.test")
		b := s.As(t, servertest.Ada).Post("/v2/organizations/acme/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(201)
		job := b.String("jobs.0.id")
		agent := s.AsAgent(t, servertest.AcmeAgent)
		agent.Post("/v3/stacks/register", map[string]any{"key": "robot", "type": "custom", "queue_key": "__default__", "metadata": map[string]string{}}).Want(201)
		agent.Put("/v3/stacks/robot/scheduled-jobs/batch-reserve", map[string]any{"job_uuids": []string{job}, "reservation_expiry_seconds": 600}).Want(200)
		stack := acmeCluster + "/stacks/" + s.As(t, servertest.Ada).Get("/v2/organizations/acme/clusters/"+servertest.AcmeClusterID+"/stacks").String("0.id")
		bo.get(stack).want(200, job).wantNot("Release job")
		bo.post(stack + "/release/" + job).want(403)
		ada.get(stack).want(200, job, "Release job")
		ada.post(stack + "/release/" + job).wantRedirect(stack)
		ada.get(stack).want(200, "Job released", "None.")
		ada.post(stack + "/release/" + job).wantRedirect(stack)
		ada.get(stack).want(200, "has not reserved this job")
	})
}
