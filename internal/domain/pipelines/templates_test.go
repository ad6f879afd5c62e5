package pipelines_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const templates = "/v2/organizations/acme/pipeline-templates"

// template creates a template and returns its UUID.
func template(t *testing.T, s *servertest.Server, name, configuration string, available bool) string {
	t.Helper()
	return s.As(t, servertest.Ada).Post(templates, map[string]any{"name": name, "configuration": configuration, "available": available}).
		Want(http.StatusCreated).String("uuid")
}

func TestTemplates_AreCreatedReadChangedAndDeleted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		created := ada.Post(templates, map[string]any{"name": " Go ", "description": "For Go", "configuration": "steps: [wait]"}).Want(http.StatusCreated)
		id := created.String("uuid")
		user := created.At("created_by")
		now := s.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		want := map[string]any{
			"uuid":          id,
			"graphql_id":    core.GraphQLID("PipelineTemplate", id),
			"name":          "Go",
			"description":   "For Go",
			"configuration": "steps: [wait]",
			"available":     false,
			"url":           s.URL + templates + "/" + id,
			"web_url":       s.URL + "/organizations/acme/pipeline-templates/" + id,
			"created_at":    now,
			"created_by":    user,
			"updated_at":    now,
			"updated_by":    user,
		}
		wantEqual(t, "created by", created.At("created_by.name"), "Ada")
		wantEqual(t, "created", created.At(""), any(want))
		wantEqual(t, "read", bo.Get(templates+"/"+id).Want(http.StatusOK).At(""), any(want))
		wantEqual(t, "listed", bo.Get(templates).Want(http.StatusOK).At(""), any([]any{want}))

		s.Clock.Advance(time.Second)
		want["available"], want["updated_at"] = true, s.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		wantEqual(t, "changed", ada.Patch(templates+"/"+id, map[string]any{"available": true}).Want(http.StatusOK).At(""), any(want))
		ada.Delete(templates + "/" + id).Want(http.StatusNoContent)
		ada.Get(templates+"/"+id).WantMessage(http.StatusNotFound, "No pipeline template found")
		ada.Delete(templates + "/" + id).Want(http.StatusNotFound)
		ada.Get(templates + "/nonsense").Want(http.StatusNotFound)
	})
}

func TestTemplates_RefuseWrongFields(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		id := template(t, s, "Taken", "steps: [wait]", true)
		other := template(t, s, "Other", "steps: [wait]", true)
		empty := ada.Post(templates, `{}`)
		empty.WantFieldError("name", "is required")
		empty.WantFieldError("configuration", "is required")
		wrong := ada.Post(templates, map[string]any{"name": "", "configuration": "steps: 7"})
		wrong.WantFieldError("name", "is required")
		wrong.WantFieldError("configuration", "line 1, column 8")
		ada.Post(templates, map[string]any{"name": "Taken", "configuration": "steps: [wait]"}).WantFieldError("name", "has already been taken")
		ada.Patch(templates+"/"+other, map[string]any{"name": "Taken"}).WantFieldError("name", "has already been taken")
		ada.Patch(templates+"/"+id, map[string]any{"configuration": ""}).WantFieldError("configuration", "is required")
		ada.Patch(templates+"/"+id, map[string]any{"name": strings.Repeat("x", 256)}).WantFieldError("name", "at most 255")
	})
}

func TestTemplates_AreManagedByAdministratorsOfTheirOrganization(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		id := template(t, s, "Go", "steps: [wait]", true)
		bo, cy := s.As(t, servertest.Bo), s.As(t, servertest.Cy)
		bo.Post(templates, map[string]any{"name": "X", "configuration": "steps: [wait]"}).Want(http.StatusForbidden)
		bo.Patch(templates+"/"+id, nil).Want(http.StatusForbidden)
		bo.Delete(templates + "/" + id).Want(http.StatusForbidden)
		cy.Get(templates + "/" + id).Want(http.StatusNotFound)
		cy.Get("/v2/organizations/rival/pipeline-templates/" + id).Want(http.StatusNotFound)
		cy.Delete("/v2/organizations/rival/pipeline-templates/" + id).Want(http.StatusNotFound)
		cy.Post(rivalPath, without(yaml("X", map[string]any{"pipeline_template_uuid": id}), "cluster_id")).
			WantFieldError("pipeline_template_uuid", "must be a pipeline template of this organization")
	})
}

