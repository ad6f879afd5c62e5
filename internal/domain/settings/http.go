package settings

import (
	"net/http"

	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the package's part of the route table. Only administrators can use these routes, and each
// returns all settings.
func (s *Service) Routes() []route.Route {
	terminal := func(set *Settings) *Switch { return &set.TerminalAccess }
	public := func(set *Settings) *Switch { return &set.PublicPipelines }
	metrics := func(set *Settings) *Switch { return &set.QueueMetrics }
	return []route.Route{
		endpoint(http.MethodGet, "", route.Do(s.get),
			"Get the pipeline settings", ""),
		endpoint(http.MethodPatch, "", route.DoBody(s.patch),
			"Change pipeline settings", "Changes only the fields in the body."),
		endpoint(http.MethodPut, "/hosted-agents-ssh", s.enable(terminal),
			"Enable terminal access to hosted agents", "SSH for all jobs, VNC for those on macOS. Repeating it keeps who enabled it first, and when."),
		endpoint(http.MethodDelete, "/hosted-agents-ssh", s.disable(terminal),
			"Disable terminal access to hosted agents", ""),
		endpoint(http.MethodPut, "/public-pipelines", s.enable(public),
			"Let members create public pipelines", "Repeating it keeps who enabled it first, and when."),
		endpoint(http.MethodDelete, "/public-pipelines", s.disable(public),
			"Stop members from creating public pipelines", "Pipelines that are public stay so."),
		endpoint(http.MethodPut, "/advanced-queue-metrics", s.enable(metrics),
			"Enable advanced queue metrics", "They cannot be disabled again."),
		endpoint(http.MethodPut, "/build-export", route.OnBody(loadExportingOrg, s.putExport),
			"Export builds to a bucket", "The bucket is tried first: a small object is written, read and deleted there with the installation's credentials."),
		endpoint(http.MethodDelete, "/build-export", route.On(loadExportingOrg, s.deleteExport),
			"Stop exporting builds", "What was exported stays in its bucket."),
	}
}

// endpoint returns a route below an organization's pipeline settings.
func endpoint(method, path string, h route.Handler, summary, description string) route.Route {
	scope := identity.WriteOrganizationSettings
	if method == http.MethodGet {
		scope = identity.ReadOrganizationSettings
	}
	return route.Route{
		Method:      method,
		Path:        "/v2/organizations/{org}/pipeline-settings" + path,
		Tag:         "Pipeline settings",
		Summary:     summary,
		Description: description,
		Scope:       scope,
		Permission:  identity.ChangeOrganization,
		Handler:     h,
	}
}

type pipelineSettingsView struct {
	URL                string                  `json:"url"`
	DefaultBranch      string                  `json:"default_branch" doc:"The default branch of new pipelines."`
	DefaultClusterID   *string                 `json:"default_cluster_id" doc:"The cluster of new pipelines that name none."`
	DefaultTimeout     *int                    `json:"default_timeout_in_minutes" doc:"The timeout of command steps that new pipelines begin with; null: none. Older pipelines keep theirs."`
	MaximumTimeout     *int                    `json:"maximum_timeout_in_minutes" doc:"The cap of every pipeline's timeouts; null: none."`
	ScheduledJobExpiry *int                    `json:"scheduled_job_expiry_in_minutes" doc:"When scheduled jobs that no agent starts expire; null: after 30 days."`
	TerminalAccess     settingSwitchView       `json:"hosted_agents_terminal_access" doc:"Shell and desktop sessions into jobs on hosted agents."`
	PublicPipelines    settingSwitchView       `json:"public_pipeline_creation" doc:"Whether members may create public pipelines."`
	QueueMetrics       oneWaySettingSwitchView `json:"advanced_queue_metrics"`
	BuildExports       buildExportsView        `json:"build_exports"`
}

type settingSwitchView struct {
	Enabled   bool         `json:"enabled"`
	EnabledAt core.Time    `json:"enabled_at"`
	EnabledBy *enablerView `json:"enabled_by" doc:"Who enabled it; null also when that user no longer exists."`
}

type enablerView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type oneWaySettingSwitchView struct {
	settingSwitchView
	DisableSupported bool `json:"disable_supported" doc:"Always false."`
}

type buildExportsView struct {
	Available           bool     `json:"available" doc:"Whether the organization's plan includes it."`
	Enabled             bool     `json:"enabled" doc:"Whether it is available and has a location."`
	Location            *string  `json:"location" doc:"The bucket, and a folder in it if any."`
	StrategyID          *string  `json:"strategy_id"`
	SupportedStrategies []string `json:"supported_strategies"`
}

// view returns all settings of the request's organization, or err.
func (s *Service) view(r *route.Request, set Settings, err error) (pipelineSettingsView, error) {
	if err != nil {
		return pipelineSettingsView{}, err
	}
	available := r.Org.Features.BuildExports
	return pipelineSettingsView{
		URL:                s.public.Org(r.Org.Slug, "pipeline-settings"),
		DefaultBranch:      set.DefaultBranch,
		DefaultClusterID:   core.OrNull(set.DefaultClusterID),
		DefaultTimeout:     core.OrNull(set.DefaultTimeout),
		MaximumTimeout:     core.OrNull(set.MaximumTimeout),
		ScheduledJobExpiry: core.OrNull(set.ScheduledJobExpiry),
		TerminalAccess:     set.TerminalAccess.view(),
		PublicPipelines:    set.PublicPipelines.view(),
		QueueMetrics:       oneWaySettingSwitchView{settingSwitchView: set.QueueMetrics.view()},
		BuildExports: buildExportsView{
			Available:           available,
			Enabled:             available && set.BuildExport != Destination{},
			Location:            core.OrNull(set.BuildExport.Location),
			StrategyID:          core.OrNull(set.BuildExport.Strategy),
			SupportedStrategies: blob.Strategies,
		},
	}, nil
}

func (s Switch) view() settingSwitchView {
	v := settingSwitchView{Enabled: s.Enabled(), EnabledAt: core.At(s.EnabledAt)}
	if s.EnabledBy.ID != "" {
		v.EnabledBy = &enablerView{ID: s.EnabledBy.ID, Name: s.EnabledBy.Name}
	}
	return v
}

func (s *Service) get(r *route.Request) (pipelineSettingsView, error) {
	set, err := s.load(r.Context(), r.Org.ID)
	return s.view(r, set, err)
}

func (s *Service) patch(r *route.Request, sent pipelineSettingsUpdate) (pipelineSettingsView, error) {
	set, err := s.update(r.Context(), r.Org.ID, sent)
	return s.view(r, set, err)
}

func (s *Service) enable(selectSwitch switchSelector) route.Handler {
	return route.Do(func(r *route.Request) (pipelineSettingsView, error) {
		by := Person{ID: r.Caller.User.ID, Name: r.Caller.User.Name}
		set, err := s.turnOn(r.Context(), r.Org.ID, selectSwitch, by)
		return s.view(r, set, err)
	})
}

func (s *Service) disable(selectSwitch switchSelector) route.Handler {
	return route.Do(func(r *route.Request) (pipelineSettingsView, error) {
		set, err := s.turnOff(r.Context(), r.Org.ID, selectSwitch)
		return s.view(r, set, err)
	})
}
