package verify

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// A workshop is what the kit makes by the REST API to have jobs: a queue in the cluster of the agent token,
// so that nobody else takes them, and a pipeline whose steps go there.
type workshop struct {
	clusterID string
	queue     string // key
	pipeline  string // slug
	// unused are scheduled jobs that no rule has used yet, by the keys of their steps.
	unused map[string][]string
	// unlisted says that the jobs of a build have not come into the list, so that no others are waited for.
	unlisted bool
}

// The keys of the steps of the workshop's pipeline.
const (
	plain      = "plain"
	retried    = "retried"
	notRetried = "not-retried"
	gate       = "gate" // which is no command
)

// steps are those of the workshop's pipeline. Each build has some jobs that nothing is special about, and
// one of each other kind that a rule is about.
const steps = `
agents: {queue: %s}
steps:
  - {key: plain, command: echo verify, parallelism: 20}
  - {command: echo this step has no key}
  - key: retried
    command: echo retried
    retry: {automatic: [{exit_status: -1, limit: 1}]}
  - key: not-retried
    command: echo not retried
    retry: {automatic: [{exit_status: -1, signal_reason: stack_error, limit: 0}, {exit_status: "*", limit: 1}]}
  - {key: gate, block: Nobody is to unblock this}
`

// needsJobs is why rules are skipped where there is no REST token.
const needsJobs = "it needs jobs, queues or tokens of its own; give --rest-token, and they are made and removed again"

// shop returns the workshop, or skips the rule where there can be none.
func (t *trial) shop() *workshop {
	switch {
	case t.RESTToken == "":
		t.skip(needsJobs)
	case t.broken != nil:
		t.skip("what it needs cannot be made: %v", t.broken)
	case t.workshop == nil:
		if t.broken = t.setUp(); t.broken != nil {
			t.skip("what it needs cannot be made: %v", t.broken)
		}
	}
	return t.workshop
}

// setUp makes the workshop, without jobs as yet.
func (k *kit) setUp() error {
	token, err := k.server.send(k.ctx, request{method: http.MethodGet, url: k.server.agentURL + "/token", auth: "Token " + k.Token})
	if err != nil {
		return err
	}
	k.org = token.text("organization_slug")
	w := &workshop{clusterID: token.text("cluster_uuid"), queue: k.name(), unused: map[string][]string{}}
	if k.org == "" || w.clusterID == "" {
		return errors.New("GET /v3/token does not tell the agent token's organization_slug and cluster_uuid")
	}
	if _, err := k.makeQueue(w.clusterID, w.queue); err != nil {
		return err
	}
	if w.pipeline, err = k.makePipeline(w.clusterID, w.queue); err != nil {
		return err
	}
	k.workshop = w
	return nil
}

// An undoing takes down one thing that the kit has made.
type undoing struct {
	what string
	request
	// superfluous where it may be refused because there is nothing to do any more.
	superfluous bool
}

// rest makes a call of the REST API, below the organization's path.
func (k *kit) rest(method, path string, body any) (*answer, error) {
	a, err := k.server.send(k.ctx, k.restRequest(method, path, body))
	if err == nil && !a.ok() {
		err = fmt.Errorf("%s %s answered %d: %s", method, path, a.status, a.text("message"))
	}
	return a, err
}

func (k *kit) restRequest(method, path string, body any) request {
	return request{
		method: method, url: k.server.restURL + "/organizations/" + url.PathEscape(k.org) + path,
		auth: "Bearer " + k.RESTToken, body: body,
	}
}

// undo remembers to take something down.
func (k *kit) undo(what, path string) {
	k.undoings = append(k.undoings, undoing{what: what, request: k.restRequest(http.MethodDelete, path, nil)})
}

// makeQueue makes a queue and returns its id.
func (k *kit) makeQueue(clusterID, key string) (string, error) {
	path := "/clusters/" + clusterID + "/queues"
	a, err := k.rest(http.MethodPost, path, fields{"key": key, "description": "Made by stackyard stack verify"})
	if err != nil {
		return "", err
	}
	k.undo("the queue "+key, path+"/"+a.text("id"))
	return a.text("id"), nil
}

// makePipeline makes a pipeline whose steps go to a queue, and returns its slug.
func (k *kit) makePipeline(clusterID, queue string) (string, error) {
	a, err := k.rest(http.MethodPost, "/pipelines", fields{
		"name": "Stack verify " + k.name(), "repository": "https://git.example.test/verify.git",
		"cluster_id": clusterID, "configuration": fmt.Sprintf(steps, queue),
	})
	if err != nil {
		return "", err
	}
	k.undo("the pipeline "+a.text("slug"), "/pipelines/"+a.text("slug"))
	return a.text("slug"), nil
}

// makeToken makes an agent token and returns its path and its text.
func (t *trial) makeToken(clusterID string) (path, token string) {
	a := t.mustREST(http.MethodPost, "/clusters/"+clusterID+"/tokens", fields{"description": "Made by stackyard stack verify"})
	path, token = "/clusters/"+clusterID+"/tokens/"+a.text("id"), a.text("token")
	t.server.hide(token)
	t.undo("an agent token", path)
	return path, token
}

