package verify

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

var notifications = Section{"Notifications", []Rule{
	{"notifications.answer", "Notifications return 200 with errors, an array that is empty if all were created.", func(t *checker) {
		a := t.status(t.notify(), http.StatusOK)
		t.is(a, "errors", []any{})
	}},
	{"notifications.array", "notifications is an array: 422 for anything else, and without it.", func(t *checker) {
		for _, wrong := range []any{fields{}, fields{"notifications": nil}, fields{"notifications": "text"}, fields{"notifications": fields{}}} {
			t.refused(t.call(notifyPeople, t.stack(), "", wrong), http.StatusUnprocessableEntity)
		}
	}},
	{"notifications.count", "A call can have at most 1000 notifications: 422 for 1001.", func(t *checker) {
		unknown := note(unknownJob(), "There is no such job")
		t.status(t.notify(repeat(unknown, 1000)...), http.StatusOK)
		t.refused(t.notify(repeat(unknown, 1001)...), http.StatusUnprocessableEntity)
	}},
	{"notifications.unknown", "A notification about a job that does not exist is an error of that notification.", func(t *checker) {
		t.wantErrors(t.notify(note(unknownJob(), "There is no such job")), 0)
	}},
	{"notifications.grouped", "Each error has a message and the indexes, from 0, of all notifications that it applies to.", func(t *checker) {
		unknown := note(unknownJob(), "There is no such job")
		a := t.notify(unknown, unknown, unknown)
		t.has(a, "errors.0", shape{"error": text, "indexes": array})
		t.is(a, "errors.0.indexes", []int{0, 1, 2})
		t.want(a, len(a.list("errors")) == 1, "one error for the three", "%d", len(a.list("errors")))
	}},
	{"notifications.partial", "Valid notifications are created even if others in the same call are invalid.", func(t *checker) {
		job := t.job()
		right := note(job, "Pulling the image")
		t.wantErrors(t.notify(right, note(job, ""), right), 1)
		// There are two now, and 98 are left.
		t.wantErrors(t.notify(repeat(right, 99)...), 98)
	}},
	{"notifications.per-job", "A job can have at most 100 notifications; further ones are errors.", func(t *checker) {
		t.wantErrors(t.notify(repeat(note(t.job(), "Pulling the image"), 101)...), 100)
	}},
	{"notifications.detail", "detail is a non-empty string of at most 256 characters, not bytes.", func(t *checker) {
		job := t.job()
		t.wantErrors(t.notify(
			note(job, strings.Repeat("é", 256)), note(job, strings.Repeat("x", 257)), note(job, ""),
			fields{"job_uuid": job}, fields{"job_uuid": job, "detail": 1}, note(job, " "),
		), 1, 2, 3, 4, 5)
	}},
	{"notifications.keys", "Keys are case-sensitive.", func(t *checker) {
		job := t.job()
		t.wantErrors(t.notify(fields{"Job_UUID": job, "detail": "Pulling the image"}, fields{"job_uuid": job, "DETAIL": "Pulling the image"}), 0, 1)
	}},
	{"notifications.job-uuid", "job_uuid is required and must be a UUID.", func(t *checker) {
		t.wantErrors(t.notify(fields{"detail": "Pulling the image"}, note("no UUID", "Pulling the image")), 0, 1)
	}},
	{"notifications.timestamp", "timestamp is a time, not in the future and not before the job was created.", func(t *checker) {
		job := t.job()
		shown := t.mustREST(http.MethodGet, "/jobs/"+job, nil)
		created, _ := time.Parse(time.RFC3339, shown.text("created_at"))
		var list []fields
		for _, when := range []string{
			shown.text("created_at"),
			created.Add(-time.Second).Format(time.RFC3339Nano),
			shown.time().Add(time.Hour).UTC().Format(time.RFC3339),
			"yesterday",
			"0001-01-01T00:00:00Z",
		} {
			n := note(job, "Pulling the image")
			n["timestamp"] = when
			list = append(list, n)
		}
		t.wantErrors(t.notify(list...), 1, 2, 3, 4)
	}},
	{"notifications.after-the-end", "Notifications about a job that finished less than 300 seconds ago are accepted.", func(t *checker) {
		job := t.job()
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.wantErrors(t.notify(note(job, "The machine is back")))
	}},
	{"notifications.late", "Notifications about a job that finished more than 300 seconds ago are errors.", func(t *checker) {
		t.skip("that takes five minutes")
	}},
}}

// note returns a notification.
func note(job, detail string) fields { return fields{"job_uuid": job, "detail": detail} }

func repeat(f fields, n int) []fields {
	many := make([]fields, n)
	for i := range many {
		many[i] = f
	}
	return many
}

// notify sends notifications.
func (t *checker) notify(list ...fields) *response {
	if list == nil {
		list = []fields{}
	}
	return t.call(notifyPeople, t.stack(), "", fields{"notifications": list})
}

// wantErrors expects errors for exactly these notifications.
func (t *checker) wantErrors(a *response, indexes ...int) {
	t.status(a, http.StatusOK)
	about := map[string]bool{}
	for _, e := range a.list("errors") {
		entry, _ := e.(map[string]any)
		list, _ := entry["indexes"].([]any)
		for _, i := range list {
			if n, ok := i.(json.Number); ok {
				about[n.String()] = true
			}
		}
	}
	want := map[string]bool{}
	for _, i := range indexes {
		want[show(i)] = true
	}
	t.want(a, show(about) == show(want), "errors about the notifications "+show(indexes)+" and no others", "%s", show(a.at("errors")))
}
