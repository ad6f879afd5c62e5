package orgpages

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const servicesPath = "/settings/notification-services"

func (s *Site) serviceRoutes() []route.Route {
	const org, one = servicesPath + "/{organization}", servicesPath + "/{organization}/{service}"
	return []route.Route{
		s.Get(servicesPath, pages.SignedIn(s.services)),
		s.Get(org, pages.SignedIn(s.organizationServices)),
		s.Post(org, pages.SignedIn(s.createService)),
		s.Get(org+"/new", pages.SignedIn(s.newService)),
		s.Get(one, pages.SignedIn(s.editService)),
		s.Post(one, pages.SignedIn(s.changeService)),
		s.Post(one+"/enable", pages.SignedIn(s.enableService)),
		s.Post(one+"/disable", pages.SignedIn(s.disableService)),
		s.Post(one+"/delete", pages.SignedIn(s.deleteService)),
		s.Post(one+"/test", pages.SignedIn(s.testService)),
		s.Get(one+"/deliveries/{delivery}", pages.SignedIn(s.showDelivery)),
		s.Post(one+"/deliveries/{delivery}/redeliver", pages.SignedIn(s.redeliver)),
		s.Get("/settings/connect/{organization}/{provider}", pages.SignedIn(s.connectService)),
		s.Get("/"+strings.Join(notifications.CallbackPath, "/"), pages.SignedIn(s.serviceConnected)),
	}
}

// noService is the message for services that do not exist or that the visitor cannot manage.
const noService = "Notification service not found, or you cannot manage the notification services of its organization."

// managesServices reports whether the visitor manages the notification services of any organization.
func (s *Site) managesServices(v *pages.Visit) bool {
	return slices.ContainsFunc(v.Caller.Organizations(), func(id string) bool {
		org, err := s.Directory.OrganizationByID(v.Context(), id)
		return err == nil && v.Caller.Membership(id).Can(identity.ManageNotificationServices, org)
	})
}

// serviceOrganizations returns the organizations whose notification services the visitor manages.
func serviceOrganizations(v *pages.Visit) (list []pages.Membership, err error) {
	all, err := v.Organizations()
	for _, m := range all {
		if !m.Suspended && v.Caller.Membership(m.ID).Can(identity.ManageNotificationServices, &m.Organization) {
			list = append(list, m)
		}
	}
	return list, err
}

// serviceOrganization returns the managed organization with a slug, or a NotFound error.
func serviceOrganization(v *pages.Visit, slug string) (pages.Membership, error) {
	orgs, err := serviceOrganizations(v)
	for _, o := range orgs {
		if o.Slug == slug {
			return o, nil
		}
	}
	if err == nil {
		err = core.Errorf(core.NotFound, noService)
	}
	return pages.Membership{}, err
}

// service returns the notification service of the path and its organization.
func (s *Site) service(v *pages.Visit) (org pages.Membership, r *notifications.Receiver, err error) {
	id, err := v.PathID("service", noService)
	if err != nil {
		return org, nil, err
	}
	if org, err = serviceOrganization(v, v.PathValue("organization")); err != nil {
		return org, nil, err
	}
	r, err = s.Notifications.Receiver(v.Context(), org.ID, id)
	return org, r, err
}

// serviceList is a page of the services of an organization.
type serviceList struct {
	pages.Membership
	Services    []*notifications.Receiver
	Total       int
	Creatable   []*notifications.Provider
	Connectable []*notifications.Provider
	Pages       []pages.PageLink
}

// Path is the path of the organization's own page.
func (l serviceList) Path() string { return servicesPath + "/" + l.Slug }

// More reports whether the overview leaves services out.
func (l serviceList) More() bool { return l.Pages == nil && l.Total > len(l.Services) }

func (s *Site) servicesOf(v *pages.Visit, org pages.Membership, page route.Page) (l serviceList, err error) {
	l = serviceList{Membership: org, Creatable: notifications.Creatable(org.Features), Connectable: s.Notifications.Connectable()}
	l.Services, l.Total, err = s.Notifications.Page(v.Context(), org.ID, page)
	return l, err
}

// firstServices limits the services of each organization on the overview.
const firstServices = 30

