package hookpayload

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

const (
	sha  = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
	sha2 = "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"
	zero = "0000000000000000000000000000000000000000"
)

const ghRepo = `"repository":{"id":1,"full_name":"acme/app","html_url":"https://github.com/acme/app","clone_url":"https://github.com/acme/app.git","ssh_url":"git@github.com:acme/app.git","default_branch":"main","owner":{"login":"acme"}}`

var ghWant = Repository{Path: "acme/app", URLs: []string{"https://github.com/acme/app.git", "git@github.com:acme/app.git", "https://github.com/acme/app"}, DefaultBranch: "main"}

const ghPR = `"pull_request":{"number":7,"title":"Add tea","draft":true,"labels":[{"name":"ci"}],"user":{"login":"ada"},
	"head":{"ref":"tea","sha":"` + sha + `","repo":{"id":1,"full_name":"acme/app","clone_url":"https://github.com/acme/app.git","owner":{"login":"acme"}}},
	"base":{"ref":"main","sha":"` + sha2 + `"}}`

const ghForkPR = `"pull_request":{"number":7,"title":"Add tea","user":{"login":"eve"},
	"head":{"ref":"tea","sha":"` + sha + `","repo":{"id":2,"full_name":"eve/app","clone_url":"https://github.com/eve/app.git","owner":{"login":"eve"}}},
	"base":{"ref":"main","sha":"` + sha2 + `"}}`

var wantPull = Pull{Number: "7", Base: "main", Draft: true, Labels: []string{"ci"}, Owner: "acme", Head: Repository{Path: "acme/app", URLs: []string{"https://github.com/acme/app.git"}}}

func pull(change Change, label string) *Pull {
	p := wantPull
	p.Change, p.Label, p.Labels = change, label, []string{"ci"}
	return &p
}

func pullOfReader(change Change) *Pull {
	p := pull(change, "")
	p.Fork = true
	return p
}

const glProj = `"project":{"id":5,"path_with_namespace":"acme/tools/app","default_branch":"main","web_url":"https://gitlab.com/acme/tools/app","git_http_url":"https://gitlab.com/acme/tools/app.git","git_ssh_url":"git@gitlab.com:acme/tools/app.git"}`

var glWant = Repository{Path: "acme/tools/app", URLs: []string{"https://gitlab.com/acme/tools/app.git", "git@gitlab.com:acme/tools/app.git", "https://gitlab.com/acme/tools/app"}, DefaultBranch: "main"}

func glMR(attributes, more string) string {
	return `{"object_kind":"merge_request",` + glProj + `,"user":{"name":"Ada","username":"ada"},"labels":[{"id":1,"title":"ci"}],"object_attributes":{"iid":9,"title":"Add tea","source_branch":"tea","target_branch":"main","source_project_id":5,"target_project_id":5,
		"source":{"path_with_namespace":"acme/tools/app"},"last_commit":{"id":"` + sha + `","message":"Pour","author":{"name":"Ada","email":"ada@acme.test"}},` + attributes + `}` + more + `}`
}

func glPull(change Change, edit func(*Pull)) *Pull {
	p := &Pull{Number: "9", Change: change, Base: "main", Labels: []string{"ci"}, Owner: "acme", Head: Repository{Path: "acme/tools/app"}}
	if edit != nil {
		edit(p)
	}
	return p
}

const bbRepo = `"repository":{"full_name":"acme/app","links":{"html":{"href":"https://bitbucket.org/acme/app"}},"mainbranch":{"name":"main"}}`

var bbWant = Repository{Path: "acme/app", URLs: []string{"https://bitbucket.org/acme/app"}, DefaultBranch: "main"}

const bsRepo = `{"id":84,"slug":"app","project":{"key":"ACME"},"links":{"clone":[{"href":"https://bitbucket.acme.test/scm/acme/app.git","name":"http"}]}}`

