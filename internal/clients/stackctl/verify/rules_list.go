package verify

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// jobSummary is the shape of a job in the list.
var jobSummary = shape{
	"id": uuid, "priority": integer, "agent_query_rules": texts, "scheduled_at": timestamp,
	"pipeline": object, "build": object, "step": object,
}

var list = Section{"List scheduled jobs", []Rule{
	{"list.answer", "The list returns 200 with jobs, page_info and cluster_queue.", func(t *checker) {
		a := t.status(t.list(t.stack(), t.Queue), http.StatusOK)
		t.has(a, "", shape{"jobs": array, "page_info": object, "cluster_queue": object})
		t.has(a, "page_info", shape{"has_next_page": boolean, "end_cursor": orNull(text)})
		t.has(a, "cluster_queue", shape{"id": text, "dispatch_paused": boolean})
	}},
	{"list.queue-required", "queue_key is required: 400 without it.", func(t *checker) {
		r := t.request(scheduledJobs, t.stack(), "", nil)
		r.url, _, _ = strings.Cut(r.url, "?")
		t.refused(t.send(scheduledJobs, r), http.StatusBadRequest)
	}},
	{"list.unknown-queue", "A queue that the cluster does not have returns 404.", func(t *checker) {
		t.refused(t.list(t.stack(), t.name()), http.StatusNotFound)
	}},
	{"list.limit", "limit is a positive integer, at most 1000: 400 for anything else.", func(t *checker) {
		for _, right := range []string{"1", "1000"} {
			t.status(t.list(t.stack(), t.Queue, "limit", right), http.StatusOK)
		}
		for _, wrong := range []string{"0", "-1", "1001", "ten", "1.5"} {
			t.refused(t.list(t.stack(), t.Queue, "limit", wrong), http.StatusBadRequest)
		}
	}},
	{"list.cursor-invalid", "after is a cursor of an earlier response: 400 for anything else.", func(t *checker) {
		t.refused(t.list(t.stack(), t.Queue, "after", "nonsense"), http.StatusBadRequest)
	}},
	{"list.appears", "The jobs of a new build are soon in the list.", func(t *checker) {
		t.build()
	}},
	{"list.job", "A job in the list has id, priority, agent_query_rules, scheduled_at, pipeline, build and step.", func(t *checker) {
		a, at := t.find(t.job())
		t.has(a, at, jobSummary)
		for _, rule := range a.texts(at + ".agent_query_rules") {
			t.want(a, strings.Contains(rule, "="), "rules in the form key=value", "%q", rule)
		}
	}},
	{"list.nested", "pipeline, build and step are present even if their values are null.", func(t *checker) {
		a, _ := t.find(t.job()) // its build also has a job of a step without a key
		for i := range a.list("jobs") {
			at := fmt.Sprintf("jobs.%d", i)
			t.has(a, at+".pipeline", shape{"slug": orNull(text), "uuid": orNull(uuid)})
			t.has(a, at+".build", shape{"number": orNull(integer), "branch": orNull(text), "uuid": orNull(uuid)})
			t.has(a, at+".step", shape{"key": orNull(text)})
		}
	}},
	{"list.content", "The list contains the pipeline, build and step of each job.", func(t *checker) {
		job := t.job()
		a, at := t.find(job)
		t.is(a, at+".pipeline.slug", t.fixture.pipeline)
		t.is(a, at+".build.branch", "main")
		t.is(a, at+".step.key", plain)
	}},
	{"list.order", "Jobs are ordered by scheduled_at, oldest first.", func(t *checker) {
		t.server.sleep(t.ctx, 1)
		t.build() // scheduled later than the existing jobs
		a := t.listAll()
		var last time.Time
		for i := range a.list("jobs") {
			at := fmt.Sprintf("jobs.%d.scheduled_at", i)
			scheduled, _ := time.Parse(time.RFC3339, a.text(at))
			t.want(a, !scheduled.Before(last), at+" not to be before that of the job above", "%s after %s", a.text(at), last.Format(time.RFC3339Nano))
			last = scheduled
		}
	}},
	{"list.stays", "A job is returned repeatedly until it is reserved or leaves the scheduled state.", func(t *checker) {
		job := t.job()
		for range 2 {
			t.find(job)
		}
	}},
	{"list.queue", "The list contains only jobs of its queue, which may differ from the queue that the stack registered with.", func(t *checker) {
		job := t.job()
		t.find(job)
		a := t.list(t.stack(), t.Queue, "limit", "1000")
		t.want(a, !slices.Contains(listed(a), job), "no job of the queue "+t.fixture.queue, "the job %s", job)
	}},
	{"list.pages", "With limit and after, pages return every job once and in order.", func(t *checker) {
		t.jobs(3)
		whole := listed(t.listAll())
		var paged []string
		for cursor := ""; ; {
			a := t.page(len(whole)/3, cursor)
			page := listed(a)
			paged = append(paged, page...)
			if a.at("page_info.has_next_page") != true {
				t.want(a, slices.Equal(paged, whole), "the same jobs as in one page: "+show(whole), "%s", show(paged))
				return
			}
			cursor = a.text("page_info.end_cursor")
			t.want(a, cursor != "", "an end_cursor that leads to the next page", "%s", show(a.at("page_info")))
			t.want(a, len(page) > 0 && len(paged) <= len(whole), "an end of the list after "+show(len(whole))+" jobs", "another page after %d", len(paged))
		}
	}},
	{"list.limited", "A page has at most limit jobs, and has_next_page is true if there are more.", func(t *checker) {
		t.jobs(2)
		a := t.page(1, "")
		t.want(a, len(a.list("jobs")) == 1, "one job", "%d", len(a.list("jobs")))
		t.is(a, "page_info.has_next_page", true)
		t.is(t.listAll(), "page_info.has_next_page", false)
	}},
	{"list.cursor-form", "A cursor is base64, and is accepted with and without padding.", func(t *checker) {
		t.jobs(2)
		a := t.page(1, "")
		cursor := a.text("page_info.end_cursor")
		_, err := base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(cursor))
		t.want(a, cursor != "" && err == nil, "page_info.end_cursor to be base64 with padding", "%s", show(a.at("page_info.end_cursor")))
		next := listed(t.page(1, cursor))
		unpadded := t.page(1, strings.TrimRight(cursor, "="))
		t.want(unpadded, slices.Equal(listed(unpadded), next), "the same page as with padding: "+show(next), "%s", show(listed(unpadded)))
	}},
	{"list.cursor-stays", "A cursor remains valid after its job has left the list.", func(t *checker) {
		t.jobs(2)
		all := t.listAll()
		whole := listed(all)
		t.want(all, len(whole) > 1, "jobs", "%d", len(whole))
		first := t.page(1, "")
		t.has(first, "page_info", shape{"end_cursor": text})
		t.call(finishJob, t.stack(), whole[0], fields{"detail": "It is to leave the list"})
		t.forget(whole[0])
		next := t.page(1, first.text("page_info.end_cursor"))
		t.want(next, slices.Equal(listed(next), whole[1:2]), "the second job: "+whole[1], "%s", show(listed(next)))
	}},
	{"list.empty", "An empty list has no next page.", func(t *checker) {
		queue, _ := t.idleQueue()
		a := t.status(t.list(t.stack(), queue), http.StatusOK)
		t.is(a, "jobs", []any{})
		t.is(a, "page_info.has_next_page", false)
	}},
	{"list.paused", "dispatch_paused is true while the queue is paused; a stack must not start jobs then.", func(t *checker) {
		queue, path := t.idleQueue()
		t.is(t.list(t.stack(), queue), "cluster_queue.dispatch_paused", false)
		t.mustREST(http.MethodPost, path+"/pause_dispatch", fields{})
		t.is(t.list(t.stack(), queue), "cluster_queue.dispatch_paused", true)
		t.mustREST(http.MethodPost, path+"/resume_dispatch", nil)
		t.is(t.list(t.stack(), queue), "cluster_queue.dispatch_paused", false)
	}},
	{"list.connects", "A queue that is polled is connected.", func(t *checker) {
		queue, path := t.idleQueue()
		t.list(t.stack(), queue)
		if t.mustREST(http.MethodGet, path, nil).at(connectionState) == nil {
			t.skip("the REST API of this server does not return the %s of a queue", connectionState)
		}
		t.eventually("the queue to be connected", func() (*response, bool) {
			a := t.mustREST(http.MethodGet, path, nil)
			return a, a.text(connectionState) == "connected"
		})
	}},
	{"list.disconnects", "A queue that no stack polls is disconnected after five to six minutes.", func(t *checker) {
		t.skip("that takes six minutes")
	}},
}}

