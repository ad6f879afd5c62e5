package hooks_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/rules/hookpayload"
)

const (
	pipelinesPath = "/v2/organizations/acme/pipelines"
	app           = pipelinesPath + "/app"
	deliveries    = app + "/webhook-deliveries"
)

type fields = map[string]any

// A world is a running server with the pipeline app, which builds github.com/acme/app, seen by Ada.
type world struct {
	*servertest.Server
	t           testing.TB
	ada         *servertest.Client
	url, secret string
	sent        int
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada)}
		w.pipeline("App", "https://github.com/acme/app.git", nil)
		hook := w.ada.Get(app + "/webhook").Want(http.StatusOK)
		w.url, w.secret = hook.String("url"), hook.String("secret")
		fn(t, w)
	})
}

func (w *world) pipeline(name, repository string, more fields) *servertest.Response {
	w.t.Helper()
	body := fields{"name": name, "repository": repository, "cluster_id": servertest.AcmeClusterID, "configuration": "steps: [{command: make}]"}
	for key, value := range more {
		body[key] = value
	}
	return w.ada.Post(pipelinesPath, body).Want(http.StatusCreated)
}

func signature(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// github sends a body as GitHub does, signed with the pipeline's secret, and processes it.
func (w *world) github(event, body string) *servertest.Response {
	w.t.Helper()
	w.sent++
	got := w.As(w.t, "").With("X-GitHub-Event", event).With("X-GitHub-Delivery", fmt.Sprintf("delivery-%d", w.sent)).
		With("X-Hub-Signature-256", "sha256="+signature(w.secret, body)).Post(w.url, body).Want(http.StatusAccepted)
	w.runDue()
	return got
}

func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// newest returns the newest delivery.
func (w *world) newest() *servertest.Response {
	w.t.Helper()
	return w.ada.Get(deliveries + "/" + w.ada.Get(deliveries).Want(http.StatusOK).String("items.0.id")).Want(http.StatusOK)
}

func (w *world) builds() *servertest.Response {
	w.t.Helper()
	return w.ada.Get(app + "/builds").Want(http.StatusOK)
}

func (w *world) wantBuilds(n int) {
	w.t.Helper()
	if got := w.builds(); got.Len("") != n {
		w.t.Fatalf("%d builds, want %d: %s", got.Len(""), n, w.ada.Get(deliveries).Body)
	}
}

const repository = `"repository":{"id":1,"full_name":"acme/app","clone_url":"https://github.com/acme/app.git","ssh_url":"git@github.com:acme/app.git","default_branch":"main"}`

// sha returns the n-th commit.
func sha(n int) string { return fmt.Sprintf("%040x", n+0xabcdef) }

func push(branch string, n int) string {
	return `{"ref":"refs/heads/` + branch + `","after":"` + sha(n) + `",` + repository + `,"head_commit":{"id":"` + sha(n) + `","message":"Pour tea","author":{"name":"Grace","email":"grace@acme.test","username":"grace"}}}`
}

func pullRequest(action, head string, headID, n int) string {
	return fmt.Sprintf(`{"action":%q,"number":7,"pull_request":{"number":7,"title":"Add tea","draft":true,"labels":[{"name":"ci"}],"user":{"login":"grace"},
		"head":{"ref":"tea","sha":%q,"repo":{"id":%d,"full_name":%q,"clone_url":"https://github.com/%s.git","owner":{"login":"eve"}}},"base":{"ref":"main"}},%s}`,
		action, sha(n), headID, head, head, repository)
}

func TestPush_StartsABuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		got := w.github("push", push("feature/tea", 1))
		w.wantBuilds(1)
		servertest.WantAt(t, w.builds(), fields{
			"0.branch": "feature/tea", "0.commit": sha(1), "0.message": "Pour tea", "0.source": "webhook", "0.creator": nil,
			"0.author.name": "Grace", "0.author.email": "grace@acme.test", "0.author.username": "grace",
		})
		delivery := w.newest()
		servertest.WantAt(t, delivery, fields{
			"id": got.String("id"), "state": "built", "reason": nil, "host": "github", "event": "push", "delivery_id": "delivery-1",
			"builds.0.number": 1.0, "builds.0.url": w.builds().String("0.url"), "body": push("feature/tea", 1), "headers.X-Github-Event": "push",
		})
	})
}

