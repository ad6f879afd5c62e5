package web

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
)

// serviceForm is what the pages to create and to change a service show.
type serviceForm struct {
	Organization membership
	Provider     *notifications.Provider
	Service      *notifications.Receiver // nil: a new one
	Description  string
	Branches     string
	Scope        notifications.Scope
	Scopes       []string
	ScopeIDs     string // one on each line
	States       []serviceState
	Inputs       []notifications.Input
	Facts        map[string]string // settings that came from the provider
	Problems     problems
}

// Action is where the form is sent.
func (f serviceForm) Action() string {
	if f.Service == nil {
		return servicesPath + "/" + f.Organization.Slug
	}
	return servicesPath + "/" + f.Organization.Slug + "/" + f.Service.ID
}

// Back is the page that leads to the form.
func (f serviceForm) Back() string { return servicesPath + "/" + f.Organization.Slug }

// serviceScopes say which pipelines a service is notified of.
var serviceScopes = map[notifications.Scope]string{
	notifications.All:             "All pipelines",
	notifications.SomeProjects:    "Some pipelines",
	notifications.ExcludeProjects: "All pipelines except some",
	notifications.SomeTeams:       "Pipelines of some teams",
	notifications.SomeClusters:    "Pipelines of some clusters",
}

// A serviceEntry is an input with what is wrong with the form that it is in.
type serviceEntry struct {
	Input    notifications.Input
	Problems problems
}

// A serviceState is one of the switches for what a service is notified of.
type serviceState struct {
	Name  string // in the form and in the API
	Words string
	On    bool
}

// serviceStates are the switches in the order in which people read them.
var serviceStates = []serviceState{
	{Name: "build_passed", Words: "Build passed"},
	{Name: "build_fixed", Words: "Build passed after the previous one on its branch failed"},
	{Name: "build_failed", Words: "Build failed"},
	{Name: "build_failing", Words: "Build started failing"},
	{Name: "build_blocked", Words: "Build waits at a block step"},
	{Name: "build_canceled", Words: "Build canceled"},
	{Name: "job_activated", Words: "Block step unblocked"},
}

// statesOf returns the switches, each as on says.
func statesOf(on func(name string) bool) []serviceState {
	states := slices.Clone(serviceStates)
	for i := range states {
		states[i].On = on(states[i].Name)
	}
	return states
}

// entered puts what somebody has entered into the form, to be corrected.
func (f *serviceForm) entered(form url.Values, wrong problems) {
	f.Description, f.Branches = form.Get("description"), form.Get("branch_configuration")
	f.Scope, f.ScopeIDs = notifications.Scope(form.Get("scope")), form.Get("scope_uuids")
	f.States = statesOf(func(name string) bool { return slices.Contains(form["build_states"], name) })
	f.Inputs = notifications.Entered(f.Inputs, form)
	f.Problems = wrong
}

// draftOf reads what a form says about a service.
func draftOf(form url.Values, settings map[string]json.RawMessage) notifications.Draft {
	description, branches := strings.TrimSpace(form.Get("description")), strings.TrimSpace(form.Get("branch_configuration"))
	scope, ids := notifications.Scope(form.Get("scope")), strings.Fields(form.Get("scope_uuids"))
	if scope == notifications.All {
		ids = nil // left over from another scope
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

func (s *Site) showServiceForm(v *visit, status int, f serviceForm) error {
	f.Scopes = f.Scope.Values()
	title := "New " + strings.ToLower(f.Provider.Name)
	if f.Service != nil {
		title = f.Provider.Name
	}
	return v.show(status, "service", view{Title: title, Section: "services", Page: f})
}

// newServiceForm returns the form for a new service of the provider with an id.
func newServiceForm(org membership, provider string) (serviceForm, error) {
	p := notifications.ProviderByID(provider)
	if p == nil || !slices.Contains(notifications.Creatable(org.Features), p) {
		return serviceForm{}, core.Errorf(core.NotFound, "There is no such kind of notification service to create.")
	}
	return serviceForm{
		Organization: org,
		Provider:     p,
		Scope:        notifications.All,
		States:       statesOf(func(name string) bool { return name == "build_failed" || name == "build_fixed" }),
		Inputs:       p.Inputs(org.Features, nil, nil),
	}, nil
}

// serviceFormOf returns the form for a service as it is.
func (s *Site) serviceFormOf(org membership, r *notifications.Receiver) (serviceForm, error) {
	settings, err := s.Notifications.Settings(r, org.Features)
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
		ScopeIDs:     strings.Join(r.ScopeIDs, "\n"),
		States:       statesOf(func(name string) bool { return states[name] }),
		Inputs:       r.Provider.Inputs(org.Features, r, settings),
		Facts:        r.Provider.Facts(settings),
	}, nil
}

// FactNames returns the names of what came from the provider, in order.
func (f serviceForm) FactNames() []string { return slices.Sorted(maps.Keys(f.Facts)) }
