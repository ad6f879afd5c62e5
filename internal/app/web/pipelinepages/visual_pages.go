package pipelinepages

import (
	"maps"
	"net/http"
	"net/url"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/rules/definition"
)

// A visualPage is the data of the editor.
type visualPage struct {
	managed
	Head  []pages.Field // above the steps
	Form  pages.Form
	Steps []shownStep
	Kinds []pages.Option
	Env   pages.Field
	Full  bool
	Dirty bool   // the draft is not saved
	Focus string // value of the button that gets the focus
	Save  string
	New   bool
}

// page returns the data of the editor.
func (d visualDraft) page(m managed, action string, wrong pages.Problems) visualPage {
	p := visualPage{managed: m, Kinds: visualKinds, Save: "Save steps", Full: len(d.steps) >= maxVisualSteps,
		Env: pages.Field{Name: "env", Label: "Environment variables of all steps", Kind: pages.CodeField, Placeholder: "NAME=value", Value: d.env, Hint: envHint}}
	form := pages.Form{ID: "visual", Action: action, Fields: []pages.Field{p.Env}}
	p.Steps, p.Form = d.shown(form, wrong)
	return p
}

// visualSteps shows the editor of a visual pipeline, or its steps to people who cannot change them.
func (s *Site) visualSteps(v *pages.Visit, m managed) error {
	if v.FormQuery("as") == "yaml" {
		return s.visualAsYAML(v, m)
	}
	return s.showVisual(v, http.StatusOK, draftOf(m.Pipeline.Steps, m.Pipeline.Env).page(m, m.At("settings", "steps"), nil))
}

func (s *Site) showVisual(v *pages.Visit, status int, p visualPage) error {
	s.SetLivePolicy(v.W.Header())
	if p.New {
		return v.Show(status, "pipeline_visual", pages.View{Title: "New visual pipeline", Section: "pipelines", Page: p})
	}
	return p.show(v, status, "pipeline_visual", "steps", "Steps", p)
}

// visualAsYAML shows the steps as YAML in the other editor. Saving them there makes the pipeline a YAML one.
func (s *Site) visualAsYAML(v *pages.Visit, m managed) error {
	parsed, err := definition.FromVisual(m.Pipeline.Steps)
	if err != nil {
		return err
	}
	form := stepsForm(m)
	form.Submit = "Convert to YAML"
	if form.Fields[0].Value, err = definition.VisualYAML(parsed.Visual(), m.Pipeline.Env); err != nil {
		if wrong, ok := pages.ProblemsOf(err); ok {
			return v.Refused(m.At("settings", "steps"), wrong.Sentence())
		}
		return err
	}
	return s.showSteps(v, http.StatusOK, m, form)
}

// changeVisual does what a button of the editor says.
func (s *Site) changeVisual(v *pages.Visit, m managed, values url.Values) error {
	draft, err := readDraft(values)
	if err != nil {
		return err
	}
	at := m.At("settings", "steps")
	if do := values.Get("do"); do != "save" && do != "" {
		focus := draft.change(do)
		p := draft.page(m, at, nil)
		p.Dirty, p.Focus = true, focus
		return s.showVisual(v, http.StatusOK, p)
	}
	wrong, err := draft.send(v, "PATCH", m.api(v), nil, nil)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		p := draft.page(m, at, wrong)
		p.Dirty = true
		return s.showVisual(v, http.StatusUnprocessableEntity, p)
	}
	return v.Done(at, "Steps saved. New builds use them.")
}

// send sends a draft to the API, with other fields of the pipeline, and returns what is wrong with it.
func (d visualDraft) send(v *pages.Visit, method, target string, more map[string]any, into any) (pages.Problems, error) {
	body, wrong := d.body()
	if len(wrong) > 0 {
		return wrong, nil
	}
	maps.Copy(body, more)
	_, err := v.Call(method, target, body, into)
	wrong, refused := pages.RefusedFields(err)
	if refused {
		return wrong, nil
	}
	return nil, err
}

func newVisualHead(values url.Values) []pages.Field {
	return []pages.Field{
		{Name: "name", Label: "Name", Required: true, Placeholder: "Web shop", Value: values.Get("name")},
		{Name: "repository", Label: "Repository", Required: true, Placeholder: "https://github.com/acme/shop.git", Hint: "Its URL, over HTTPS or SSH.", Value: values.Get("repository")},
	}
}

// newVisual returns the editor for a new pipeline.
func newVisual(v *pages.Visit, draft visualDraft, wrong pages.Problems) visualPage {
	p := draft.page(managed{Org: v.Org, Manages: true}, v.Place("pipelines", "visual"), wrong)
	p.Head, p.New, p.Save = newVisualHead(draft.head), true, "Create pipeline"
	p.Form.Fields = append(p.Form.Fields, p.Head...)
	return p
}

func (s *Site) newVisualPipeline(v *pages.Visit) error {
	return s.showVisual(v, http.StatusOK, newVisual(v, visualDraft{steps: []map[string]string{{"type": "script", "name": "Tests", "command": `echo "Replace me"`}}}, nil))
}

func (s *Site) createVisualPipeline(v *pages.Visit) error {
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	draft, err := readDraft(values)
	if err != nil {
		return err
	}
	if do := values.Get("do"); do != "save" && do != "" {
		focus := draft.change(do)
		p := newVisual(v, draft, nil)
		p.Focus = focus
		return s.showVisual(v, http.StatusOK, p)
	}
	var made pipeline
	wrong, err := draft.send(v, "POST", v.API("pipelines"), map[string]any{"name": values.Get("name"), "repository": values.Get("repository")}, &made)
	switch {
	case err != nil:
		return err
	case len(wrong) > 0:
		return s.showVisual(v, http.StatusUnprocessableEntity, newVisual(v, draft, wrong))
	}
	return v.Done("/"+v.Org.Slug+"/"+made.Slug, "Pipeline created. Start its first build.")
}
