package schedules_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const (
	acme      = "/v2/organizations/acme"
	hello     = acme + "/pipelines/hello"
	schedules = hello + "/schedules"
)

// A world is a server with the pipeline hello of acme, as its administrator Ada sees it.
type world struct {
	*servertest.Server
	t   testing.TB
	ada *servertest.Client
}

// each runs a test with a fresh world on each engine.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) { fn(t, &world{s, t, s.As(t, servertest.Ada)}) })
}

// create creates a schedule of hello and returns its path.
func (w *world) create(body map[string]any) string {
	w.t.Helper()
	return schedules + "/" + w.ada.Post(schedules, body).Want(http.StatusCreated).String("id")
}

// builds returns the scheduled times of the builds of hello, newest first.
func (w *world) builds() []string {
	w.t.Helper()
	var list []struct {
		ScheduledAt string `json:"scheduled_at"`
	}
	w.ada.Get(hello + "/builds?per_page=100").Want(http.StatusOK).JSON(&list)
	times := []string{}
	for _, b := range list {
		times = append(times, b.ScheduledAt)
	}
	return times
}

// wantBuilds fails the test unless the builds of hello were scheduled for these times, newest first.
func (w *world) wantBuilds(times ...time.Time) {
	w.t.Helper()
	want := []string{}
	for _, at := range times {
		want = append(want, text(at))
	}
	if got := w.builds(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("builds were scheduled for %v, want %v", got, want)
	}
}

// runDue runs the tasks that are due.
func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// advanceTo moves the clock forward to a time of day, today or tomorrow.
func (w *world) advanceTo(hour, minute int) time.Time {
	now := w.Clock.Now().UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	w.Clock.Advance(at.Sub(now))
	return at
}

// text returns a time as responses show it.
func text(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func TestSchedules_ShowEveryField(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		created := w.ada.Post(schedules, map[string]any{
			"label": "Nightly", "cronline": " 0 9 * * * ", "message": "Nightly build", "commit": "v1", "branch": "release",
			"env": map[string]any{"FULL": "yes"}, "enabled": true, "unknown": 1,
		}).Want(http.StatusCreated)
		id := created.String("id")
		for _, r := range []*servertest.Response{created, w.ada.Get(schedules + "/" + id).Want(http.StatusOK)} {
			servertest.WantAt(t, r, map[string]any{
				"id": id, "graphql_id": core.GraphQLID("PipelineSchedule", id), "url": w.URL + schedules + "/" + id,
				"label": "Nightly", "cronline": "0 9 * * *", "message": "Nightly build", "commit": "v1", "branch": "release",
				"env": map[string]any{"FULL": "yes"}, "enabled": true, "next_build_at": text(w.Clock.Now().Add(time.Hour)),
				"failed_message": nil, "failed_at": nil, "created_at": text(w.Clock.Now()), "created_by.name": "Ada",
				"pipeline": map[string]any{"id": servertest.AcmePipelineID, "slug": "hello", "url": w.URL + hello},
			})
		}
		servertest.WantAt(t, w.ada.Get(w.create(map[string]any{"cronline": "@daily"})), map[string]any{
			"label": "", "message": nil, "commit": "HEAD", "branch": "main", "env": map[string]any{}, "enabled": true,
		})
		servertest.WantAt(t, w.ada.Get(w.create(map[string]any{"cronline": "@daily", "enabled": false})), map[string]any{
			"enabled": false, "next_build_at": nil,
		})
	})
}

func TestSchedules_ListNewestFirst(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for i := range 3 {
			w.create(map[string]any{"cronline": "@daily", "label": fmt.Sprint(i)})
			w.Clock.Advance(time.Second)
		}
		servertest.WantAt(t, w.ada.Get(schedules), map[string]any{"0.label": "2", "1.label": "1", "2.label": "0"})
		page := w.ada.Get(schedules + "?page=2&per_page=2").Want(http.StatusOK)
		servertest.WantEqual(t, "schedules", page.Len(""), 1)
		if link := page.Header.Get("Link"); !strings.Contains(link, `rel="prev"`) {
			t.Errorf("Link is %q", link)
		}
	})
}

func TestSchedules_UpdateWithPutAndPatch(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		path := w.create(map[string]any{"cronline": "0 9 * * *", "label": "x", "env": map[string]any{"A": "1"}})
		for _, method := range []string{http.MethodPut, http.MethodPatch} {
			servertest.WantAt(t, w.ada.Do(method, path, map[string]any{"label": method}).Want(http.StatusOK), map[string]any{
				"label": method, "cronline": "0 9 * * *", "env": map[string]any{"A": "1"}, "next_build_at": text(w.Clock.Now().Add(time.Hour)),
			})
			servertest.WantAt(t, w.ada.Do(method, path, map[string]any{"cronline": "0 10 * * *", "enabled": false}).Want(http.StatusOK), map[string]any{
				"cronline": "0 10 * * *", "enabled": false, "next_build_at": nil,
			})
			servertest.WantAt(t, w.ada.Do(method, path, map[string]any{"cronline": "0 9 * * *", "enabled": true}).Want(http.StatusOK), map[string]any{
				"enabled": true, "next_build_at": text(w.Clock.Now().Add(time.Hour)),
			})
		}
		servertest.WantAt(t, w.ada.Patch(path, map[string]any{"env": nil, "branch": nil, "enabled": nil}).Want(http.StatusOK), map[string]any{
			"env": map[string]any{}, "branch": "main", "enabled": true,
		})
		w.ada.Delete(path).Want(http.StatusNoContent)
		w.ada.Get(path).WantMessage(http.StatusNotFound, "No schedule found")
		w.advanceTo(9, 0)
		w.runDue()
		w.wantBuilds()
	})
}

