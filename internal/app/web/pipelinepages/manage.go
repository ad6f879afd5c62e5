package pipelinepages

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
)

// manageRoutes are the pages that create and change pipelines, with requests to the REST API.
func (s *Site) manageRoutes() []route.Route {
	member := func(h pages.Handler) pages.Handler { return pages.SignedIn(pages.MembersOnly(h)) }
	on := func(h func(*pages.Visit, managed) error) pages.Handler { return member(pages.On(s.load, h)) }
	onForm := func(h func(*pages.Visit, managed, url.Values) error) pages.Handler {
		return member(pages.OnForm(s.load, h))
	}
	const one = "/{org}/{pipeline}/settings"
	return []route.Route{
		s.Get("/organizations/{org}/pipelines/new", member(s.newPipeline)),
		s.Get("/organizations/{org}/pipelines/repositories", member(s.repositories)),
		s.Post("/organizations/{org}/pipelines", member(s.createPipeline)),
		s.Get("/organizations/{org}/pipelines/visual", member(s.newVisualPipeline)),
		s.Post("/organizations/{org}/pipelines/visual", member(s.createVisualPipeline)),
		s.Post("/organizations/{org}/pipelines/check", member(s.checkSteps)),
		s.Get(one, on(s.settings)),
		s.Post(one, on(s.changeSettings)),
		s.Get(one+"/steps", on(s.steps)),
		s.Post(one+"/steps", onForm(s.changeSteps)),
		s.Get(one+"/schedules", on(s.schedules)),
		s.Post(one+"/schedules", on(s.createSchedule)),
		s.Get(one+"/schedules/{schedule}", on(s.schedule)),
		s.Post(one+"/schedules/{schedule}", onForm(s.changeSchedule)),
		s.Post(one+"/schedules/{schedule}/edit", on(s.editSchedule)),
		s.Get(one+"/webhooks", on(s.webhooks)),
		s.Get(one+"/webhooks/{delivery}", on(s.webhook)),
		s.Post(one+"/webhooks/{delivery}/redeliver", on(s.redeliver)),
		s.Post(one+"/webhooks/create", on(s.createWebhook)),
		s.Post(one+"/archive", onForm(s.archive)),
		s.Post(one+"/delete", onForm(s.deletePipeline)),
	}
}

// A pipeline is a pipeline in a response.
type pipeline struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	Slug           string   `json:"slug"`
	Description    string   `json:"description"`
	Repository     string   `json:"repository"`
	ClusterID      *string  `json:"cluster_id"`
	DefaultBranch  string   `json:"default_branch"`
	Branches       *string  `json:"branch_configuration"`
	SkipQueued     bool     `json:"skip_queued_branch_builds"`
	SkipFilter     *string  `json:"skip_queued_branch_builds_filter"`
	CancelRunning  bool     `json:"cancel_running_branch_builds"`
	CancelFilter   *string  `json:"cancel_running_branch_builds_filter"`
	AllowRebuilds  bool     `json:"allow_rebuilds"`
	Visibility     string   `json:"visibility"`
	Emoji          *string  `json:"emoji"`
	Tags           []string `json:"tags"`
	DefaultTimeout *int     `json:"default_command_step_timeout"`
	MaximumTimeout *int     `json:"maximum_command_step_timeout"`
	BadgeURL       string   `json:"badge_url"`
	Configuration  string   `json:"configuration"`
	TemplateID     *string  `json:"pipeline_template_uuid"`

	Steps []definition.VisualStep `json:"steps"`
	Env   map[string]string       `json:"env"` // of visual steps

	ArchivedAt *time.Time `json:"archived_at"`
	Provider   struct {
		WebhookURL string `json:"webhook_url"`
	} `json:"provider"`
}

func clusterOptions(v *pages.Visit) (options []pages.Option, err error) {
	clusters, err := pages.All[struct{ ID, Name string }](v, v.API("clusters"))
	for _, c := range clusters {
		options = append(options, pages.Option{Value: c.ID, Text: c.Name})
	}
	return options, err
}