func TestReceive_RefusesWhatIsNotSigned(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		body := push("main", 1)
		github := w.As(t, "").With("X-GitHub-Event", "push")
		for name, value := range map[string]string{
			"another secret": "sha256=" + signature("wrong", body),
			"another body":   "sha256=" + signature(w.secret, push("main", 2)),
			"no prefix":      signature(w.secret, body),
			"no digits":      "sha256=hello",
			"empty":          "sha256=",
		} {
			if got := github.With("X-Hub-Signature-256", value).Post(w.url, body); got.Status != http.StatusUnauthorized {
				t.Errorf("%s: %d", name, got.Status)
			}
		}
		github.Post(w.url, body).Want(http.StatusUnauthorized)
		w.As(t, "").Post(w.url, body).Want(http.StatusBadRequest)
		w.As(t, "").With("X-Gitlab-Event", "Push Hook").With("X-Gitlab-Token", "wrong").Post(w.url, body).Want(http.StatusUnauthorized)
		w.As(t, "").With("X-Gitlab-Event", "Push Hook").Post(w.url, body).Want(http.StatusUnauthorized)
		github.With("X-Hub-Signature-256", "sha256="+signature(w.secret, body)).Post("/hooks/github/unknown", body).Want(http.StatusNotFound)

		// The secret of another pipeline does not count.
		w.pipeline("Other", "https://github.com/acme/app.git", nil)
		other := w.ada.Get(pipelinesPath + "/other/webhook").Want(http.StatusOK)
		github.With("X-Hub-Signature-256", "sha256="+signature(w.secret, body)).Post(other.String("url"), body).Want(http.StatusUnauthorized)

		large := `"` + strings.Repeat("a", hookpayload.MaxBody) + `"`
		github.With("X-Hub-Signature-256", "sha256="+signature(w.secret, large)).Post(w.url, large).Want(http.StatusRequestEntityTooLarge)
		binary := "{\"a\":\"\xff\x00\"}"
		github.With("X-Hub-Signature-256", "sha256="+signature(w.secret, binary)).Post(w.url, binary).Want(http.StatusBadRequest)
		w.runDue()
		w.wantBuilds(0)
		servertest.WantEqual(t, "deliveries", w.ada.Get(deliveries).Want(http.StatusOK).Len("items"), 0)
	})
}

func TestReceive_BuildsEachDeliveryOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.github("push", push("main", 1))
		w.sent-- // the same delivery id
		again := w.github("push", push("main", 1))
		servertest.WantEqual(t, "id", again.String("id"), first.String("id"))
		w.github("push", push("main", 1)) // a replay of the signed body under another delivery id
		w.wantBuilds(1)
		w.github("push", push("main", 2))
		w.wantBuilds(2)
	})
}

func TestProcess_ReportsWhyNothingIsBuilt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(app, fields{"branch_configuration": "main release/*"}).Want(http.StatusOK)
		for i, c := range []struct{ event, body, state, reason string }{
			{"push", push("feature/x", 1), "ignored", "branch feature/x does not match branch_configuration main release/*"},
			{"push", strings.ReplaceAll(push("main", 2), "acme/app", "acme/other"), "ignored", "the delivery is for the repository acme/other; the pipeline builds https://github.com/acme/app.git"},
			{"push", strings.ReplaceAll(push("main", 3), "Pour tea", "Pour [skip ci]"), "ignored", "the commit message has [skip ci]"},
			{"ping", `{"zen":"Design for failure.",` + repository + `}`, "ignored", "this is a ping: the webhook works"},
			{"push", "hello", "failed", "the body is not a webhook of this host: invalid character 'h' looking for beginning of value"},
			{"pull_request", pullRequest("opened", "eve/app", 2, 4), "ignored", "pull request 7 is from the fork eve/app, and build_pull_request_forks is off"},
		} {
			w.github(c.event, c.body)
			got := w.newest()
			if got.String("state") != c.state || got.String("reason") != c.reason {
				t.Errorf("%d: %s", i, got.Body)
			}
		}
		w.wantBuilds(0)

		w.ada.Delete(app + "/source-webhooks").Want(http.StatusOK)
		w.github("push", push("main", 9))
		servertest.WantAt(t, w.newest(), fields{"state": "ignored", "reason": "Ada switched off the processing of webhooks"})
		w.ada.Put(app+"/source-webhooks", nil).Want(http.StatusOK)
		w.ada.Post(app+"/archive", nil).Want(http.StatusOK)
		w.github("push", push("main", 10))
		servertest.WantAt(t, w.newest(), fields{"state": "ignored", "reason": "the pipeline is archived"})
		w.ada.Post(deliveries+"/"+w.newest().String("id")+"/redeliver", nil).Want(http.StatusUnprocessableEntity)
		w.wantBuilds(0)
	})
}