func (s *Site) services(v *pages.Visit) error {
	orgs, err := serviceOrganizations(v)
	if err != nil {
		return err
	}
	var lists []serviceList
	for _, org := range orgs {
		l, err := s.servicesOf(v, org, route.Page{Number: 1, Size: firstServices})
		if err != nil {
			return err
		}
		lists = append(lists, l)
	}
	return v.Show(http.StatusOK, "services", pages.View{Title: "Notification services", Section: "services", Page: lists})
}

func (s *Site) organizationServices(v *pages.Visit) error {
	org, err := serviceOrganization(v, v.PathValue("organization"))
	if err != nil {
		return err
	}
	page, err := v.Page()
	if err != nil {
		return err
	}
	l, err := s.servicesOf(v, org, page)
	if err != nil {
		return err
	}
	l.Pages = append([]pages.PageLink{}, v.PageLinks(page, page.Number*page.Size < l.Total, "Previous", "Next")...)
	return v.Show(http.StatusOK, "services", pages.View{Title: "Notification services", Section: "services", Page: []serviceList{l}})
}

func (s *Site) newService(v *pages.Visit) error {
	org, err := serviceOrganization(v, v.PathValue("organization"))
	if err != nil {
		return err
	}
	f, err := newServiceForm(org, v.FormQuery("provider"))
	if err != nil {
		return err
	}
	return s.showServiceForm(v, http.StatusOK, f)
}

func (s *Site) createService(v *pages.Visit) error {
	org, err := serviceOrganization(v, v.PathValue("organization"))
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	f, err := newServiceForm(org, form.Get("provider"))
	if err != nil {
		return err
	}
	ids, err := scopeIDs(v, org, notifications.Scope(form.Get("scope")), form.Get("scope_uuids"))
	if err != nil {
		return err
	}
	made, _, err := s.Notifications.Create(v.Context(), &org.Organization, v.User(), f.Provider.ID, draftOf(form, ids, f.Provider.FromForm(org.Features, nil, form)))
	if wrong, ok := pages.ProblemsOf(err); ok {
		f.entered(form, wrong)
		return s.showServiceForm(v, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return v.Done(servicePath(org, made), "Notification service created.")
}

func servicePath(org pages.Membership, r *notifications.Receiver) string {
	return servicesPath + "/" + org.Slug + "/" + r.ID
}

func (s *Site) editService(v *pages.Visit) error {
	org, r, err := s.service(v)
	if err != nil {
		return err
	}
	f, err := s.serviceFormOf(v, org, r)
	if err != nil {
		return err
	}
	return s.showServiceForm(v, http.StatusOK, f)
}

func (s *Site) changeService(v *pages.Visit) error {
	org, r, err := s.service(v)
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	ids, err := scopeIDs(v, org, notifications.Scope(form.Get("scope")), form.Get("scope_uuids"))
	if err != nil {
		return err
	}
	_, _, err = s.Notifications.Update(v.Context(), &org.Organization, r.ID, draftOf(form, ids, r.Provider.FromForm(org.Features, r, form)))
	if wrong, ok := pages.ProblemsOf(err); ok {
		f, err := s.serviceFormOf(v, org, r)
		if err != nil {
			return err
		}
		f.entered(form, wrong)
		return s.showServiceForm(v, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return v.Done(servicePath(org, r), "Notification service saved.")
}

func (s *Site) enableService(v *pages.Visit) error {
	return s.switchService(v, s.Notifications.Enable, "Notification service enabled.")
}

func (s *Site) disableService(v *pages.Visit) error {
	return s.switchService(v, s.Notifications.Disable, "Notification service disabled.")
}

func (s *Site) switchService(v *pages.Visit, change func(ctx context.Context, orgID, id string) (*notifications.Receiver, notifications.Settings, error), done string) error {
	org, r, err := s.service(v)
	if err != nil {
		return err
	}
	if _, _, err := change(v.Context(), org.ID, r.ID); err != nil {
		return err
	}
	return v.Done(servicePath(org, r), done)
}

func (s *Site) deleteService(v *pages.Visit) error {
	org, r, err := s.service(v)
	if err == nil {
		err = s.Notifications.Delete(v.Context(), r)
	}
	if wrong, ok := pages.ProblemsOf(err); ok {
		f, err := s.serviceFormOf(v, org, r)
		if err != nil {
			return err
		}
		f.Problems = wrong
		return s.showServiceForm(v, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return v.Done(servicesPath, "Notification service deleted.")
}
