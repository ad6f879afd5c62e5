package pipelinepages

import (
	"net/http"
	"net/url"
	"slices"

	"stackyard/internal/app/web/pages"
)

func settingsForm(v *pages.Visit, m managed) (pages.Form, error) {
	clusters, err := clusterOptions(v)
	if err != nil {
		return pages.Form{}, err
	}
	p := m.Pipeline
	form := pages.Form{ID: "pipeline", Action: m.At("settings"), Submit: "Save settings", Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true, Value: p.Name},
		{Name: "description", Label: "Description", Null: true, Value: p.Description},
		{Name: "emoji", Label: "Emoji", Null: true, Value: pages.Text(p.Emoji), Placeholder: "🚀"},
		{Name: "repository", Label: "Repository", Required: true, Value: p.Repository},
		{Name: "default_branch", Label: "Default branch", Required: true, Value: p.DefaultBranch},
		{Name: "branch_configuration", Label: "Build these branches", Null: true, Value: pages.Text(p.Branches), Placeholder: "main release/*", Hint: "Patterns with *, ! in front excludes; empty: all."},
		{Name: "cluster_id", Label: "Cluster", Kind: pages.SelectField, Value: pages.Text(p.ClusterID), Options: clusters},
		{Name: "visibility", Label: "Seen by", Kind: pages.SelectField, Value: p.Visibility, Options: []pages.Option{{Value: "private", Text: "people with access"}, {Value: "public", Text: "everyone"}}},
		{Name: "default_command_step_timeout", Label: "Default time limit of jobs, in minutes", Kind: pages.NumberField, Value: pages.Digits(p.DefaultTimeout)},
		{Name: "maximum_command_step_timeout", Label: "Maximum time limit of jobs, in minutes", Kind: pages.NumberField, Value: pages.Digits(p.MaximumTimeout)},
		{Name: "skip_queued_branch_builds", Label: "Skip builds of a branch that wait when a newer one is created", Kind: pages.CheckField, Checked: p.SkipQueued},
		{Name: "cancel_running_branch_builds", Label: "Cancel running builds of a branch when a newer one is created", Kind: pages.CheckField, Checked: p.CancelRunning},
		{Name: "allow_rebuilds", Label: "Builds can be rebuilt", Kind: pages.CheckField, Checked: p.AllowRebuilds},
	}}
	template, ok, err := templateField(v, p)
	if ok {
		form.Fields = slices.Insert(form.Fields, 4, template)
	}
	return form, err
}

// templateField returns the field that chooses the template of a pipeline; ok is false if there are none.
func templateField(v *pages.Visit, p pipeline) (f pages.Field, ok bool, err error) {
	f = pages.Field{Name: "pipeline_template_uuid", Label: "Steps", Kind: pages.SelectField, Null: true, Value: pages.Text(p.TemplateID), Hint: "A pipeline of a template has the template's steps, also after the template changes.",
		Options: []pages.Option{{Text: "The pipeline's own"}}}
	templates, err := pages.All[struct {
		ID   string `json:"uuid"`
		Name string `json:"name"`
	}](v, v.API("pipeline-templates"))
	for _, t := range templates {
		f.Options = append(f.Options, pages.Option{Value: t.ID, Text: "Template " + t.Name})
	}
	return f, len(templates) > 0, err
}

func (s *Site) settings(v *pages.Visit, m managed) error {
	form, err := settingsForm(v, m)
	if err != nil {
		return err
	}
	return s.showSettings(v, http.StatusOK, m, form)
}

func (s *Site) showSettings(v *pages.Visit, status int, m managed, form pages.Form) error {
	archive := pages.Confirm{Summary: "Archive pipeline", Warning: "It stays visible, but builds nothing until you unarchive it: no pushes, no schedules, no new builds.",
		Form: pages.Form{ID: "archive", Action: m.At("settings", "archive"), Submit: "Archive " + m.Pipeline.Name, Danger: true, Fields: []pages.Field{{Name: "on", Kind: pages.HiddenField, Value: "true"}}}}
	unarchive := pages.Form{ID: "unarchive", Action: m.At("settings", "archive"), Submit: "Unarchive pipeline"}
	badge := v.Local(m.Pipeline.BadgeURL)
	return m.show(v, status, "pipeline_manage", "pipeline", "Settings", struct {
		managed
		Form          pages.Form
		Archive       pages.Confirm
		Unarchive     pages.Form
		Badge, Source string
		Delete        pages.Confirm
	}{m, form, archive, unarchive, badge, "[![Build status](" + m.Pipeline.BadgeURL + ")](" + s.Public.To(m.Org.Slug, m.Pipeline.Slug) + ")",
		pages.Confirm{Summary: "Delete pipeline", Warning: "All its builds, logs, artifacts and schedules are deleted. This cannot be undone. Enter its name to confirm.",
			Form: pages.Form{ID: "delete", Action: m.At("settings", "delete"), Submit: "Delete " + m.Pipeline.Name, Danger: true, Fields: []pages.Field{{Name: "confirm", Label: "Name of the pipeline", Required: true, Placeholder: m.Pipeline.Name}}}}})
}

func (s *Site) changeSettings(v *pages.Visit, m managed) error {
	form, err := settingsForm(v, m)
	if err != nil {
		return err
	}
	return v.Submit(form, "PATCH", m.api(v), m.At("settings"), "Settings saved.", func(f pages.Form) error {
		return s.showSettings(v, http.StatusUnprocessableEntity, m, f)
	})
}

func (s *Site) archive(v *pages.Visit, m managed, form url.Values) error {
	if form.Get("on") != "" {
		return v.Act("POST", m.api(v, "archive"), nil, m.At("settings"), "Pipeline archived. It builds nothing until you unarchive it.")
	}
	return v.Act("POST", m.api(v, "unarchive"), nil, m.At("settings"), "Pipeline unarchived.")
}

func (s *Site) deletePipeline(v *pages.Visit, m managed, form url.Values) error {
	if form.Get("confirm") != m.Pipeline.Name {
		return v.Refused(m.At("settings"), "Not deleted: the name that you entered is not "+m.Pipeline.Name+".")
	}
	return v.Act("DELETE", m.api(v), nil, "/"+m.Org.Slug, "Pipeline deleted.")
}

func stepsForm(m managed) pages.Form {
	return pages.Form{ID: "steps", Action: m.At("settings", "steps"), Submit: "Save steps", Fields: []pages.Field{
		{Name: "configuration", Label: "Steps", Kind: pages.CodeField, Required: true, Value: m.Pipeline.Configuration},
	}}
}

func (s *Site) steps(v *pages.Visit, m managed) error {
	if m.Pipeline.Visual() {
		return s.visualSteps(v, m)
	}
	return s.showSteps(v, http.StatusOK, m, stepsForm(m))
}

func (s *Site) showSteps(v *pages.Visit, status int, m managed, form pages.Form) error {
	s.SetLivePolicy(v.W.Header())
	return m.show(v, status, "pipeline_steps", "steps", "Steps", struct {
		managed
		Form  pages.Form
		Check string
	}{m, form, v.Place("pipelines", "check")})
}

func (s *Site) changeSteps(v *pages.Visit, m managed, values url.Values) error {
	if m.Pipeline.Visual() && !values.Has("configuration") {
		return s.changeVisual(v, m, values)
	}
	return v.SubmitValues(stepsForm(m), values, "PATCH", m.api(v), m.At("settings", "steps"), "Steps saved. New builds use them.", func(f pages.Form) error {
		return s.showSteps(v, http.StatusUnprocessableEntity, m, f)
	})
}
