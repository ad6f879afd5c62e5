package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/blob/blobtest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

func TestStart_DoesTasksUntilTheServerStops(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, err := New(Parts{
			DB: d, Blobs: blobtest.Folder(t), Key: seal.NewKey(), Public: "http://ci.test", Clock: core.SystemClock, Version: "test",
			Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{}, 1)
		s.background.tasks.HandleTx("greet", func(*db.Q, *tasks.Due) error {
			done <- struct{}{}
			return nil
		})
		add := func() {
			err := d.Write(t.Context(), func(q *db.Q) error {
				return tasks.Add(q, tasks.Task{Kind: "greet", RunAt: core.SystemClock()})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Start()
		add()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Error("the task was not done")
		}
		s.Drain()
		s.Stop()
		add()
		if err := s.RunDue(t.Context()); err != nil || len(done) != 1 {
			t.Errorf("%d tasks are done after the server stopped, %v; want the one that was run by hand", len(done), err)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if want := `stackyard_task_attempts_total{kind="greet",result="done"} 2`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("no line %s", want)
		}
	})
}