func TestRedeliver_ProcessesADeliveryAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(app, fields{"provider_settings": fields{"build_branches": false}}).Want(http.StatusOK)
		w.github("push", push("main", 1))
		ignored := w.newest()
		servertest.WantAt(t, ignored, fields{"state": "ignored", "reason": "build_branches is off"})
		w.ada.Patch(app, fields{"provider_settings": fields{"build_branches": true}}).Want(http.StatusOK)
		again := w.ada.Post(deliveries+"/"+ignored.String("id")+"/redeliver", nil).Want(http.StatusCreated)
		servertest.WantAt(t, again, fields{"state": "pending", "redelivery_of": ignored.String("id")})
		w.runDue()
		servertest.WantAt(t, w.newest(), fields{"id": again.String("id"), "state": "built"})
		w.wantBuilds(1)
	})
}

func TestDeliveries_AreInvisibleToOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.github("push", push("main", 1))
		id := w.newest().String("id")
		w.ada.Get(pipelinesPath + "/hello/webhook-deliveries/" + id).Want(http.StatusNotFound)
		w.ada.Get(deliveries + "/nonsense").Want(http.StatusNotFound)
		w.ada.Get(deliveries + "?after=x").Want(http.StatusBadRequest)
		w.As(t, "").Get(deliveries).Want(http.StatusUnauthorized)
	})
}

func TestPullRequest_FillsTheEnvironmentAndConditions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(app, fields{
			"provider_settings": fields{"filter_enabled": true, "filter_condition": `build.pull_request.labels includes "ci" && build.source_action == "opened"`},
			"configuration": `steps:
  - command: make
    if: build.pull_request.draft && build.source_event == "pull_request" && build.pull_request.base_branch == "main" && !build.pull_request.repository.fork`,
		}).Want(http.StatusOK)
		w.github("pull_request", pullRequest("synchronize", "acme/app", 1, 1))
		w.wantBuilds(0)
		w.github("pull_request", pullRequest("opened", "acme/app", 1, 2))
		w.wantBuilds(1)
		servertest.WantAt(t, w.builds(), fields{"0.branch": "tea", "0.message": "Add tea", "0.pull_request.id": "7", "0.pull_request.base": "main",
			"0.pull_request.repository": "https://github.com/acme/app.git"})
		job := w.builds().String("0.jobs.0.id")
		env := w.ada.Get(app + "/builds/1/jobs/" + job + "/env").Want(http.StatusOK)
		servertest.WantAt(t, env, fields{"env.SERVICE_PULL_REQUEST": "7", "env.SERVICE_PULL_REQUEST_BASE_BRANCH": "main", "env.SERVICE_PULL_REQUEST_DRAFT": "true",
			"env.SERVICE_PULL_REQUEST_LABELS": "ci", "env.SERVICE_SOURCE_EVENT": "pull_request", "env.SERVICE_SOURCE_ACTION": "opened", "env.SERVICE_SOURCE": "webhook"})
	})
}

