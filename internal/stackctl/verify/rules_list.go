package verify

import (
	"net/http"
	"strings"
)

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
}}
