package stacks_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/core"
)

// maxMemory is the most that a call may allocate, client and server together: a multiple of the largest body.
const maxMemory = 64 << 20

// repeated returns an item many times, separated by commas.
func repeated(item func(i int) string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String()
}

func TestBodies_ThatAreAbsurdCostLittleAndAreRefused(t *testing.T) {
	uuid := func(int) string { return `"` + core.NewID() + `"` }
	zero := func(int) string { return "0" }
	keyed := func(i int) string { return fmt.Sprintf(`"%d":""`, i) }
	tooLarge := http.StatusRequestEntityTooLarge
	// The endpoint's own field is %s.
	absurd := []struct {
		name, body string
		status     int // 0: the status of invalid input
		message    string
	}{
		{"10 MB", `{"%s":"` + strings.Repeat("x", 10<<20) + `"}`, tooLarge, "The request body is larger than 4194304 bytes"},
		{"a million keys", `{"%s":{` + repeated(keyed, 1_000_000) + `}}`, tooLarge, "The request body is larger than 4194304 bytes"},
		{"as many keys as go in", `{"%s":0,` + repeated(keyed, 350_000) + `}`, http.StatusBadRequest, "The request body holds more than 200000 values"},
		{"many keys", `{"%s":{` + repeated(keyed, 90_000) + `}}`, 0, ""},
		{"as many numbers as go in", `{"%s":[` + repeated(zero, 2_000_000) + `]}`, http.StatusBadRequest, "The request body holds more than 200000 values"},
		{"many numbers", `{"%s":[` + repeated(zero, 190_000) + `]}`, 0, ""},
		{"many UUIDs", `{"%s":[` + repeated(uuid, 90_000) + `]}`, 0, ""},
		{"1001 UUIDs", `{"%s":[` + repeated(uuid, 1001) + `]}`, 0, ""},
		{"bytes that are not UTF-8", `{"%s":"` + "\xff\xfe" + `"}`, http.StatusBadRequest, "The request body is not valid UTF-8"},
		{"U+0000", `{"%s":"\u0000"}`, http.StatusBadRequest, "The request body holds the character U+0000, which is not allowed"},
		{"arrays within arrays", `{"%s":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, http.StatusBadRequest, ""},
		{"objects within objects", `{"%s":` + strings.Repeat(`{"a":`, 50_000) + "1" + strings.Repeat("}", 50_000) + `}`, http.StatusBadRequest, ""},
		{"deep arrays", `{"%s":{"a":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `}}`, 0, ""},
		{"the half of a body", `{"%s":[`, http.StatusBadRequest, ""},
	}
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		for _, e := range []struct {
			method, path, field string
			invalid             int
		}{
			{"POST", "/v3/stacks/register", "metadata", http.StatusUnprocessableEntity},
			{"PUT", robot + "/scheduled-jobs/batch-reserve", "job_uuids", http.StatusBadRequest},
			{"POST", robot + "/job-acquisition-tokens", "job_uuids", http.StatusBadRequest},
			{"POST", robot + "/jobs/get-states", "job_uuids", http.StatusBadRequest},
			{"POST", robot + "/jobs/" + id + "/finish", "detail", http.StatusUnprocessableEntity},
			{"POST", robot + "/notifications", "notifications", http.StatusUnprocessableEntity},
		} {
			for _, a := range absurd {
				want := a.status
				if want == 0 {
					want = e.invalid
				}
				w.Clock.Advance(time.Second)
				body := strings.Replace(a.body, "%s", e.field, 1)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r := w.stack.Do(e.method, e.path, body)
				runtime.ReadMemStats(&after)
				if r.Status != want || a.message != "" && r.String("message") != a.message {
					t.Errorf("%s %s with %s: %d %.200s, want %d %s", e.method, e.path, a.name, r.Status, r.Body, want, a.message)
				}
				if len(r.String("message")) > 500 {
					t.Errorf("%s %s with %s: the message has %d bytes", e.method, e.path, a.name, len(r.String("message")))
				}
				if cost := after.TotalAlloc - before.TotalAlloc; cost > maxMemory {
					t.Errorf("%s %s with %s: %d MB were allocated", e.method, e.path, a.name, cost>>20)
				}
			}
		}
		wantEqual(t, "the job", w.state(id), "scheduled")
	})
}

// Each notification is accepted or refused on its own.
func TestNotifications_ThatAreAbsurdAreRefusedOneByOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		nested := strings.Repeat("[", 4_000) + strings.Repeat("]", 4_000)
		right := fmt.Sprintf(`{"job_uuid":"%s","detail":"x"}`, id)
		r := w.stack.Post(robot+"/notifications", `{"notifications":[`+strings.Join([]string{
			right, nested, "null", "[]", `{"job_uuid":` + nested + `,"detail":"x"}`, `{"job_uuid":"` + id + `","detail":` + nested + `}`,
			`{"job_uuid":"` + id + `","detail":"` + strings.Repeat("é", 1<<20) + `"}`, `{"job_uuid":"` + id + `","detail":"x","timestamp":"9999999-01-01T00:00:00Z"}`,
			strings.Replace(right, `}`, `,"more":{"a":1}}`, 1),
		}, ",")+`]}`).Want(http.StatusOK)
		refused := map[any]bool{}
		for i := range r.Len("errors") {
			for j := range r.Len(fmt.Sprintf("errors.%d.indexes", i)) {
				refused[r.At(fmt.Sprintf("errors.%d.indexes.%d", i, j))] = true
			}
		}
		wantEqual(t, "refused", refused, map[any]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true})
	})
}
