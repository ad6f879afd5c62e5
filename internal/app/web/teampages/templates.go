package teampages

import (
	"net/http"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) templateRoutes() []route.Route {
	const all, one = "/pipeline-templates", "/pipeline-templates/{template}"
	return []route.Route{
		s.get(all, s.templates),
		s.post(all, s.createTemplate),
		s.get(one, s.template),
		s.post(one, s.changeTemplate),
		s.post(one+"/delete", s.deleteTemplate),
	}
}

// A template is a pipeline template in a response.
type template struct {
	ID            string    `json:"uuid"`
	Name          string    `json:"name"`
	Description   string    `json:"description"`
	Configuration string    `json:"configuration"`
	Available     bool      `json:"available"`
	UpdatedAt     time.Time `json:"updated_at"`
}

func templateForm(action, submit string, t template) pages.Form {
	return pages.Form{ID: "template", Action: action, Submit: submit, Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true, Value: t.Name},
		{Name: "description", Label: "Description", Null: true, Value: t.Description},
		{Name: "configuration", Label: "Steps", Kind: pages.CodeField, Required: true, Value: t.Configuration},
		{Name: "available", Label: "Members can use it", Kind: pages.CheckField, Checked: t.Available},
	}}
}

func (s *Site) templates(v *pages.Visit) error {
	return s.showTemplates(v, http.StatusOK, templateForm(v.Place("pipeline-templates"), "Create template", template{Configuration: "steps:\n  - command: echo hello\n"}))
}

func (s *Site) showTemplates(v *pages.Visit, status int, form pages.Form) error {
	shown := struct {
		Templates []template
		New       pages.Form
		Manages   bool
		At, Check string
	}{New: form, Manages: v.Member.Can(identity.ManageTemplates, v.Org), At: v.Place("pipeline-templates"), Check: v.Place("pipelines", "check")}
	var err error
	if shown.Templates, err = pages.All[template](v, v.API("pipeline-templates")); err != nil {
		return err
	}
	return s.show(v, status, "templates", "templates", "Pipeline templates", shown)
}

func (s *Site) createTemplate(v *pages.Visit) error {
	form := templateForm(v.Place("pipeline-templates"), "Create template", template{})
	return v.Submit(form, "POST", v.API("pipeline-templates"), v.Place("pipeline-templates"), "Template created.", func(f pages.Form) error {
		return s.showTemplates(v, http.StatusUnprocessableEntity, f)
	})
}

func (s *Site) template(v *pages.Visit) error { return s.showTemplate(v, http.StatusOK, nil) }

func (s *Site) showTemplate(v *pages.Visit, status int, entered *pages.Form) error {
	var t template
	if _, err := v.Call("GET", v.API("pipeline-templates", v.PathValue("template")), nil, &t); err != nil {
		return err
	}
	at := v.Place("pipeline-templates", t.ID)
	form := templateForm(at, "Save template", t)
	if entered != nil {
		form = *entered
	}
	return s.show(v, status, "template", "templates", t.Name, struct {
		Template template
		All      string
		Check    string
		Manages  bool
		Form     pages.Form
		Delete   pages.Confirm
	}{t, v.Place("pipeline-templates"), v.Place("pipelines", "check"), v.Member.Can(identity.ManageTemplates, v.Org), form, pages.Confirm{
		Summary: "Delete template", Warning: "A template that pipelines use cannot be deleted. This cannot be undone.", Form: pages.Form{ID: "delete", Action: at + "/delete", Submit: "Delete " + t.Name, Danger: true},
	}})
}

func (s *Site) changeTemplate(v *pages.Visit) error {
	at := v.Place("pipeline-templates", v.PathValue("template"))
	return v.Submit(templateForm(at, "Save template", template{}), "PATCH", v.API("pipeline-templates", v.PathValue("template")), at, "Template saved.", func(f pages.Form) error {
		return s.showTemplate(v, http.StatusUnprocessableEntity, &f)
	})
}

func (s *Site) deleteTemplate(v *pages.Visit) error {
	return v.Act("DELETE", v.API("pipeline-templates", v.PathValue("template")), nil, v.Place("pipeline-templates"), "Template deleted.")
}