// mustREST makes a call of the REST API that the rule needs; it is skipped where that is refused.
func (t *trial) mustREST(method, path string, body any) *answer {
	a, err := t.rest(method, path, body)
	if err != nil {
		t.skip("what it needs cannot be made: %v", err)
	}
	return a
}

// build makes a build, and waits until its jobs can be listed.
func (t *trial) build() {
	w := t.shop()
	if w.unlisted {
		t.skip("the jobs of new builds do not come into the list")
	}
	path := "/pipelines/" + w.pipeline + "/builds"
	build := t.mustREST(http.MethodPost, path, fields{"commit": "HEAD", "branch": "main", "message": "stackyard stack verify"})
	cancel := fmt.Sprintf("%s/%v/cancel", path, build.at("number"))
	t.undoings = append(t.undoings, undoing{"a build", t.restRequest(http.MethodPut, cancel, nil), true})
	ids := jobsOf(build, plain)
	w.unlisted = true
	if len(ids) == 0 {
		t.skip("a build has no jobs of the step %s, though the pipeline has", plain)
	}
	t.eventually("the jobs of a new build in the list", func() (*answer, bool) {
		a := t.whole()
		there := listed(a)
		return a, !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(there, id) })
	})
	w.unlisted = false
	for _, key := range []string{plain, retried, notRetried, gate} {
		w.unused[key] = append(w.unused[key], jobsOf(build, key)...)
	}
}

// jobsOf returns the ids of a build's jobs of a step.
func jobsOf(build *answer, stepKey string) []string {
	var ids []string
	for i := range build.list("jobs") {
		at := fmt.Sprintf("jobs.%d.", i)
		if build.text(at+"step_key") == stepKey {
			ids = append(ids, build.text(at+"id"))
		}
	}
	return ids
}

// listed returns the ids of a list.
func listed(a *answer) []string {
	ids := []string{}
	for i := range a.list("jobs") {
		ids = append(ids, a.text(fmt.Sprintf("jobs.%d.id", i)))
	}
	return ids
}

// take returns jobs of a step that no other rule uses.
func (t *trial) take(stepKey string, n int) []string {
	w := t.shop()
	for len(w.unused[stepKey]) < n {
		before := len(w.unused[stepKey])
		if t.build(); len(w.unused[stepKey]) == before {
			t.skip("a build has no jobs of the step %s, though the pipeline has", stepKey)
		}
	}
	some := w.unused[stepKey][:n]
	w.unused[stepKey] = w.unused[stepKey][n:]
	return some
}

func (t *trial) jobs(n int) []string { return t.take(plain, n) }

func (t *trial) job() string { return t.jobs(1)[0] }

// forget keeps a job from being used by other rules.
func (t *trial) forget(job string) {
	for key, ids := range t.workshop.unused {
		t.workshop.unused[key] = slices.DeleteFunc(ids, func(id string) bool { return id == job })
	}
}

// patience is how many seconds something may take that the server does by itself.
const patience = 10

// eventually wants something to come true.
func (t *trial) eventually(what string, look func() (*answer, bool)) {
	for range patience {
		if _, ok := look(); ok {
			return
		}
		t.server.sleep(t.ctx, 1)
	}
	if a, ok := look(); !ok {
		t.fail(a, what, fmt.Sprintf("not within %d seconds", patience))
	}
}

// reserve reserves jobs for a stack, for a number of seconds.
func (t *trial) reserve(key string, expiry int, jobs ...string) *answer {
	return t.call(batchReserve, key, "", fields{"job_uuids": jobs, "reservation_expiry_seconds": expiry})
}

// reserved returns a job that a stack has reserved for a number of seconds.
func (t *trial) reserved(key string, expiry int) string {
	job := t.job()
	t.contains(t.reserve(key, expiry, job), "reserved", job)
	return job
}

// A second is another cluster, with a job in it.
type second struct {
	token string // an agent token of it
	job   string
}

// other returns the other cluster, or skips the rule where none can be made.
func (t *trial) other() *second {
	t.shop()
	if t.second != nil {
		return t.second
	}
	name, queue := t.name(), t.name()
	cluster := t.mustREST(http.MethodPost, "/clusters", fields{"name": name, "description": "Made by stackyard stack verify"}).text("id")
	t.undo("the cluster "+name, "/clusters/"+cluster)
	_, err := t.makeQueue(cluster, queue)
	var pipeline string
	if err == nil {
		pipeline, err = t.makePipeline(cluster, queue)
	}
	if err != nil {
		t.skip("what it needs cannot be made: %v", err)
	}
	build := t.mustREST(http.MethodPost, "/pipelines/"+pipeline+"/builds", fields{"commit": "HEAD", "branch": "main"})
	ids := jobsOf(build, plain)
	if len(ids) == 0 {
		t.skip("a build has no jobs of the step %s, though the pipeline has", plain)
	}
	_, token := t.makeToken(cluster)
	t.second = &second{token: token, job: ids[0]}
	return t.second
}
