package orgpages

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/delivery"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// serviceForm is the data of the form to create or edit a service.
type serviceForm struct {
	Organization pages.Membership
	Provider     *notifications.Provider
	Service      *notifications.Receiver // nil: a new one
	Description  string
	Branches     string
	Scope        notifications.Scope
	Scopes       []string
	ScopeIDs     string // one on each line
	States       []serviceState
	Inputs       []notifications.Input
	Facts        map[string]string // visible managed settings by label
	Problems     pages.Problems
	Deliveries   []pages.Delivery
	Tests        bool // whether it can be sent a test message
}

// Action is the path of the form's action.
func (f serviceForm) Action() string {
	if f.Service == nil {
		return servicesPath + "/" + f.Organization.Slug
	}
	return servicesPath + "/" + f.Organization.Slug + "/" + f.Service.ID
}

// Back is the path of the previous page.
func (f serviceForm) Back() string { return servicesPath + "/" + f.Organization.Slug }

// StatesHint says that the build states have no effect on services of the provider; empty: they have.
func (f serviceForm) StatesHint() string {
	switch f.Provider.ID {
	case "webhook", "event_log_api":
		return "These have no effect here: the events above decide."
	case "open_telemetry_tracing", "observability_pipeline_visibility":
		return "These have no effect here: every build that ends is sent."
	}
	return ""
}

// serviceScopes are the labels of scopes.
var serviceScopes = map[notifications.Scope]string{
	notifications.All:             "All pipelines",
	notifications.SomeProjects:    "Some pipelines",
	notifications.ExcludeProjects: "All pipelines except some",
	notifications.SomeTeams:       "Pipelines of some teams",
	notifications.SomeClusters:    "Pipelines of some clusters",
}

// A serviceEntry is an input with the problems of its form.
type serviceEntry struct {
	Input    notifications.Input
	Problems pages.Problems
}

// A serviceState is a checkbox for a build state.
type serviceState struct {
	Name  string // API name
	Label string
	On    bool
}

// serviceStates lists the build states in display order.
var serviceStates = []serviceState{
	{Name: "build_passed", Label: "Build passed"},
	{Name: "build_fixed", Label: "Build passed after the previous one on its branch failed"},
	{Name: "build_failed", Label: "Build failed"},
	{Name: "build_failing", Label: "Build started failing"},
	{Name: "build_blocked", Label: "Build waits at a block step"},
	{Name: "build_canceled", Label: "Build canceled"},
	{Name: "job_activated", Label: "Block step unblocked"},
}

// statesOf returns the checkboxes with their values.
func statesOf(on func(name string) bool) []serviceState {
	states := slices.Clone(serviceStates)
	for i := range states {
		states[i].On = on(states[i].Name)
	}
	return states
}

// entered sets the form to the submitted values and problems.
func (f *serviceForm) entered(form url.Values, wrong pages.Problems) {
	f.Description, f.Branches = form.Get("description"), form.Get("branch_configuration")
	f.Scope, f.ScopeIDs = notifications.Scope(form.Get("scope")), form.Get("scope_uuids")
	f.States = statesOf(func(name string) bool { return slices.Contains(form["build_states"], name) })
	f.Inputs = notifications.Entered(f.Inputs, form)
	f.Problems = wrong
}

// draftOf returns the draft of a submitted form. ids are those of its scope.
func draftOf(form url.Values, ids []string, settings map[string]json.RawMessage) notifications.Draft {
	description, branches := strings.TrimSpace(form.Get("description")), strings.TrimSpace(form.Get("branch_configuration"))
	scope := notifications.Scope(form.Get("scope"))
	if scope == notifications.All {
		ids = nil // the field is not used
	}
	d := notifications.Draft{Description: &description, Branches: &branches, Scope: &scope, ScopeIDs: &ids, States: map[string]json.RawMessage{}, Settings: settings}
	for _, state := range serviceStates {
		on := "false"
		if slices.Contains(form["build_states"], state.Name) {
			on = "true"
		}
		d.States[state.Name] = json.RawMessage(on)
	}
	return d
}

func (s *Site) showServiceForm(v *pages.Visit, status int, f serviceForm) error {
	f.Scopes = f.Scope.Values()
	title := "New " + strings.ToLower(f.Provider.Name)
	if f.Service != nil {
		title = f.Provider.Name
	}
	return v.Show(status, "service", pages.View{Title: title, Section: "services", Page: f})
}

// newServiceForm returns the form for a new service.
func newServiceForm(org pages.Membership, provider string) (serviceForm, error) {
	p := notifications.ProviderByID(provider)
	if p == nil || !slices.Contains(notifications.Creatable(org.Features), p) {
		return serviceForm{}, core.Errorf(core.NotFound, "This kind of notification service cannot be created.")
	}
	return serviceForm{
		Organization: org,
		Provider:     p,
		Scope:        notifications.All,
		States:       statesOf(func(name string) bool { return name == "build_failed" || name == "build_fixed" }),
		Inputs:       p.Inputs(org.Features, nil, nil),
	}, nil
}

// serviceFormOf returns the form for an existing service.
func (s *Site) serviceFormOf(v *pages.Visit, org pages.Membership, r *notifications.Receiver) (serviceForm, error) {
	settings, err := s.Notifications.Settings(r, org.Features)
	if err != nil {
		return serviceForm{}, err
	}
	deliveries, err := s.deliveryRows(v, org, r)
	if err != nil {
		return serviceForm{}, err
	}
	names, err := scopeNames(v, org, r)
	if err != nil {
		return serviceForm{}, err
	}
	states := r.States.ByName()
	return serviceForm{
		Organization: org,
		Provider:     r.Provider,
		Service:      r,
		Description:  r.Description,
		Branches:     string(r.Branches),
		Scope:        r.Scope,
		ScopeIDs:     names,
		States:       statesOf(func(name string) bool { return states[name] }),
		Inputs:       r.Provider.Inputs(org.Features, r, settings),
		Facts:        r.Provider.Facts(settings),
		Deliveries:   deliveries,
		Tests:        delivery.Tests(r.Provider),
	}, nil
}

// FactNames returns the sorted labels of Facts.
func (f serviceForm) FactNames() []string { return slices.Sorted(maps.Keys(f.Facts)) }