func TestMergeGroup_FillsTheEnvironment(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(app, fields{"provider_settings": fields{"build_merge_group_checks_requested": true, "cancel_when_merge_group_destroyed": true, "use_merge_group_base_commit_for_git_diff_base": true}}).Want(http.StatusOK)
		group := func(action string) string {
			return `{"action":"` + action + `","merge_group":{"head_sha":"` + sha(1) + `","head_ref":"refs/heads/gh-readonly-queue/main/pr-7","base_sha":"` + sha(2) + `","base_ref":"refs/heads/main"},` + repository + `}`
		}
		w.github("merge_group", group("checks_requested"))
		w.wantBuilds(1)
		servertest.WantAt(t, w.builds(), fields{"0.branch": "gh-readonly-queue/main/pr-7", "0.merge_queue.base_branch": "main"})
		env := w.ada.Get(app + "/builds/1/jobs/" + w.builds().String("0.jobs.0.id") + "/env").Want(http.StatusOK)
		servertest.WantAt(t, env, fields{"env.SERVICE_MERGE_QUEUE_BASE_BRANCH": "main", "env.SERVICE_MERGE_QUEUE_BASE_COMMIT": sha(2), "env.SERVICE_GIT_DIFF_BASE": sha(2)})
		w.github("merge_group", group("destroyed"))
		servertest.WantAt(t, w.builds(), fields{"0.state": "canceled"})
	})
}

// Bitbucket Cloud sends twelve digits of the commits of pull requests.
func TestPullRequest_RecognizesShortCommits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.pipeline("Tea", "git@bitbucket.org:acme/tea.git", fields{"provider_settings": fields{"skip_builds_for_existing_commits": true}})
		hook := w.ada.Get(pipelinesPath + "/tea/webhook").Want(http.StatusOK)
		const repository = `"repository":{"full_name":"acme/tea","links":{"html":{"href":"https://bitbucket.org/acme/tea"}}}`
		send := func(event, body string) {
			w.As(t, "").With("X-Event-Key", event).With("X-Hub-Signature", "sha256="+signature(hook.String("secret"), body)).Post(hook.String("url"), body).Want(http.StatusAccepted)
			w.runDue()
		}
		pushed := func(branch, commit string) {
			send("repo:push", `{`+repository+`,"push":{"changes":[{"new":{"type":"branch","name":"`+branch+`","target":{"hash":"`+commit+`"}}}]}}`)
		}
		opened := func(number int, commit string) {
			send("pullrequest:created", fmt.Sprintf(`{%s,"pullrequest":{"id":%d,"source":{"branch":{"name":"dev"},"commit":{"hash":"%.12s"},%s},"destination":{"branch":{"name":"main"}}}}`, repository, number, commit, repository))
		}
		one, two := "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
		pushed("dev", one)
		opened(1, one)
		list := w.ada.Get(pipelinesPath + "/tea/builds").Want(http.StatusOK)
		servertest.WantEqual(t, "builds", list.Len(""), 1)
		opened(2, two)
		pushed("dev", two)
		list = w.ada.Get(pipelinesPath + "/tea/builds").Want(http.StatusOK)
		servertest.WantEqual(t, "builds", list.Len(""), 2)

		// Once the whole commit is known, builds have it.
		w.ada.Patch(pipelinesPath+"/tea", fields{"provider_settings": fields{"skip_pull_request_builds_for_existing_commits": false}}).Want(http.StatusOK)
		opened(3, one)
		servertest.WantAt(t, w.ada.Get(pipelinesPath+"/tea/builds"), fields{"0.commit": one, "1.commit": two[:12]})
	})
}

func TestDeletedBranch_CancelsItsBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(app, fields{"provider_settings": fields{"cancel_deleted_branch_builds": true}}).Want(http.StatusOK)
		w.github("push", push("tea", 1))
		w.github("push", push("main", 2))
		w.github("push", `{"ref":"refs/heads/tea","after":"0000000000000000000000000000000000000000","deleted":true,`+repository+`}`)
		servertest.WantAt(t, w.builds(), fields{"0.branch": "main", "0.state": "scheduled", "1.branch": "tea", "1.state": "canceled"})
	})
}