func TestTemplates_ComeInPagesByName(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		for _, name := range []string{"C", "A", "B"} {
			template(t, s, name, "steps: [wait]", true)
		}
		first := s.As(t, servertest.Ada).Get(templates + "?per_page=2").Want(http.StatusOK)
		wantEqual(t, "names", []any{first.At("0.name"), first.At("1.name")}, []any{"A", "B"})
		if !strings.Contains(first.Header.Get("Link"), `rel="next"`) {
			t.Errorf("Link %q", first.Header.Get("Link"))
		}
	})
}

func TestPipeline_TakesItsStepsFromATemplate(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada := s.As(t, servertest.Ada)
		id := template(t, s, "Go", "steps:\n  - command: go test\n", true)
		from := func(name string) map[string]any {
			return without(yaml(name, map[string]any{"pipeline_template_uuid": id}), "configuration")
		}
		ada.Post(path, yaml("Both", map[string]any{"pipeline_template_uuid": id})).WantFieldError("configuration", "cannot be given beside pipeline_template_uuid")
		got := ada.Post(path, from("Made")).Want(http.StatusCreated)
		wantEqual(t, "template", got.At("pipeline_template_uuid"), id)
		wantEqual(t, "configuration", got.At("configuration"), "steps:\n  - command: go test\n")
		wantEqual(t, "command", got.At("steps.0.command"), "go test")

		ada.Patch(templates+"/"+id, map[string]any{"configuration": "steps:\n  - command: go vet\n"}).Want(http.StatusOK)
		wantEqual(t, "command", ada.Get(path+"/made").At("steps.0.command"), "go vet")
		wantEqual(t, "command", ada.Get(path+"?name=made").At("0.steps.0.command"), "go vet")
		ada.Delete(templates+"/"+id).WantMessage(http.StatusUnprocessableEntity,
			"The template cannot be deleted because the steps of 1 of the organization's pipelines come from it")

		own := map[string]any{"configuration": "steps:\n  - command: mine\n"}
		ada.Patch(path+"/made", own).WantFieldError("configuration", "comes from the pipeline's template")
		ada.Patch(path+"/made", map[string]any{"description": "still the template's"}).Want(http.StatusOK)
		detached := ada.Patch(path+"/made", map[string]any{"pipeline_template_uuid": nil}).Want(http.StatusOK)
		wantEqual(t, "template", detached.At("pipeline_template_uuid"), nil)
		wantEqual(t, "command", detached.At("steps.0.command"), "go vet")
		ada.Patch(path+"/made", own).Want(http.StatusOK)

		ada.Patch(path+"/made", map[string]any{"pipeline_template_uuid": id, "configuration": "steps: [wait]"}).
			WantFieldError("configuration", "cannot be given beside pipeline_template_uuid")
		wantEqual(t, "command", ada.Get(path+"/made").At("steps.0.command"), "mine")
		attached := ada.Patch(path+"/made", map[string]any{"pipeline_template_uuid": id}).Want(http.StatusOK)
		wantEqual(t, "command", attached.At("steps.0.command"), "go vet")
		mine := ada.Patch(path+"/made", map[string]any{"pipeline_template_uuid": nil, "configuration": own["configuration"]}).Want(http.StatusOK)
		wantEqual(t, "command", mine.At("steps.0.command"), "mine")
		ada.Delete(templates + "/" + id).Want(http.StatusNoContent)
	})
}

func TestPipeline_IsMadeFromAvailableTemplatesOnlyByMembers(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		ada, bo := s.As(t, servertest.Ada), s.As(t, servertest.Bo)
		draft := template(t, s, "Draft", "steps: [wait]", false)
		ready := template(t, s, "Ready", "steps: [wait]", true)
		bo.Post(path, without(yaml("Refused", map[string]any{"pipeline_template_uuid": draft}), "configuration")).WantFieldError("pipeline_template_uuid", "available to members")
		bo.Patch(hello, map[string]any{"pipeline_template_uuid": draft}).WantFieldError("pipeline_template_uuid", "available to members")
		bo.Post(path, without(yaml("By Bo", map[string]any{"pipeline_template_uuid": ready}), "configuration")).Want(http.StatusCreated)
		ada.Post(path, without(yaml("By Ada", map[string]any{"pipeline_template_uuid": draft}), "configuration")).Want(http.StatusCreated)
		bo.Patch(path+"/by-ada", map[string]any{"description": "x", "pipeline_template_uuid": draft}).Want(http.StatusOK)
	})
}
