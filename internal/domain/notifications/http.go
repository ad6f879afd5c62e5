package notifications

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the routes of notification services.
func (s *Service) Routes() []route.Route {
	const path = "/v2/organizations/{org}/services"
	const one = path + "/{service}"
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: path, Summary: "List notification services",
			Description: "Oldest first.",
			Query:       route.CursorParams,
			Handler:     route.Do(s.getReceivers),
		},
		{
			Method: http.MethodPost, Path: path, Summary: "Create a notification service",
			Description: "Fields that are unknown, read-only or not available to the organization are refused. chat_workspace and tracker services are connected through the web interface instead.",
			Status:      http.StatusCreated,
			Handler:     route.DoBody(s.postReceiver),
		},
		{
			Method: http.MethodGet, Path: one, Summary: "Get a notification service",
			Description: "Secrets among the settings are masked or left out; the token of a webhook is shown.",
			Handler:     route.On(s.load, s.getReceiver),
		},
		{
			Method: http.MethodPatch, Path: one, Summary: "Update a notification service",
			Description: "Changes only the fields in the body, also inside of settings and build_states. What a get returned can be sent back unchanged, masked values included.",
			Handler:     route.OnBody(s.load, s.patchReceiver),
		},
		{
			Method: http.MethodDelete, Path: one, Summary: "Delete a notification service",
			Status: http.StatusNoContent, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.load, s.deleteReceiver),
		},
		{
			Method: http.MethodPut, Path: one + "/enable", Summary: "Enable a notification service",
			Description: "Clears the broken state of a service whose deliveries kept failing.",
			Handler:     route.On(s.load, s.putEnable),
		},
		{
			Method: http.MethodPut, Path: one + "/disable", Summary: "Disable a notification service",
			Handler: route.On(s.load, s.putDisable),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Permission, r.Scope = "Notification services", identity.ManageNotificationServices, identity.ReadNotificationServices
		if r.Method != http.MethodGet {
			r.Scope = identity.WriteNotificationServices
		}
	}
	return routes
}

type notificationServiceView struct {
	ID          string                   `json:"id"`
	GraphQLID   string                   `json:"graphql_id"`
	URL         string                   `json:"url"`
	Provider    notificationProviderView `json:"provider"`
	Description string                   `json:"description"`
	Enabled     bool                     `json:"enabled"`
	Scope       Scope                    `json:"scope" doc:"Which pipelines it is notified of."`
	ScopeUUIDs  []string                 `json:"scope_uuids" doc:"Pipelines of some_projects and exclude_projects, teams of some_teams, clusters of some_clusters. What was deleted is left out."`
	Branches    string                   `json:"branch_configuration" doc:"The branches that it is notified of; empty: all."`
	BuildStates notificationStatesView   `json:"build_states"`
	Settings    map[string]any           `json:"settings"`
	Broken      *brokenReceiverView      `json:"broken,omitempty" doc:"Present while notifications are stopped because deliveries kept failing."`
	CreatedAt   core.Time                `json:"created_at"`
	CreatedBy   *identity.UserView       `json:"created_by"`
}

type notificationProviderView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type notificationStatesView BuildStates

type brokenReceiverView struct {
	At     core.Time `json:"at"`
	Reason string    `json:"reason"`
}

func (s *Service) view(org *identity.Organization, r *Receiver, settings Settings) notificationServiceView {
	v := notificationServiceView{
		ID:          r.ID,
		GraphQLID:   core.GraphQLID("NotificationService", r.ID),
		URL:         s.public.Org(org.Slug, "services", r.ID),
		Provider:    notificationProviderView{r.Provider.ID, r.Provider.Name},
		Description: r.Description,
		Enabled:     r.Enabled(),
		Scope:       r.Scope,
		ScopeUUIDs:  r.ScopeIDs,
		Branches:    string(r.Branches),
		BuildStates: notificationStatesView(r.States),
		Settings:    r.Provider.view(settings, org.Features),
		CreatedAt:   core.At(r.CreatedAt),
		CreatedBy:   r.CreatedBy.View(s.public),
	}
	if !r.BrokenAt.IsZero() {
		v.Broken = &brokenReceiverView{At: core.At(r.BrokenAt), Reason: r.BrokenReason}
	}
	return v
}

// viewUnless returns the view of a receiver, or the error.
func (s *Service) viewUnless(r *route.Request, receiver *Receiver, settings Settings, err error) (notificationServiceView, error) {
	if err != nil {
		return notificationServiceView{}, err
	}
	return s.view(r.Org, receiver, settings), nil
}

// load returns the receiver of the path.
func (s *Service) load(r *route.Request) (*Receiver, error) {
	id, err := r.PathID("service", noReceiver)
	if err != nil {
		return nil, err
	}
	return s.Receiver(r.Context(), r.Org.ID, id)
}

func (s *Service) getReceivers(r *route.Request) (page route.Items[notificationServiceView], err error) {
	part, err := r.CursorPage("notification services of "+r.Org.ID, 2)
	if err != nil {
		return page, err
	}
	var receivers []*Receiver
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if receivers, err = list(q, r.Org.ID, part); err != nil {
			return err
		}
		return dropDeleted(q, r.Org.ID, receivers)
	})
	if err != nil {
		return page, err
	}
	opened := make(map[*Receiver]Settings, len(receivers))
	for _, receiver := range receivers {
		if opened[receiver], err = s.open(receiver); err != nil {
			return page, err
		}
	}
	return route.ItemsOf(r, part, receivers, cursorOf, func(receiver *Receiver) notificationServiceView {
		return s.view(r.Org, receiver, opened[receiver])
	}), nil
}

func (s *Service) getReceiver(r *route.Request, receiver *Receiver) (notificationServiceView, error) {
	settings, err := s.open(receiver)
	return s.viewUnless(r, receiver, settings, err)
}

func (s *Service) deleteReceiver(r *route.Request, receiver *Receiver) (route.Nothing, error) {
	return route.Nothing{}, s.Delete(r.Context(), receiver)
}

func (s *Service) putEnable(r *route.Request, receiver *Receiver) (notificationServiceView, error) {
	receiver, settings, err := s.Enable(r.Context(), r.Org.ID, receiver.ID)
	return s.viewUnless(r, receiver, settings, err)
}

func (s *Service) putDisable(r *route.Request, receiver *Receiver) (notificationServiceView, error) {
	receiver, settings, err := s.Disable(r.Context(), r.Org.ID, receiver.ID)
	return s.viewUnless(r, receiver, settings, err)
}
