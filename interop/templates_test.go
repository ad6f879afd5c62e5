package interop

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/buildkite/go-buildkite/v4"
)

func TestPipelineTemplates_FromCreationToDeletion(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ctx, client := t.Context(), s.as(t, ada)
		created := call(client.PipelineTemplates.Create(ctx, "acme", buildkite.PipelineTemplateCreateUpdate{
			Name: "Go", Description: "Builds and tests", Configuration: "steps:\n  - command: go test ./...\n", Available: true,
		})).created(t)
		wantEmpty(t, created)
		if created.Name != "Go" || created.Description != "Builds and tests" || created.Configuration != "steps:\n  - command: go test ./...\n" || created.CreatedBy.ID != adaID {
			t.Errorf("created %+v", created)
		}
		if got := call(client.PipelineTemplates.Get(ctx, "acme", created.UUID)).ok(t); !reflect.DeepEqual(got, created) {
			t.Errorf("got %+v, want %+v as created", got, created)
		}

		updated := call(client.PipelineTemplates.Update(ctx, "acme", created.UUID, buildkite.PipelineTemplateCreateUpdate{Name: "Golang"})).ok(t)
		want := created
		want.Name, want.Available, want.UpdatedAt = "Golang", false, updated.UpdatedAt
		if !reflect.DeepEqual(updated, want) {
			t.Errorf("updated to %+v, want %+v", updated, want)
		}
		if list := call(client.PipelineTemplates.List(ctx, "acme", nil)).ok(t); !reflect.DeepEqual(list, []buildkite.PipelineTemplate{want}) {
			t.Errorf("listed %+v, want %+v alone", list, want)
		}

		do(client.PipelineTemplates.Delete(ctx, "acme", created.UUID)).ok(t)
		call(client.PipelineTemplates.Get(ctx, "acme", created.UUID)).refused(t, http.StatusNotFound, "No pipeline template found")
	})
}