var bsWant = Repository{Path: "ACME/app", URLs: []string{"https://bitbucket.acme.test/scm/acme/app.git"}}

// The bodies are written by hand from the documentation of the hosts, with the fields that are read.
func TestParse(t *testing.T) {
	ada := Person{Username: "ada", Name: "Ada", Email: "ada@acme.test"}
	for name, c := range map[string]struct {
		host  Host
		event string
		body  string
		want  []Event
	}{
		"github ping": {GitHub, "ping", `{"zen":"Speak like a human.","hook_id":1,` + ghRepo + `}`,
			[]Event{{Kind: Ping, Repository: ghWant}}},
		"github push": {GitHub, "push", `{"ref":"refs/heads/feature/tea","before":"` + sha2 + `","after":"` + sha + `","created":false,"deleted":false,` + ghRepo + `,"head_commit":{"id":"` + sha + `","message":"Pour","author":{"name":"Ada","email":"ada@acme.test","username":"ada"}}}`,
			[]Event{{Kind: Push, Repository: ghWant, Branch: "feature/tea", Commit: sha, Message: "Pour", Author: ada}}},
		"github push deletes": {GitHub, "push", `{"ref":"refs/heads/tea","after":"` + zero + `","deleted":true,"head_commit":null,` + ghRepo + `}`,
			[]Event{{Kind: Push, Repository: ghWant, Branch: "tea", Deleted: true}}},
		"github annotated tag": {GitHub, "push", `{"ref":"refs/tags/v1.0","after":"` + sha2 + `",` + ghRepo + `,"head_commit":{"id":"` + sha + `","message":"Pour"}}`,
			[]Event{{Kind: Tag, Repository: ghWant, Tag: "v1.0", Commit: sha, Message: "Pour"}}},
		"github notes": {GitHub, "push", `{"ref":"refs/notes/commits","after":"` + sha + `",` + ghRepo + `}`,
			[]Event{{Kind: Other, Repository: ghWant, Commit: sha}}},
		"github pull request opened": {GitHub, "pull_request", `{"action":"opened","number":7,` + ghPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "opened", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"}, Pull: pull(ChangeOpened, "")}}},
		"github pull request labeled": {GitHub, "pull_request", `{"action":"labeled","number":7,"label":{"name":"ci"},` + ghPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "labeled", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"}, Pull: pull(ChangeLabels, "ci")}}},
		"github pull request with another base": {GitHub, "pull_request", `{"action":"edited","number":7,"changes":{"base":{"ref":{"from":"old"}}},` + ghPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "edited", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"}, Pull: pull(ChangeBase, "")}}},
		"github pull request with another title": {GitHub, "pull_request", `{"action":"edited","number":7,"changes":{"title":{"from":"old"}},` + ghPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "edited", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"}, Pull: pull(ChangeOther, "")}}},
		"github pull request from a fork": {GitHub, "pull_request", `{"action":"synchronize","number":7,` + ghForkPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "synchronize", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "eve"},
				Pull: &Pull{Number: "7", Change: ChangeCommits, Base: "main", Owner: "eve", Fork: true, Head: Repository{Path: "eve/app", URLs: []string{"https://github.com/eve/app.git"}}}}}},
		"github pull request from a deleted fork": {GitHub, "pull_request", `{"action":"opened","number":7,"pull_request":{"number":7,"head":{"ref":"tea","sha":"` + sha + `","repo":null},"base":{"ref":"main"}},` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "opened", Repository: ghWant, Branch: "tea", Commit: sha, Pull: &Pull{Number: "7", Change: ChangeOpened, Base: "main", Fork: true}}}},
		"github merge group": {GitHub, "merge_group", `{"action":"checks_requested","merge_group":{"head_sha":"` + sha + `","head_ref":"refs/heads/gh-readonly-queue/main/pr-7-` + sha2 + `","base_sha":"` + sha2 + `","base_ref":"refs/heads/main","head_commit":{"id":"` + sha + `","message":"Merge"}},` + ghRepo + `}`,
			[]Event{{Kind: MergeGroup, Action: "checks_requested", Repository: ghWant, Branch: "gh-readonly-queue/main/pr-7-" + sha2, Commit: sha, Message: "Merge", Queue: &Queue{"main", sha2}}}},
		"github merge group destroyed": {GitHub, "merge_group", `{"action":"destroyed","reason":"merged","merge_group":{"head_sha":"` + sha + `","head_ref":"refs/heads/gh-readonly-queue/main/pr-7","base_sha":"` + sha2 + `","base_ref":"refs/heads/main"},` + ghRepo + `}`,
			[]Event{{Kind: MergeGroupFinished, Action: "destroyed", Repository: ghWant, Branch: "gh-readonly-queue/main/pr-7", Commit: sha, Queue: &Queue{"main", sha2}}}},
		"github deployment": {GitHub, "deployment", `{"action":"created","deployment":{"sha":"` + sha + `","ref":"main","description":"To production","creator":{"login":"ada"}},` + ghRepo + `}`,
			[]Event{{Kind: Deployment, Action: "created", Repository: ghWant, Branch: "main", Commit: sha, Message: "To production", Author: Person{Username: "ada"}}}},
		"github fork":  {GitHub, "fork", `{"forkee":{"full_name":"eve/app"},` + ghRepo + `}`, []Event{{Kind: Fork, Repository: ghWant}}},
		"github issue": {GitHub, "issues", `{"action":"opened",` + ghRepo + `}`, []Event{{Kind: Other, Action: "opened", Repository: ghWant}}},

		"gitea push": {Gitea, "push", `{"ref":"refs/heads/main","before":"` + sha2 + `","after":"` + sha + `",` + ghRepo + `,"head_commit":{"id":"` + sha + `","message":"Pour\n","author":{"name":"Ada","email":"ada@acme.test","username":"ada"}}}`,
			[]Event{{Kind: Push, Repository: ghWant, Branch: "main", Commit: sha, Message: "Pour", Author: ada}}},
		"gitea delete": {Gitea, "delete", `{"ref":"tea","ref_type":"branch","pusher_type":"user",` + ghRepo + `}`,
			[]Event{{Kind: Push, Repository: ghWant, Branch: "tea", Deleted: true}}},
		"gitea pull request": {Gitea, "pull_request", `{"action":"synchronized","number":7,` + ghPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "synchronized", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"}, Pull: pull(ChangeCommits, "")}}},

		"gitea pull request from a fork": {Gitea, "pull_request", `{"action":"opened","number":7,` + ghForkPR + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "opened", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "eve"},
				Pull: &Pull{Number: "7", Change: ChangeOpened, Base: "main", Owner: "eve", Fork: true, Head: Repository{Path: "eve/app", URLs: []string{"https://github.com/eve/app.git"}}}}}},
		"gitea pull request of a reader without a fork": {Gitea, "pull_request", `{"action":"opened","number":7,` + strings.Replace(ghPR, `"ref":"tea"`, `"ref":"refs/pull/7/head"`, 1) + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "opened", Repository: ghWant, Branch: "refs/pull/7/head", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"},
				Pull: pullOfReader(ChangeOpened)}}},
		"forgejo pull request of a reader without a fork": {Gitea, "pull_request", `{"action":"opened","number":7,` + strings.Replace(ghPR, `"number":7`, `"number":7,"flow":1`, 1) + `,` + ghRepo + `}`,
			[]Event{{Kind: PullRequest, Action: "opened", Repository: ghWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: Person{Username: "ada"},
				Pull: pullOfReader(ChangeOpened)}}},

		"gitlab push": {GitLab, "Push Hook", `{"object_kind":"push","ref":"refs/heads/main","after":"` + sha + `","checkout_sha":"` + sha + `","user_name":"Bo","user_username":"bo",` + glProj + `,"commits":[{"id":"` + sha2 + `","message":"Boil"},{"id":"` + sha + `","message":"Pour","author":{"name":"Ada","email":"ada@acme.test"}}]}`,
			[]Event{{Kind: Push, Repository: glWant, Branch: "main", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}}}},
		"gitlab push deletes": {GitLab, "Push Hook", `{"object_kind":"push","ref":"refs/heads/tea","after":"` + zero + `","checkout_sha":null,` + glProj + `}`,
			[]Event{{Kind: Push, Repository: glWant, Branch: "tea", Deleted: true}}},
		"gitlab tag": {GitLab, "Tag Push Hook", `{"object_kind":"tag_push","ref":"refs/tags/v1.0","after":"` + sha2 + `","checkout_sha":"` + sha + `","message":"First","user_name":"Ada","user_username":"ada","user_email":"ada@acme.test",` + glProj + `}`,
			[]Event{{Kind: Tag, Repository: glWant, Tag: "v1.0", Commit: sha, Message: "First", Author: ada}}},
		"gitlab merge request opened": {GitLab, "Merge Request Hook", glMR(`"action":"open"`, ""),
			[]Event{{Kind: PullRequest, Action: "open", Repository: glWant, Branch: "tea", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}, Pull: glPull(ChangeOpened, nil)}}},
		"gitlab merge request gets commits": {GitLab, "Merge Request Hook", glMR(`"action":"update","oldrev":"`+sha2+`"`, ""),
			[]Event{{Kind: PullRequest, Action: "update", Repository: glWant, Branch: "tea", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}, Pull: glPull(ChangeCommits, nil)}}},
		"gitlab merge request gets a label": {GitLab, "Merge Request Hook", glMR(`"action":"update"`, `,"changes":{"labels":{"previous":[{"title":"old"}],"current":[{"title":"old"},{"title":"ci"}]}}`),
			[]Event{{Kind: PullRequest, Action: "update", Repository: glWant, Branch: "tea", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}, Pull: glPull(ChangeLabels, func(p *Pull) { p.Label = "ci" })}}},
		"gitlab merge request gets ready": {GitLab, "Merge Request Hook", glMR(`"action":"update"`, `,"changes":{"draft":{"previous":true,"current":false}}`),
			[]Event{{Kind: PullRequest, Action: "update", Repository: glWant, Branch: "tea", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}, Pull: glPull(ChangeReady, nil)}}},
		"gitlab merge request from a fork": {GitLab, "Merge Request Hook", glMR(`"action":"open","source_project_id":6`, ""),
			[]Event{{Kind: PullRequest, Action: "open", Repository: glWant, Branch: "tea", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}, Pull: glPull(ChangeOpened, func(p *Pull) { p.Fork = true })}}},
		"gitlab merge request of another project": {GitLab, "Merge Request Hook", glMR(`"action":"open","source_project_id":6,"target_project_id":6`, ""),
			[]Event{{Kind: PullRequest, Action: "open", Repository: glWant, Branch: "tea", Commit: sha, Message: "Pour", Author: Person{Name: "Ada", Email: "ada@acme.test"}, Pull: glPull(ChangeOpened, func(p *Pull) { p.Fork = true })}}},

		"bitbucket push of a branch and a tag": {Bitbucket, "repo:push", `{` + bbRepo + `,"push":{"changes":[
				{"old":null,"new":{"type":"branch","name":"main","target":{"hash":"` + sha + `","message":"Pour","author":{"raw":"Ada <ada@acme.test>","user":{"nickname":"ada"}}}}},
				{"old":null,"new":{"type":"tag","name":"v1","target":{"hash":"` + sha + `"}}},
				{"old":{"type":"branch","name":"tea","target":{"hash":"` + sha2 + `"}},"new":null}]}}`,
			[]Event{
				{Kind: Push, Repository: bbWant, Branch: "main", Commit: sha, Message: "Pour", Author: ada},
				{Kind: Tag, Repository: bbWant, Tag: "v1", Commit: sha},
				{Kind: Push, Repository: bbWant, Branch: "tea", Deleted: true}}},
		"bitbucket pull request": {Bitbucket, "pullrequest:created", `{` + bbRepo + `,"pullrequest":{"id":3,"title":"Add tea","author":{"nickname":"ada","display_name":"Ada"},
				"source":{"branch":{"name":"tea"},"commit":{"hash":"6dcb09b5b578"},"repository":{"full_name":"acme/app"}},"destination":{"branch":{"name":"main"}}}}`,
			[]Event{{Kind: PullRequest, Action: "created", Repository: bbWant, Branch: "tea", Commit: "6dcb09b5b578", Message: "Add tea", Author: Person{Username: "ada", Name: "Ada"},
				Pull: &Pull{Number: "3", Change: ChangeOpened, Base: "main", Owner: "acme", Head: Repository{Path: "acme/app"}}}}},
		"bitbucket pull request from a fork": {Bitbucket, "pullrequest:updated", `{` + bbRepo + `,"pullrequest":{"id":3,
				"source":{"branch":{"name":"tea"},"commit":{"hash":"6dcb09b5b578"},"repository":{"full_name":"eve/app"}},"destination":{"branch":{"name":"main"}}}}`,
			[]Event{{Kind: PullRequest, Action: "updated", Repository: bbWant, Branch: "tea", Commit: "6dcb09b5b578",
				Pull: &Pull{Number: "3", Change: ChangeCommits, Base: "main", Owner: "eve", Fork: true, Head: Repository{Path: "eve/app"}}}}},
		"bitbucket pull request from a repository of the same name": {Bitbucket, "pullrequest:created", `{"repository":{"uuid":"{1}","full_name":"acme/app"},"pullrequest":{"id":3,
				"source":{"branch":{"name":"tea"},"repository":{"uuid":"{2}","full_name":"acme/app"}},"destination":{"branch":{"name":"main"}}}}`,
			[]Event{{Kind: PullRequest, Action: "created", Repository: Repository{Path: "acme/app"}, Branch: "tea",
				Pull: &Pull{Number: "3", Change: ChangeOpened, Base: "main", Owner: "acme", Fork: true, Head: Repository{Path: "acme/app"}}}}},

		"bitbucket server ping": {BitbucketServer, "diagnostics:ping", `{"test":true}`, []Event{{Kind: Ping}}},
		"bitbucket server push": {BitbucketServer, "repo:refs_changed", `{"actor":{"name":"bo","displayName":"Bo"},"repository":` + bsRepo + `,"changes":[{"refId":"refs/heads/main","toHash":"` + sha + `","type":"UPDATE"},{"refId":"refs/tags/v1","toHash":"` + sha2 + `","type":"ADD"},{"refId":"refs/heads/tea","toHash":"` + zero + `","type":"DELETE"}],
				"toCommit":{"id":"` + sha + `","message":"Pour","author":{"name":"ada","displayName":"Ada","emailAddress":"ada@acme.test"}}}`,
			[]Event{
				{Kind: Push, Repository: bsWant, Branch: "main", Commit: sha, Message: "Pour", Author: ada},
				{Kind: Tag, Repository: bsWant, Tag: "v1", Commit: sha2, Author: Person{Username: "bo", Name: "Bo"}},
				{Kind: Push, Repository: bsWant, Branch: "tea", Deleted: true}}},
		"bitbucket server pull request": {BitbucketServer, "pr:from_ref_updated", `{"pullRequest":{"id":4,"title":"Add tea","author":{"user":{"name":"ada","displayName":"Ada","emailAddress":"ada@acme.test"}},
				"fromRef":{"id":"refs/heads/tea","latestCommit":"` + sha + `","repository":` + bsRepo + `},"toRef":{"id":"refs/heads/main","repository":` + bsRepo + `}}}`,
			[]Event{{Kind: PullRequest, Action: "from_ref_updated", Repository: bsWant, Branch: "tea", Commit: sha, Message: "Add tea", Author: ada,
				Pull: &Pull{Number: "4", Change: ChangeCommits, Base: "main", Owner: "ACME", Head: bsWant}}}},
		"bitbucket server pull request from a fork": {BitbucketServer, "pr:opened", `{"pullRequest":{"id":4,
				"fromRef":{"id":"refs/heads/tea","latestCommit":"` + sha + `","repository":{"id":85,"slug":"app","project":{"key":"~EVE"}}},"toRef":{"id":"refs/heads/main","repository":` + bsRepo + `}}}`,
			[]Event{{Kind: PullRequest, Action: "opened", Repository: bsWant, Branch: "tea", Commit: sha,
				Pull: &Pull{Number: "4", Change: ChangeOpened, Base: "main", Owner: "~EVE", Fork: true, Head: Repository{Path: "~EVE/app"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.host, c.event, "application/json", []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.want {
				c.want[i].Name = c.event
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
				for i := range got {
					t.Logf("pull %+v, queue %+v", got[i].Pull, got[i].Queue)
				}
			}
		})
	}
}

func TestParse_ReadsTheJSONOfAForm(t *testing.T) {
	form := url.Values{"payload": {`{"ref":"refs/heads/main","after":"` + sha + `",` + ghRepo + `}`}}.Encode()
	got, err := Parse(GitHub, "push", "application/x-www-form-urlencoded", []byte(form))
	if err != nil || got[0].Branch != "main" {
		t.Fatal(got, err)
	}
}

func TestParse_Refuses(t *testing.T) {
	push := func(ref, after string) string { return `{"ref":"refs/heads/` + ref + `","after":"` + after + `"}` }
	change := `{"new":{"type":"branch","name":"x","target":{"hash":"` + sha + `"}}},`
	for name, c := range map[string]struct {
		host              Host
		event, kind, body string
		want              string
	}{
		"not JSON":            {GitHub, "push", "", "hello", "not a webhook of this host"},
		"an array":            {GitLab, "Push Hook", "", "[]", "not a webhook of this host"},
		"an unknown host":     {"svn", "push", "", "{}", `unknown source host "svn"`},
		"an option":           {GitHub, "push", "", push("--upload-pack=x", sha), "branch in the body is not a valid name"},
		"a line break":        {GitHub, "push", "", push(`a\nb`, sha), "branch in the body is not a valid name"},
		"a null character":    {GitHub, "push", "", push(`a\u0000`, sha), "branch in the body is not a valid name"},
		"a long branch":       {GitHub, "push", "", push(strings.Repeat("a", 256), sha), "branch in the body is not a valid name"},
		"a commit":            {GitHub, "push", "", push("main", "$(id)"), "not a SHA"},
		"a form":              {GitHub, "push", "application/x-www-form-urlencoded", "a=b", "set the content type of the webhook to application/json"},
		"many branches":       {Bitbucket, "repo:push", "", `{"push":{"changes":[` + strings.TrimSuffix(strings.Repeat(change, 51), ",") + `]}}`, "51 branches and tags"},
		"a large body":        {GitHub, "push", "", `"` + strings.Repeat("a", MaxBody) + `"`, "larger than"},
		"a base that is none": {GitHub, "pull_request", "", `{"pull_request":{"base":{"ref":"-x"}}}`, "base branch in the body is not a valid name"},
	} {
		_, err := Parse(c.host, c.event, c.kind, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestHostOf(t *testing.T) {
	for _, c := range []struct {
		headers  map[string]string
		host     Host
		event    string
		delivery string
	}{
		{map[string]string{"X-GitHub-Event": "push", "X-GitHub-Delivery": "d1"}, GitHub, "push", "d1"},
		{map[string]string{"X-GitHub-Event": "push", "X-Gitea-Event": "push", "X-Gitea-Delivery": "d2", "X-GitHub-Delivery": "d2"}, Gitea, "push", "d2"},
		{map[string]string{"X-GitHub-Event": "push", "X-Forgejo-Event": "push", "X-Forgejo-Delivery": "d3"}, Gitea, "push", "d3"},
		{map[string]string{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Event-UUID": "d4"}, GitLab, "Push Hook", "d4"},
		{map[string]string{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Event-UUID": "u", "Idempotency-Key": "d5"}, GitLab, "Push Hook", "d5"},
		{map[string]string{"X-Event-Key": "repo:push", "X-Request-UUID": "d6"}, Bitbucket, "repo:push", "d6"},
		{map[string]string{"X-Event-Key": "repo:refs_changed", "X-Request-Id": "d7"}, BitbucketServer, "repo:refs_changed", "d7"},
		{map[string]string{"X-Event-Key": "pr:opened"}, BitbucketServer, "pr:opened", ""},
		{nil, "", "", ""},
	} {
		h := http.Header{}
		for name, value := range c.headers {
			h.Set(name, value)
		}
		host, event, ok := HostOf(h)
		if host != c.host || event != c.event || ok != (c.host != "") || DeliveryID(host, h) != c.delivery {
			t.Errorf("%v: %s %s %q", c.headers, host, event, DeliveryID(host, h))
		}
	}
}

// fuzz checks that events of any body have only names and texts that can be stored and given to Git.
func fuzz(f *testing.F, host Host, seeds map[string]string) {
	for event, body := range seeds {
		f.Add(event, body)
	}
	f.Fuzz(func(t *testing.T, event, body string) {
		events, err := Parse(host, event, "application/json", []byte(body))
		if err != nil {
			return
		}
		if len(events) == 0 || len(events) > MaxEvents {
			t.Fatalf("%d events", len(events))
		}
		for _, e := range events {
			if !isRef(e.Branch) || !isRef(e.Tag) || !isCommit(e.Commit) || len(e.Message) > maxMessage || strings.ContainsRune(e.Message, 0) {
				t.Errorf("%+v", e)
			}
			if e.Kind == PullRequest && e.Pull == nil || e.Kind == MergeGroup && e.Queue == nil {
				t.Errorf("%+v", e)
			}
		}
	})
}

func FuzzGitHub(f *testing.F) {
	fuzz(f, GitHub, map[string]string{"push": `{"ref":"refs/heads/main","after":"` + sha + `"}`, "pull_request": `{"action":"opened",` + ghPR + `}`, "merge_group": `{"action":"destroyed","merge_group":{}}`, "deployment": `{"deployment":{}}`})
}

func FuzzGitea(f *testing.F) {
	fuzz(f, Gitea, map[string]string{"push": `{"ref":"refs/tags/v1","after":"` + sha + `"}`, "delete": `{"ref":"x","ref_type":"branch"}`, "pull_request": `{` + ghForkPR + `}`})
}

func FuzzGitLab(f *testing.F) {
	fuzz(f, GitLab, map[string]string{"Push Hook": `{"ref":"refs/heads/main","after":"` + sha + `"}`, "Merge Request Hook": glMR(`"action":"update"`, `,"changes":{"labels":{"current":[{"title":"x"}]}}`)})
}

func FuzzBitbucket(f *testing.F) {
	fuzz(f, Bitbucket, map[string]string{"repo:push": `{"push":{"changes":[{"new":{"type":"branch","name":"main"}},{}]}}`, "pullrequest:created": `{"pullrequest":{}}`})
}

func FuzzBitbucketServer(f *testing.F) {
	fuzz(f, BitbucketServer, map[string]string{"repo:refs_changed": `{"changes":[{"refId":"refs/heads/main","toHash":"` + sha + `"}]}`, "pr:opened": `{"pullRequest":{"fromRef":{"repository":` + bsRepo + `}}}`})
}