// connectionState is the field of a queue that shows whether a stack polls it.
const connectionState = "connection_state"

// listAll lists the fixture's queue in one page.
func (t *checker) listAll() *response {
	return t.list(t.stack(), t.needFixture().queue, "limit", "1000")
}

// page lists a page of the fixture's queue.
func (t *checker) page(limit int, after string) *response {
	more := []string{"limit", fmt.Sprint(max(1, limit))}
	if after != "" {
		more = append(more, "after", after)
	}
	return t.list(t.stack(), t.needFixture().queue, more...)
}

// find expects a job in the list of the fixture's queue and returns its path.
func (t *checker) find(job string) (a *response, at string) {
	a = t.listAll()
	i := slices.Index(listed(a), job)
	t.want(a, i >= 0, "the job "+job+" in the list", "none")
	return a, fmt.Sprintf("jobs.%d", i)
}

// hidden expects that the list of the fixture's queue does not contain a job.
func (t *checker) hidden(job string) {
	a := t.listAll()
	t.want(a, !slices.Contains(listed(a), job), "the job "+job+" not to be in the list", "it is")
}

// idleQueue creates a queue without jobs, and returns its key and its REST path.
func (t *checker) idleQueue() (key, path string) {
	w := t.needFixture()
	key = t.name()
	id, err := t.makeQueue(w.clusterID, key)
	if err != nil {
		t.skip("what it needs cannot be made: %v", err)
	}
	return key, "/clusters/" + w.clusterID + "/queues/" + id
}
