package verify

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// A fixture is what the suite creates with the REST API to have jobs: a queue in the agent token's cluster,
// which no other stack uses, and a pipeline whose steps use it.
type fixture struct {
	clusterID string
	queue     string // key
	pipeline  string // slug
	// unused contains scheduled jobs that no rule has used yet, by step key.
	unused map[string][]string
	// unlisted is set if the jobs of a build did not appear in the list. Then no rule waits for others.
	unlisted bool
}

// The step keys of the fixture's pipeline.
const (
	plain      = "plain"
	retried    = "retried"
	notRetried = "not-retried"
	gate       = "gate" // which is no command
)

// steps are the steps of the fixture's pipeline. Each build has some plain jobs, and one job of each other kind
// that a rule needs.
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
  - {key: gate, block: Do not unblock this step}
`

// needsJobs is why rules are skipped without a REST token.
const needsJobs = "needs its own jobs, queues or tokens; pass --rest-token to create and remove them"

// needFixture returns the fixture, or skips the rule if there is none.
func (t *checker) needFixture() *fixture {
	switch {
	case t.RESTToken == "":
		t.skip(needsJobs)
	case t.broken != nil:
		t.skip("create fixture failed: %v", t.broken)
	case t.fixture == nil:
		if t.broken = t.setUp(); t.broken != nil {
			t.skip("create fixture failed: %v", t.broken)
		}
	}
	return t.fixture
}

// setUp creates the fixture, without jobs yet.
func (k *suite) setUp() error {
	token, err := k.server.send(k.ctx, request{method: http.MethodGet, url: k.server.agentURL + "/token", auth: "Token " + k.Token})
	if err != nil {
		return err
	}
	k.org = token.text("organization_slug")
	w := &fixture{clusterID: token.text("cluster_uuid"), queue: k.name(), unused: map[string][]string{}}
	if k.org == "" || w.clusterID == "" {
		return errors.New("GET /v3/token does not return the agent token's organization_slug and cluster_uuid")
	}
	if _, err := k.makeQueue(w.clusterID, w.queue); err != nil {
		return err
	}
	if w.pipeline, err = k.makePipeline(w.clusterID, w.queue); err != nil {
		return err
	}
	k.fixture = w
	return nil
}

// A cleanup deletes one thing that the suite created.
type cleanup struct {
	what string
	request
	// optional means that it may be refused because nothing is left to do.
	optional bool
}

// rest makes a REST call below the organization's path.
func (k *suite) rest(method, path string, body any) (*response, error) {
	a, err := k.server.send(k.ctx, k.restRequest(method, path, body))
	if err == nil && !a.ok() {
		err = fmt.Errorf("%s %s answered %d: %s", method, path, a.status, a.text("message"))
	}
	return a, err
}

func (k *suite) restRequest(method, path string, body any) request {
	return request{
		method: method, url: k.server.restURL + "/organizations/" + url.PathEscape(k.org) + path,
		auth: "Bearer " + k.RESTToken, body: body,
	}
}

// deleteLater schedules the deletion of something for the cleanup.
func (k *suite) deleteLater(what, path string) {
	k.cleanups = append(k.cleanups, cleanup{what: what, request: k.restRequest(http.MethodDelete, path, nil)})
}

// makeQueue creates a queue and returns its id.
func (k *suite) makeQueue(clusterID, key string) (string, error) {
	path := "/clusters/" + clusterID + "/queues"
	a, err := k.rest(http.MethodPost, path, fields{"key": key, "description": "Made by stackyard stack verify"})
	if err != nil {
		return "", err
	}
	k.deleteLater("the queue "+key, path+"/"+a.text("id"))
	return a.text("id"), nil
}

// makePipeline creates a pipeline whose steps use a queue, and returns its slug.
func (k *suite) makePipeline(clusterID, queue string) (string, error) {
	a, err := k.rest(http.MethodPost, "/pipelines", fields{
		"name": "Stack verify " + k.name(), "repository": "https://git.example.test/verify.git",
		"cluster_id": clusterID, "configuration": fmt.Sprintf(steps, queue),
	})
	if err != nil {
		return "", err
	}
	k.deleteLater("the pipeline "+a.text("slug"), "/pipelines/"+a.text("slug"))
	return a.text("slug"), nil
}

// makeToken creates an agent token and returns its path and its text.
func (t *checker) makeToken(clusterID string) (path, token string) {
	a := t.mustREST(http.MethodPost, "/clusters/"+clusterID+"/tokens", fields{"description": "Made by stackyard stack verify"})
	path, token = "/clusters/"+clusterID+"/tokens/"+a.text("id"), a.text("token")
	t.server.hide(token)
	t.deleteLater("an agent token", path)
	return path, token
}

// mustREST makes a REST call that the rule needs. If it fails, the rule is skipped.
func (t *checker) mustREST(method, path string, body any) *response {
	a, err := t.rest(method, path, body)
	if err != nil {
		t.skip("create fixture failed: %v", err)
	}
	return a
}

// build creates a build and waits until its jobs are in the list.
func (t *checker) build() {
	w := t.needFixture()
	if w.unlisted {
		t.skip("the jobs of new builds do not come into the list")
	}
	path := "/pipelines/" + w.pipeline + "/builds"
	build := t.mustREST(http.MethodPost, path, fields{"commit": "HEAD", "branch": "main", "message": "stackyard stack verify"})
	cancel := fmt.Sprintf("%s/%v/cancel", path, build.at("number"))
	t.cleanups = append(t.cleanups, cleanup{"a build", t.restRequest(http.MethodPut, cancel, nil), true})
	ids := jobsOf(build, plain)
	w.unlisted = true
	if len(ids) == 0 {
		t.skip("a build has no jobs of the step %s, though the pipeline has", plain)
	}
	t.eventually("the jobs of a new build in the list", func() (*response, bool) {
		a := t.listAll()
		there := listed(a)
		return a, !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(there, id) })
	})
	w.unlisted = false
	for _, key := range []string{plain, retried, notRetried, gate} {
		w.unused[key] = append(w.unused[key], jobsOf(build, key)...)
	}
}

// jobsOf returns the ids of the jobs of a build's step.
func jobsOf(build *response, stepKey string) []string {
	var ids []string
	for i := range build.list("jobs") {
		at := fmt.Sprintf("jobs.%d.", i)
		if build.text(at+"step_key") == stepKey {
			ids = append(ids, build.text(at+"id"))
		}
	}
	return ids
}

// listed returns the job ids of a list.
func listed(a *response) []string {
	ids := []string{}
	for i := range a.list("jobs") {
		ids = append(ids, a.text(fmt.Sprintf("jobs.%d.id", i)))
	}
	return ids
}

// take returns jobs of a step that no other rule uses.
func (t *checker) take(stepKey string, n int) []string {
	w := t.needFixture()
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

func (t *checker) jobs(n int) []string { return t.take(plain, n) }

func (t *checker) job() string { return t.jobs(1)[0] }

// forget removes a job from the unused ones.
func (t *checker) forget(job string) {
	for key, ids := range t.fixture.unused {
		t.fixture.unused[key] = slices.DeleteFunc(ids, func(id string) bool { return id == job })
	}
}

// maxWaitSeconds limits how long the server may take for background work.
const maxWaitSeconds = 10

// eventually fails the check unless probe succeeds within maxWaitSeconds.
func (t *checker) eventually(what string, probe func() (*response, bool)) {
	for range maxWaitSeconds {
		if _, ok := probe(); ok {
			return
		}
		t.server.sleep(t.ctx, 1)
	}
	if a, ok := probe(); !ok {
		t.fail(a, what, fmt.Sprintf("not within %d seconds", maxWaitSeconds))
	}
}

// reserve reserves jobs for a stack, for a number of seconds.
func (t *checker) reserve(key string, expiry int, jobs ...string) *response {
	return t.call(batchReserve, key, "", fields{"job_uuids": jobs, "reservation_expiry_seconds": expiry})
}

// reserved returns a job that a stack has reserved for a number of seconds.
func (t *checker) reserved(key string, expiry int) string {
	job := t.job()
	t.contains(t.reserve(key, expiry, job), "reserved", job)
	return job
}

// An otherCluster is a second cluster with a job.
type otherCluster struct {
	token string // an agent token of it
	job   string
}

// needOtherCluster returns the second cluster, or skips the rule if it cannot be created.
func (t *checker) needOtherCluster() *otherCluster {
	t.needFixture()
	if t.other != nil {
		return t.other
	}
	name, queue := t.name(), t.name()
	cluster := t.mustREST(http.MethodPost, "/clusters", fields{"name": name, "description": "Made by stackyard stack verify"}).text("id")
	t.deleteLater("the cluster "+name, "/clusters/"+cluster)
	_, err := t.makeQueue(cluster, queue)
	var pipeline string
	if err == nil {
		pipeline, err = t.makePipeline(cluster, queue)
	}
	if err != nil {
		t.skip("create fixture failed: %v", err)
	}
	build := t.mustREST(http.MethodPost, "/pipelines/"+pipeline+"/builds", fields{"commit": "HEAD", "branch": "main"})
	ids := jobsOf(build, plain)
	if len(ids) == 0 {
		t.skip("a build has no jobs of the step %s, though the pipeline has", plain)
	}
	_, token := t.makeToken(cluster)
	t.other = &otherCluster{token: token, job: ids[0]}
	return t.other
}
