package verify

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// jobSummary is a job in the list.
var jobSummary = shape{
	"id": uuid, "priority": integer, "agent_query_rules": texts, "scheduled_at": timestamp,
	"pipeline": object, "build": object, "step": object,
}

var list = Section{"List scheduled jobs", []Rule{
	{"list.answer", "The list answers 200 with jobs, page_info and cluster_queue.", func(t *trial) {
		a := t.status(t.list(t.stack(), t.Queue), http.StatusOK)
		t.has(a, "", shape{"jobs": array, "page_info": object, "cluster_queue": object})
		t.has(a, "page_info", shape{"has_next_page": boolean, "end_cursor": orNull(text)})
		t.has(a, "cluster_queue", shape{"id": text, "dispatch_paused": boolean})
	}},
	{"list.queue-required", "queue_key is required: 400 without it.", func(t *trial) {
		r := t.request(scheduledJobs, t.stack(), "", nil)
		r.url, _, _ = strings.Cut(r.url, "?")
		t.refused(t.send(scheduledJobs, r), http.StatusBadRequest)
	}},
	{"list.unknown-queue", "A queue that the cluster does not have is 404.", func(t *trial) {
		t.refused(t.list(t.stack(), t.name()), http.StatusNotFound)
	}},
	{"list.limit", "limit is a positive integer, at most 1000: 400 for anything else.", func(t *trial) {
		for _, right := range []string{"1", "1000"} {
			t.status(t.list(t.stack(), t.Queue, "limit", right), http.StatusOK)
		}
		for _, wrong := range []string{"0", "-1", "1001", "ten", "1.5"} {
			t.refused(t.list(t.stack(), t.Queue, "limit", wrong), http.StatusBadRequest)
		}
	}},
	{"list.cursor-invalid", "after is a cursor of an earlier answer: 400 for anything else.", func(t *trial) {
		t.refused(t.list(t.stack(), t.Queue, "after", "nonsense"), http.StatusBadRequest)
	}},
	{"list.appears", "The jobs of a new build are soon in the list.", func(t *trial) {
		t.build()
	}},
	{"list.job", "A job in the list has id, priority, agent_query_rules, scheduled_at, pipeline, build and step.", func(t *trial) {
		a, at := t.find(t.job())
		t.has(a, at, jobSummary)
		for _, rule := range a.texts(at + ".agent_query_rules") {
			t.want(a, strings.Contains(rule, "="), "rules in the form key=value", "%q", rule)
		}
	}},
	{"list.nested", "pipeline, build and step are there also when their values are null.", func(t *trial) {
		a, _ := t.find(t.job()) // with its build comes a job of a step without a key
		for i := range a.list("jobs") {
			at := fmt.Sprintf("jobs.%d", i)
			t.has(a, at+".pipeline", shape{"slug": orNull(text), "uuid": orNull(uuid)})
			t.has(a, at+".build", shape{"number": orNull(integer), "branch": orNull(text), "uuid": orNull(uuid)})
			t.has(a, at+".step", shape{"key": orNull(text)})
		}
	}},
	{"list.content", "The list tells of which pipeline, build and step a job is.", func(t *trial) {
		job := t.job()
		a, at := t.find(job)
		t.is(a, at+".pipeline.slug", t.workshop.pipeline)
		t.is(a, at+".build.branch", "main")
		t.is(a, at+".step.key", plain)
	}},
	{"list.order", "Jobs are ordered by scheduled_at, oldest first.", func(t *trial) {
		t.server.sleep(t.ctx, 1)
		t.build() // later than those that are there
		a := t.whole()
		var last time.Time
		for i := range a.list("jobs") {
			at := fmt.Sprintf("jobs.%d.scheduled_at", i)
			scheduled, _ := time.Parse(time.RFC3339, a.text(at))
			t.want(a, !scheduled.Before(last), at+" not to be before that of the job above", "%s after %s", a.text(at), last.Format(time.RFC3339Nano))
			last = scheduled
		}
	}},
	{"list.stays", "A job is returned again and again until it is reserved or leaves the scheduled state.", func(t *trial) {
		job := t.job()
		for range 2 {
			t.find(job)
		}
	}},
	{"list.queue", "The list has the jobs of its queue alone, which need not be the one that the stack registered with.", func(t *trial) {
		job := t.job()
		t.find(job)
		a := t.list(t.stack(), t.Queue, "limit", "1000")
		t.want(a, !slices.Contains(listed(a), job), "no job of the queue "+t.workshop.queue, "the job %s", job)
	}},
	{"list.pages", "With limit and after, all jobs come page by page, each once and in order.", func(t *trial) {
		t.jobs(3)
		whole := listed(t.whole())
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
	{"list.limited", "A page has at most limit jobs, and has_next_page tells whether there are more.", func(t *trial) {
		t.jobs(2)
		a := t.page(1, "")
		t.want(a, len(a.list("jobs")) == 1, "one job", "%d", len(a.list("jobs")))
		t.is(a, "page_info.has_next_page", true)
		t.is(t.whole(), "page_info.has_next_page", false)
	}},
	{"list.cursor-form", "A cursor is base64, and is taken back with and without its padding.", func(t *trial) {
		t.jobs(2)
		a := t.page(1, "")
		cursor := a.text("page_info.end_cursor")
		_, err := base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(cursor))
		t.want(a, cursor != "" && err == nil, "page_info.end_cursor to be base64 with padding", "%s", show(a.at("page_info.end_cursor")))
		next := listed(t.page(1, cursor))
		unpadded := t.page(1, strings.TrimRight(cursor, "="))
		t.want(unpadded, slices.Equal(listed(unpadded), next), "the same page as with padding: "+show(next), "%s", show(listed(unpadded)))
	}},
	{"list.cursor-stays", "A cursor leads on also when its job has left the list.", func(t *trial) {
		t.jobs(2)
		all := t.whole()
		whole := listed(all)
		t.want(all, len(whole) > 1, "jobs", "%d", len(whole))
		first := t.page(1, "")
		t.has(first, "page_info", shape{"end_cursor": text})
		t.call(finishJob, t.stack(), whole[0], fields{"detail": "It is to leave the list"})
		t.forget(whole[0])
		next := t.page(1, first.text("page_info.end_cursor"))
		t.want(next, slices.Equal(listed(next), whole[1:2]), "the second job: "+whole[1], "%s", show(listed(next)))
	}},
	{"list.empty", "An empty list has no next page.", func(t *trial) {
		queue, _ := t.idleQueue()
		a := t.status(t.list(t.stack(), queue), http.StatusOK)
		t.is(a, "jobs", []any{})
		t.is(a, "page_info.has_next_page", false)
	}},
	{"list.paused", "dispatch_paused is true while the queue is paused; a stack must not start jobs then.", func(t *trial) {
		queue, path := t.idleQueue()
		t.is(t.list(t.stack(), queue), "cluster_queue.dispatch_paused", false)
		t.mustREST(http.MethodPost, path+"/pause_dispatch", fields{})
		t.is(t.list(t.stack(), queue), "cluster_queue.dispatch_paused", true)
		t.mustREST(http.MethodPost, path+"/resume_dispatch", nil)
		t.is(t.list(t.stack(), queue), "cluster_queue.dispatch_paused", false)
	}},
	{"list.connects", "A queue that is polled is connected.", func(t *trial) {
		queue, path := t.idleQueue()
		t.list(t.stack(), queue)
		if t.mustREST(http.MethodGet, path, nil).at(connectionState) == nil {
			t.skip("the REST API of this server does not tell the %s of a queue", connectionState)
		}
		t.eventually("the queue to be connected", func() (*answer, bool) {
			a := t.mustREST(http.MethodGet, path, nil)
			return a, a.text(connectionState) == "connected"
		})
	}},
	{"list.disconnects", "A queue that nobody polls is disconnected after five to six minutes.", func(t *trial) {
		t.skip("that takes six minutes")
	}},
}}

// connectionState is the field of a queue that tells whether a stack polls it.
const connectionState = "connection_state"

// whole lists the workshop's queue in one page.
func (t *trial) whole() *answer {
	return t.list(t.stack(), t.shop().queue, "limit", "1000")
}

// page lists a part of the workshop's queue.
func (t *trial) page(limit int, after string) *answer {
	more := []string{"limit", fmt.Sprint(max(1, limit))}
	if after != "" {
		more = append(more, "after", after)
	}
	return t.list(t.stack(), t.shop().queue, more...)
}

// find wants a job in the list of the workshop's queue, and returns its place.
func (t *trial) find(job string) (a *answer, at string) {
	a = t.whole()
	i := slices.Index(listed(a), job)
	t.want(a, i >= 0, "the job "+job+" in the list", "none")
	return a, fmt.Sprintf("jobs.%d", i)
}

// hidden wants a job not to be in the list of the workshop's queue.
func (t *trial) hidden(job string) {
	a := t.whole()
	t.want(a, !slices.Contains(listed(a), job), "the job "+job+" not to be in the list", "it is")
}

// idleQueue makes a queue without jobs, and returns its key and its path in the REST API.
func (t *trial) idleQueue() (key, path string) {
	w := t.shop()
	key = t.name()
	id, err := t.makeQueue(w.clusterID, key)
	if err != nil {
		t.skip("what it needs cannot be made: %v", err)
	}
	return key, "/clusters/" + w.clusterID + "/queues/" + id
}
