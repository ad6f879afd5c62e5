package verify

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

var notifications = Section{"Notifications", []Rule{
	{"notifications.answer", "Notifications are answered with 200 and errors, an array which is empty when all were created.", func(t *trial) {
		a := t.status(t.notify(), http.StatusOK)
		t.is(a, "errors", []any{})
	}},
	{"notifications.array", "notifications is an array: 422 for anything else, and without it.", func(t *trial) {
		for _, wrong := range []any{fields{}, fields{"notifications": nil}, fields{"notifications": "text"}, fields{"notifications": fields{}}} {
			t.refused(t.call(notifyPeople, t.stack(), "", wrong), http.StatusUnprocessableEntity)
		}
	}},
	{"notifications.count", "There are at most 1000 notifications in a call: 422 for 1001.", func(t *trial) {
		unknown := note(unknownJob(), "There is no such job")
		t.status(t.notify(repeat(unknown, 1000)...), http.StatusOK)
		t.refused(t.notify(repeat(unknown, 1001)...), http.StatusUnprocessableEntity)
	}},
	{"notifications.unknown", "A notification about a job that does not exist is an error of that notification.", func(t *trial) {
		t.complains(t.notify(note(unknownJob(), "There is no such job")), 0)
	}},
	{"notifications.grouped", "Each error says what is wrong, and has the indexes of all notifications of which it is true, from 0.", func(t *trial) {
		unknown := note(unknownJob(), "There is no such job")
		a := t.notify(unknown, unknown, unknown)
		t.has(a, "errors.0", shape{"error": text, "indexes": array})
		t.is(a, "errors.0.indexes", []int{0, 1, 2})
		t.want(a, len(a.list("errors")) == 1, "one error for the three", "%d", len(a.list("errors")))
	}},
	{"notifications.partial", "Notifications that are right are created also when others in the same call are not.", func(t *trial) {
		job := t.job()
		right := note(job, "Pulling the image")
		t.complains(t.notify(right, note(job, ""), right), 1)
		// So there are two, and room for 98.
		t.complains(t.notify(repeat(right, 99)...), 98)
	}},
	{"notifications.per-job", "A job has at most 100 notifications; those beyond are errors.", func(t *trial) {
		t.complains(t.notify(repeat(note(t.job(), "Pulling the image"), 101)...), 100)
	}},
	{"notifications.detail", "detail is a non-empty string of at most 256 characters, not bytes.", func(t *trial) {
		job := t.job()
		t.complains(t.notify(
			note(job, strings.Repeat("é", 256)), note(job, strings.Repeat("x", 257)), note(job, ""),
			fields{"job_uuid": job}, fields{"job_uuid": job, "detail": 1}, note(job, " "),
		), 1, 2, 3, 4, 5)
	}},
	{"notifications.keys", "Keys are case-sensitive.", func(t *trial) {
		job := t.job()
		t.complains(t.notify(fields{"Job_UUID": job, "detail": "Pulling the image"}, fields{"job_uuid": job, "DETAIL": "Pulling the image"}), 0, 1)
	}},
	{"notifications.job-uuid", "job_uuid is required, and a UUID.", func(t *trial) {
		t.complains(t.notify(fields{"detail": "Pulling the image"}, note("no UUID", "Pulling the image")), 0, 1)
	}},
	{"notifications.timestamp", "timestamp is a time, not in the future and not before the job was created.", func(t *trial) {
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
		t.complains(t.notify(list...), 1, 2, 3, 4)
	}},
	{"notifications.after-the-end", "There can be notifications about a job that finished less than 300 seconds ago.", func(t *trial) {
		job := t.job()
		t.call(finishJob, t.stack(), job, fields{"detail": "No machine is left"})
		t.complains(t.notify(note(job, "The machine is back")))
	}},
	{"notifications.late", "There can be none about a job that finished more than 300 seconds ago.", func(t *trial) {
		t.skip("that takes five minutes")
	}},
}}

// note is a notification.
func note(job, detail string) fields { return fields{"job_uuid": job, "detail": detail} }

func repeat(f fields, n int) []fields {
	many := make([]fields, n)
	for i := range many {
		many[i] = f
	}
	return many
}

// notify sends notifications.
func (t *trial) notify(list ...fields) *answer {
	if list == nil {
		list = []fields{}
	}
	return t.call(notifyPeople, t.stack(), "", fields{"notifications": list})
}

// complains wants the errors to be about some notifications and no others.
func (t *trial) complains(a *answer, indexes ...int) {
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