// stepPreview is a step in the preview beside the editor.
type stepPreview struct {
	Line  int    `json:"line"`
	Kind  string `json:"kind"`
	Label string `json:"label"`
	Depth int    `json:"depth"`
}

// checkSteps checks steps while they are entered, and returns their errors and a preview.
func (s *Site) checkSteps(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	answer := struct {
		Errors   []definition.Problem `json:"errors"`
		Warnings []definition.Problem `json:"warnings"`
		Steps    []stepPreview        `json:"steps"`
	}{Errors: []definition.Problem{}, Warnings: []definition.Problem{}, Steps: []stepPreview{}}
	parsed, err := definition.Parse([]byte(strings.ReplaceAll(form.Get("configuration"), "\r\n", "\n")))
	if invalid, ok := errors.AsType[definition.Errors](err); ok {
		answer.Errors = invalid
	} else if err != nil {
		answer.Errors = append(answer.Errors, definition.Problem{Line: 1, Column: 1, Message: err.Error()})
	} else {
		answer.Warnings = append(answer.Warnings, parsed.Warnings...)
		answer.Steps = preview(parsed.Steps, 0, answer.Steps)
	}
	v.W.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(v.W).Encode(answer)
}

// maxPreview bounds the steps of a preview.
const maxPreview = 500

func preview(steps []definition.Step, depth int, to []stepPreview) []stepPreview {
	for _, step := range steps {
		if len(to) >= maxPreview {
			return to
		}
		p := stepPreview{Line: step.Line, Kind: string(step.Kind), Label: step.Label, Depth: depth}
		if p.Label == "" && step.Command != nil {
			p.Label, _, _ = strings.Cut(step.Command.Script, "\n")
		}
		if p.Label == "" {
			p.Label = p.Kind
		}
		p.Label = markdown.Emoji(p.Label)
		to = append(to, p)
		if step.Group != nil {
			to = preview(step.Group.Steps, depth+1, to)
		}
	}
	return to
}

// Visual reports whether the steps are visual ones.
func (p pipeline) Visual() bool { return p.Configuration == "" && p.TemplateID == nil }

// managed is the data of a settings page of a pipeline.
type managed struct {
	Pipeline pipeline
	Org      *identity.Organization
	Manages  bool
}

// At returns a path of the pipeline.
func (m managed) At(segments ...string) string {
	return core.PublicURL("").To(append([]string{m.Org.Slug, m.Pipeline.Slug}, segments...)...)
}

// suggestBranch returns the path of suggestions for branches.
func (m managed) suggestBranch() string {
	return pages.SuggestPath(m.Org, pages.SuggestBranch, m.Pipeline.Slug)
}

func (m managed) show(v *pages.Visit, status int, name, section, title string, page any) error {
	return v.Show(status, name, pages.View{Title: title, Section: section, BesideLabel: "Pipeline settings", Page: page, Beside: []pages.NavLink{
		{Section: "builds", Path: m.At(), Title: "Builds", Icon: "run"},
		{Section: "steps", Path: m.At("settings", "steps"), Title: "Steps", Icon: "stack"},
		{Section: "schedules", Path: m.At("settings", "schedules"), Title: "Schedules", Icon: "clock"},
		{Section: "webhooks", Path: m.At("settings", "webhooks"), Title: "Webhooks", Icon: "bell"},
		{Section: "pipeline", Path: m.At("settings"), Title: "Settings", Icon: "pen"},
	}})
}

// load returns the pipeline of the path. Visitors of a public pipeline see none of these pages.
func (s *Site) load(v *pages.Visit) (managed, error) {
	p, err := s.Pipelines.Load(v.Request)
	if err == nil {
		err = p.Hidden()
	}
	if err != nil {
		return managed{}, err
	}
	m := managed{Org: v.Org, Manages: p.Permits(v.Request, identity.ManagePipeline)}
	_, err = v.Call("GET", v.API("pipelines", p.Slug), nil, &m.Pipeline)
	return m, err
}

func (m managed) api(v *pages.Visit, segments ...string) string {
	return v.API(append([]string{"pipelines", m.Pipeline.Slug}, segments...)...)
}