func TestProcess_KeepsTheOrderOfABurst(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const n = 120
		for i := range n {
			body := push("main", i)
			w.As(t, "").With("X-GitHub-Event", "push").With("X-Hub-Signature-256", "sha256="+signature(w.secret, body)).Post(w.url, body).Want(http.StatusAccepted)
		}
		w.runDue()
		for i, number := range []int{1, 60, n} {
			got := w.ada.Get(fmt.Sprintf("%s/builds/%d", app, number)).Want(http.StatusOK).String("commit")
			servertest.WantEqual(t, fmt.Sprint("commit ", i), got, sha(number-1))
		}
		// The oldest deliveries are removed.
		if got := w.ada.Get(deliveries + "?per_page=100").Want(http.StatusOK); got.Len("items") != 100 || got.At("links.next") != nil {
			t.Errorf("%d deliveries", got.Len("items"))
		}
	})
}

func TestHosts_EachWithItsOwnSignature(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for i, c := range []struct {
			repository, body string
			headers          func(secret, body string) fields
		}{
			{"https://gitlab.com/acme/tea.git",
				`{"object_kind":"push","ref":"refs/heads/main","after":"` + sha(1) + `","checkout_sha":"` + sha(1) + `","project":{"id":5,"path_with_namespace":"acme/tea","git_http_url":"https://gitlab.com/acme/tea.git"}}`,
				func(secret, _ string) fields {
					return fields{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": secret, "X-Gitlab-Event-UUID": "d1"}
				}},
			{"git@bitbucket.org:acme/tea.git",
				`{"repository":{"full_name":"acme/tea","links":{"html":{"href":"https://bitbucket.org/acme/tea"}}},"push":{"changes":[{"new":{"type":"branch","name":"main","target":{"hash":"` + sha(2) + `"}}},{"new":{"type":"branch","name":"dev","target":{"hash":"` + sha(2) + `"}}}]}}`,
				func(secret, body string) fields {
					return fields{"X-Event-Key": "repo:push", "X-Hub-Signature": "sha256=" + signature(secret, body), "X-Request-UUID": "d2"}
				}},
			{"https://bitbucket.acme.test/scm/acme/tea.git",
				`{"repository":{"id":84,"slug":"tea","project":{"key":"ACME"}},"changes":[{"refId":"refs/heads/main","toHash":"` + sha(3) + `","type":"UPDATE"}]}`,
				func(secret, body string) fields {
					return fields{"X-Event-Key": "repo:refs_changed", "X-Hub-Signature": "sha256=" + signature(secret, body), "X-Request-Id": "d3"}
				}},
			{"https://git.acme.test/acme/tea.git", // a Gitea whose name does not say so
				`{"ref":"refs/heads/main","after":"` + sha(4) + `","repository":{"full_name":"acme/tea","clone_url":"https://git.acme.test/acme/tea.git"}}`,
				func(secret, body string) fields {
					return fields{"X-Gitea-Event": "push", "X-GitHub-Event": "push", "X-Gitea-Signature": signature(secret, body), "X-Gitea-Delivery": "d4"}
				}},
		} {
			name := fmt.Sprint("host-", i)
			w.pipeline(name, c.repository, nil)
			hook := w.ada.Get(pipelinesPath + "/" + name + "/webhook").Want(http.StatusOK)
			send := func(secret string) *servertest.Response {
				sender := w.As(t, "")
				for header, value := range c.headers(secret, c.body) {
					sender = sender.With(header, value.(string))
				}
				return sender.Post(hook.String("url"), c.body)
			}
			send("wrong").Want(http.StatusUnauthorized)
			send(hook.String("secret")).Want(http.StatusAccepted)
			send(hook.String("secret")).Want(http.StatusAccepted) // sent again
			w.runDue()
			list := w.ada.Get(pipelinesPath + "/" + name + "/webhook-deliveries").Want(http.StatusOK)
			servertest.WantAt(t, list, fields{"items.0.state": "built", "items.0.delivery_id": fmt.Sprint("d", i+1)})
			if got := w.ada.Get(pipelinesPath + "/" + name + "/builds").Want(http.StatusOK); got.Len("") != list.Len("items.0.builds") || list.Len("items") != 1 {
				t.Errorf("%s: %s %s", name, list.Body, got.Body)
			}
			one := w.ada.Get(pipelinesPath + "/" + name + "/webhook-deliveries/" + list.String("items.0.id")).Want(http.StatusOK)
			if strings.Contains(string(one.Body), hook.String("secret")) {
				t.Errorf("the delivery shows the secret: %s", one.Body)
			}
		}
	})
}
