package teampages

import (
	"net/http"
	"net/url"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) pipelineSettingsRoutes() []route.Route {
	return []route.Route{
		s.get("/settings/pipelines", s.pipelineSettings),
		s.post("/settings/pipelines", s.changePipelineSettings),
		s.post("/settings/pipelines/switch", pages.WithForm(s.switchSetting)),
		s.post("/settings/pipelines/export", s.changeExport),
		s.post("/settings/pipelines/export/stop", s.stopExport),
	}
}

// settings are the pipeline settings in a response.
type settings struct {
	DefaultBranch   string   `json:"default_branch"`
	DefaultCluster  *string  `json:"default_cluster_id"`
	DefaultTimeout  *int     `json:"default_timeout_in_minutes"`
	MaximumTimeout  *int     `json:"maximum_timeout_in_minutes"`
	ScheduledExpiry *int     `json:"scheduled_job_expiry_in_minutes"`
	Terminal        switched `json:"hosted_agents_terminal_access"`
	Public          switched `json:"public_pipeline_creation"`
	Metrics         switched `json:"advanced_queue_metrics"`
	Exports         exports  `json:"build_exports"`
}

// exports are the settings of build exports in a response.
type exports struct {
	Available  bool     `json:"available"`
	Enabled    bool     `json:"enabled"`
	Location   *string  `json:"location"`
	StrategyID *string  `json:"strategy_id"`
	Strategies []string `json:"supported_strategies"`
}

func exportForm(v *pages.Visit, e exports) pages.Form {
	form := pages.Form{ID: "export", Action: v.Place("settings", "pipelines", "export"), Submit: "Save export", Fields: []pages.Field{
		{Name: "location", Label: "Bucket", Required: true, Value: pages.Text(e.Location), Placeholder: "builds/acme", Hint: "Its name, and a folder in it if you like. The server tries to write there with its own credentials."},
		{Name: "strategy_id", Label: "Kind", Kind: pages.SelectField, Value: pages.Text(e.StrategyID)},
	}}
	for _, id := range e.Strategies {
		form.Fields[1].Options = append(form.Fields[1].Options, pages.Option{Value: id, Text: id})
	}
	return form
}

// A toggle is a setting that a button turns on or off.
type toggle struct {
	switched
	Name, Label, About string
	Final              bool // cannot be turned off
}

func (s *Site) settingsForm(v *pages.Visit, set settings) (pages.Form, error) {
	clusters, err := pages.All[person](v, v.API("clusters")) // id and name
	options := []pages.Option{{Value: "", Text: "The default cluster"}}
	for _, c := range clusters {
		options = append(options, pages.Option{Value: c.ID, Text: c.Name})
	}
	return pages.Form{ID: "settings", Action: v.Place("settings", "pipelines"), Submit: "Save settings", Fields: []pages.Field{
		{Name: "default_branch", Label: "Default branch of new pipelines", Null: true, Value: set.DefaultBranch},
		{Name: "default_cluster_id", Label: "Cluster of new pipelines", Kind: pages.SelectField, Null: true, Value: pages.Text(set.DefaultCluster), Options: options},
		{Name: "default_timeout_in_minutes", Label: "Default time limit of jobs, in minutes", Kind: pages.NumberField, Value: pages.Digits(set.DefaultTimeout), Hint: "Empty: none."},
		{Name: "maximum_timeout_in_minutes", Label: "Maximum time limit of jobs, in minutes", Kind: pages.NumberField, Value: pages.Digits(set.MaximumTimeout), Hint: "Empty: none."},
		{Name: "scheduled_job_expiry_in_minutes", Label: "Jobs expire after waiting, in minutes", Kind: pages.NumberField, Value: pages.Digits(set.ScheduledExpiry), Hint: "Empty: 30 days."},
	}}, err
}

func (s *Site) pipelineSettings(v *pages.Visit) error {
	return s.showPipelineSettings(v, http.StatusOK, nil, nil)
}

func (s *Site) showPipelineSettings(v *pages.Visit, status int, entered, export *pages.Form) error {
	shown := struct {
		Form    pages.Form
		Exports exports
		Export  pages.Form
		Stop    pages.Confirm
		Toggles []toggle
		Manages bool
		Why     string
		At      string
	}{Manages: v.Member.Can(identity.ChangeOrganization, v.Org), At: v.Place("settings", "pipelines")}
	var set settings
	_, err := v.Call("GET", v.API("pipeline-settings"), nil, &set)
	if core.KindOf(err) == core.Forbidden {
		shown.Manages = false
		return s.show(v, http.StatusForbidden, "pipeline_settings", "pipeline-settings", "Pipeline settings", shown)
	}
	if err != nil {
		return err
	}
	if shown.Form, err = s.settingsForm(v, set); err != nil {
		return err
	}
	if entered != nil {
		shown.Form = *entered
	}
	shown.Exports, shown.Export = set.Exports, exportForm(v, set.Exports)
	if export != nil {
		export.Fields[1].Options = shown.Export.Fields[1].Options
		shown.Export = *export
	}
	shown.Stop = pages.Confirm{Summary: "Stop exporting", Warning: "Builds that finish from now on are not exported. What was exported stays in its bucket.",
		Form: pages.Form{ID: "stop-export", Action: v.Place("settings", "pipelines", "export", "stop"), Submit: "Stop exporting builds", Danger: true}}
	shown.Toggles = []toggle{
		{set.Metrics, "advanced-queue-metrics", "Advanced queue metrics", "Records how long jobs wait in each queue, for 90 days. It cannot be turned off.", true},
		{set.Terminal, "hosted-agents-ssh", "Terminal access to hosted agents", "Lets people open a shell in running jobs of hosted agents.", false},
		{set.Public, "public-pipelines", "Public pipelines", "Lets people make pipelines public: everyone can see their builds.", false},
	}
	return s.show(v, status, "pipeline_settings", "pipeline-settings", "Pipeline settings", shown)
}

func (s *Site) changePipelineSettings(v *pages.Visit) error {
	form, err := s.settingsForm(v, settings{})
	if err != nil {
		return err
	}
	return v.Submit(form, "PATCH", v.API("pipeline-settings"), v.Place("settings", "pipelines"), "Settings saved.", func(f pages.Form) error {
		return s.showPipelineSettings(v, http.StatusUnprocessableEntity, &f, nil)
	})
}

func (s *Site) changeExport(v *pages.Visit) error {
	return v.Submit(exportForm(v, exports{}), "PUT", v.API("pipeline-settings", "build-export"), v.Place("settings", "pipelines"), "Finished builds are exported from now on.", func(f pages.Form) error {
		return s.showPipelineSettings(v, http.StatusUnprocessableEntity, nil, &f)
	})
}

func (s *Site) stopExport(v *pages.Visit) error {
	return v.Act("DELETE", v.API("pipeline-settings", "build-export"), nil, v.Place("settings", "pipelines"), "Builds are not exported any more.")
}

// switchSetting enables a setting or off.
func (s *Site) switchSetting(v *pages.Visit, form url.Values) error {
	method, done := "DELETE", "Turned off."
	if form.Get("on") != "" {
		method, done = "PUT", "Turned on."
	}
	return v.Act(method, v.API("pipeline-settings", form.Get("setting")), nil, v.Place("settings", "pipelines"), done)
}
