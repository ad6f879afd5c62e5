package interop

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

func TestPipelineSchedules_FromCreationToDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		created := call(client.PipelineSchedules.Create(ctx, "acme", "hello", buildkite.CreatePipelineSchedule{
			Cronline: "0 9 * * MON-FRI Europe/Berlin", Label: "Morning", Message: "Good morning", Commit: "v1", Branch: "release", Env: map[string]string{"FULL": "yes"},
		})).created(t)
		shape := created
		shape.Pipeline = nil // a reference of three fields
		wantEmpty(t, shape, "FailedAt", "FailedMessage", "Pipeline")
		if created.Cronline != "0 9 * * MON-FRI Europe/Berlin" || created.Label != "Morning" || created.Message != "Good morning" || created.Commit != "v1" ||
			created.Branch != "release" || created.Env["FULL"] != "yes" || !created.Enabled || created.CreatedBy.ID != adaID || created.Pipeline.Slug != "hello" {
			t.Errorf("created %+v", created)
		}
		if got := call(client.PipelineSchedules.Get(ctx, "acme", "hello", created.ID)).ok(t); !reflect.DeepEqual(got, created) {
			t.Errorf("got %+v, want %+v as created", got, created)
		}

		off := false
		updated := call(client.PipelineSchedules.Update(ctx, "acme", "hello", created.ID, buildkite.UpdatePipelineSchedule{Label: "Later", Enabled: &off})).ok(t)
		want := created
		want.Label, want.Enabled, want.NextBuildAt = "Later", false, nil
		if !reflect.DeepEqual(updated, want) {
			t.Errorf("updated to %+v, want %+v", updated, want)
		}
		if list := call(client.PipelineSchedules.List(ctx, "acme", "hello", nil)).ok(t); !reflect.DeepEqual(list, []buildkite.PipelineSchedule{want}) {
			t.Errorf("listed %+v, want %+v alone", list, want)
		}

		do(client.PipelineSchedules.Delete(ctx, "acme", "hello", created.ID)).ok(t)
		call(client.PipelineSchedules.Get(ctx, "acme", "hello", created.ID)).refused(t, http.StatusNotFound, "No schedule found")
	})
}
