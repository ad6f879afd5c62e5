package web

import (
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const servicesPath = "/settings/notification-services"

func (s *Site) serviceRoutes() []route.Route {
	const org, one = servicesPath + "/{organization}", servicesPath + "/{organization}/{service}"
	return []route.Route{
		s.get(servicesPath, signedIn(s.services)),
		s.get(org, signedIn(s.organizationServices)),
		s.post(org, signedIn(s.createService)),
		s.get(org+"/new", signedIn(s.newService)),
		s.get(one, signedIn(s.editService)),
		s.post(one, signedIn(s.changeService)),
		s.post(one+"/enable", signedIn(s.enableService)),
		s.post(one+"/disable", signedIn(s.disableService)),
		s.post(one+"/delete", signedIn(s.deleteService)),
		s.post(one+"/test", signedIn(s.testService)),
		s.get(one+"/deliveries/{delivery}", signedIn(s.showDelivery)),
		s.post(one+"/deliveries/{delivery}/redeliver", signedIn(s.redeliver)),
		s.get("/settings/connect/{organization}/{provider}", signedIn(s.connectService)),
		s.get("/"+strings.Join(notifications.CallbackPath, "/"), signedIn(s.serviceConnected)),
	}
}

// noService is the message for services that do not exist or that the visitor cannot manage.
const noService = "Notification service not found, or you cannot manage the notification services of its organization."

// managesServices reports whether the visitor manages the notification services of any organization.
func (v *visit) managesServices() bool {
	return slices.ContainsFunc(v.Caller.Organizations(), func(id string) bool {
		org, err := v.site.Directory.OrganizationByID(v.Context(), id)
		return err == nil && v.Caller.Membership(id).Can(identity.ManageNotificationServices, org)
	})
}

// serviceOrganizations returns the organizations whose notification services the visitor manages.
func (v *visit) serviceOrganizations() (list []membership, err error) {
	all, err := v.organizations()
	for _, m := range all {
		if !m.Suspended && v.Caller.Membership(m.ID).Can(identity.ManageNotificationServices, &m.Organization) {
			list = append(list, m)
		}
	}
	return list, err
}

// serviceOrganization returns the managed organization with a slug, or a NotFound error.
func (v *visit) serviceOrganization(slug string) (membership, error) {
	orgs, err := v.serviceOrganizations()
	for _, o := range orgs {
		if o.Slug == slug {
			return o, nil
		}
	}
	if err == nil {
		err = core.Errorf(core.NotFound, noService)
	}
	return membership{}, err
}

// service returns the notification service of the path and its organization.
func (v *visit) service() (org membership, r *notifications.Receiver, err error) {
	id, err := v.PathID("service", noService)
	if err != nil {
		return org, nil, err
	}
	if org, err = v.serviceOrganization(v.PathValue("organization")); err != nil {
		return org, nil, err
	}
	r, err = v.site.Notifications.Receiver(v.Context(), org.ID, id)
	return org, r, err
}

// serviceList is a page of the services of an organization.
type serviceList struct {
	membership
	Services    []*notifications.Receiver
	Total       int
	Creatable   []*notifications.Provider
	Connectable []*notifications.Provider
	Pages       []pageLink
}

// Path is the path of the organization's own page.
func (l serviceList) Path() string { return servicesPath + "/" + l.Slug }

// More reports whether the overview leaves services out.
func (l serviceList) More() bool { return l.Pages == nil && l.Total > len(l.Services) }

func (s *Site) servicesOf(v *visit, org membership, page route.Page) (l serviceList, err error) {
	l = serviceList{membership: org, Creatable: notifications.Creatable(org.Features), Connectable: s.Notifications.Connectable()}
	l.Services, l.Total, err = s.Notifications.Page(v.Context(), org.ID, page)
	return l, err
}

// firstServices limits the services of each organization on the overview.
const firstServices = 30

func (s *Site) services(v *visit) error {
	orgs, err := v.serviceOrganizations()
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
	return v.show(http.StatusOK, "services", view{Title: "Notification services", Section: "services", Page: lists})
}

func (s *Site) organizationServices(v *visit) error {
	org, err := v.serviceOrganization(v.PathValue("organization"))
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
	l.Pages = append([]pageLink{}, v.pageLinks(page, page.Number*page.Size < l.Total, "Previous", "Next")...)
	return v.show(http.StatusOK, "services", view{Title: "Notification services", Section: "services", Page: []serviceList{l}})
}

func (s *Site) newService(v *visit) error {
	org, err := v.serviceOrganization(v.PathValue("organization"))
	if err != nil {
		return err
	}
	f, err := newServiceForm(org, v.FormQuery("provider"))
	if err != nil {
		return err
	}
	return s.showServiceForm(v, http.StatusOK, f)
}

func (s *Site) createService(v *visit) error {
	org, err := v.serviceOrganization(v.PathValue("organization"))
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
	made, _, err := s.Notifications.Create(v.Context(), &org.Organization, v.user(), f.Provider.ID, draftOf(form, f.Provider.FromForm(org.Features, nil, form)))
	if wrong, ok := problemsOf(err); ok {
		f.entered(form, wrong)
		return s.showServiceForm(v, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	return v.done(servicePath(org, made), "Notification service created.")
}

func servicePath(org membership, r *notifications.Receiver) string {
	return servicesPath + "/" + org.Slug + "/" + r.ID
}

func (s *Site) editService(v *visit) error {
	org, r, err := v.service()
	if err != nil {
		return err
	}
	f, err := s.serviceFormOf(v, org, r)
	if err != nil {
		return err
	}
	return s.showServiceForm(v, http.StatusOK, f)
}

func (s *Site) changeService(v *visit) error {
	org, r, err := v.service()
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	_, _, err = s.Notifications.Update(v.Context(), &org.Organization, r.ID, draftOf(form, r.Provider.FromForm(org.Features, r, form)))
	if wrong, ok := problemsOf(err); ok {
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
	return v.done(servicePath(org, r), "Notification service saved.")
}

func (s *Site) enableService(v *visit) error {
	org, r, err := v.service()
	if err == nil {
		_, _, err = s.Notifications.Enable(v.Context(), org.ID, r.ID)
	}
	if err != nil {
		return err
	}
	return v.done(servicePath(org, r), "Notification service enabled.")
}

func (s *Site) disableService(v *visit) error {
	org, r, err := v.service()
	if err == nil {
		_, _, err = s.Notifications.Disable(v.Context(), org.ID, r.ID)
	}
	if err != nil {
		return err
	}
	return v.done(servicePath(org, r), "Notification service disabled.")
}

func (s *Site) deleteService(v *visit) error {
	org, r, err := v.service()
	if err == nil {
		err = s.Notifications.Delete(v.Context(), r)
	}
	if wrong, ok := problemsOf(err); ok {
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
	return v.done(servicesPath, "Notification service deleted.")
}