func TestSchedules_RefuseInvalidValues(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		path := w.create(map[string]any{"cronline": "@daily"})
		w.ada.Post(schedules, map[string]any{"label": "x"}).WantFieldError("cronline", "is required")
		for _, c := range []struct {
			field, problem string
			value          any
		}{
			{"cronline", "is required", ""},
			{"cronline", "never runs", "0 0 30 2 *"},
			{"cronline", `cannot contain "~"`, "0~9 * * * *"},
			{"cronline", "unknown time zone", "@daily Mars/Phobos"},
			{"label", "at most 255 characters", strings.Repeat("x", 256)},
			{"branch", "at most 255 characters", strings.Repeat("x", 256)},
			{"commit", "at most 255 characters", strings.Repeat("x", 256)},
			{"message", "at most 65536 characters", strings.Repeat("x", 65537)},
			{"env", "a name cannot be empty", map[string]any{"A=B": "x"}},
			{"env", "at most 65536 bytes", map[string]any{"A": strings.Repeat("x", 65537)}},
		} {
			w.ada.Post(schedules, map[string]any{"cronline": "@daily", c.field: c.value}).WantFieldError(c.field, c.problem)
			w.ada.Put(path, map[string]any{c.field: c.value}).WantFieldError(c.field, c.problem)
		}
		if got := w.ada.Post(schedules, map[string]any{"cronline": 5}).Status; got/100 != 4 {
			t.Errorf("a number as cronline: status %d", got)
		}
		for range 99 {
			w.create(map[string]any{"cronline": "@daily"})
			w.Clock.Advance(10 * time.Millisecond)
		}
		w.ada.Post(schedules, map[string]any{"cronline": "@daily"}).WantMessage(http.StatusUnprocessableEntity, "The pipeline has 100 schedules, the most that are possible; delete one first")
	})
}

func TestSchedules_NeedAccessToThePipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		path := w.create(map[string]any{"cronline": "@daily"})
		w.As(t, servertest.Cy).Get(path).Want(http.StatusNotFound)
		w.ada.Post(acme+"/pipelines", map[string]any{
			"name": "other", "repository": "https://git.example.test/acme/other.git", "cluster_id": servertest.AcmeClusterID, "configuration": "steps:\n  - command: x\n",
		}).Want(http.StatusCreated)
		w.ada.Get(strings.Replace(path, "hello", "other", 1)).WantMessage(http.StatusNotFound, "No schedule found")
		w.Apply("organizations: [{slug: acme, features: {teams: true}}]")
		bo := w.As(t, servertest.Bo)
		bo.Get(path).Want(http.StatusNotFound)
		w.ada.Patch(hello, map[string]any{"visibility": "public"}).Want(http.StatusOK)
		bo.Get(hello).Want(http.StatusOK)
		bo.Get(path).WantMessage(http.StatusNotFound, "No schedule found")
		bo.Get(schedules).WantMessage(http.StatusNotFound, "No schedule found")
		w.ada.Post(acme+"/teams/everyone/members", map[string]any{"user_id": servertest.BoID}).Want(http.StatusCreated)
		w.ada.Post(acme+"/teams/everyone/pipelines", map[string]any{"pipeline_id": servertest.AcmePipelineID, "access_level": "build_and_read"}).Want(http.StatusCreated)
		bo.Get(path).Want(http.StatusOK)
		bo.Get(path + "/preview").Want(http.StatusOK)
		bo.Post(schedules, map[string]any{"cronline": "@daily"}).Want(http.StatusForbidden)
		bo.Patch(path, map[string]any{"cronline": "@daily"}).Want(http.StatusForbidden)
		bo.Delete(path).Want(http.StatusForbidden)
	})
}

func TestPreview_ShowsTheNextTenTimes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 30)
		path := w.create(map[string]any{"cronline": "@hourly", "enabled": false})
		first := w.Clock.Now().Add(30 * time.Minute)
		for _, preview := range []*servertest.Response{
			w.ada.Get(path + "/preview").Want(http.StatusOK),
			w.ada.Get(schedules + "/preview?cronline=%40hourly").Want(http.StatusOK),
		} {
			servertest.WantEqual(t, "runs", preview.Len("runs"), 10)
			servertest.WantAt(t, preview, map[string]any{
				"cronline": "@hourly", "time_zone": "UTC", "runs.0": text(first), "runs.9": text(first.Add(9 * time.Hour)),
			})
		}
		w.ada.Get(schedules+"/preview?cronline=x").WantFieldError("cronline", "must have five fields")
		w.ada.Get(schedules+"/preview").WantFieldError("cronline", "is required")
	})
}
