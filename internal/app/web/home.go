package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// start serves the start page, or JSON to programs.
func (s *Site) start(v *visit) error {
	v.w.Header().Set("Vary", "Accept")
	switch {
	case !strings.Contains(v.Header.Get("Accept"), "text/html"):
		v.w.Header().Set("Content-Type", "application/json; charset=utf-8")
		return json.NewEncoder(v.w).Encode(map[string]any{"message": "Stackyard", "timestamp": s.Clock().Unix()})
	case v.session == nil:
		return s.showSignIn(v, http.StatusOK, signInForm{ReturnTo: "/"})
	}
	memberships, err := v.organizations()
	if err != nil {
		return err
	}
	orgs := make([]homeOrganization, len(memberships))
	for i, m := range memberships {
		orgs[i].membership = m
		if m.Suspended || i >= homeOrganizations {
			continue
		}
		if orgs[i].Pipelines, err = s.pipelinesAtHome(v, m); err != nil {
			return err
		}
	}
	return v.show(http.StatusOK, "start", view{Title: "Home", Section: "home", Page: struct {
		Name          string
		Organizations []homeOrganization
		Settings      []navLink
	}{firstName(v.user().Name), orgs, v.settings()}})
}

// The start page shows some pipelines of the first organizations.
const homeOrganizations, homePipelines = 10, 8

// A homeOrganization is an organization with some of its pipelines.
type homeOrganization struct {
	membership
	Pipelines *pipelineList // nil: not shown
}

func (s *Site) pipelinesAtHome(v *visit, m membership) (*pipelineList, error) {
	v.Org, v.Member = &m.Organization, v.Caller.Membership(m.ID)
	return s.pipelinesOf(v, "", route.Page{Number: 1, Size: homePipelines})
}

// firstName returns the name for a greeting.
func firstName(name string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(name), " ")
	return first
}

// A membership is an organization and the visitor's role in it.
type membership struct {
	identity.Organization
	Role identity.Role
}

// organizations returns the visitor's organizations, by slug.
func (v *visit) organizations() (list []membership, err error) {
	ids := v.Caller.Organizations()
	err = v.site.DB.Read(v.Context(), func(q *db.Q) error {
		orgs, _, err := identity.OrganizationsByID(q, ids, len(ids), 0)
		list = nil
		for _, o := range orgs {
			list = append(list, membership{o, v.Caller.Membership(o.ID).Role})
		}
		return err
	})
	return list, err
}

// administers reports whether the visitor is an administrator of any organization.
func (v *visit) administers() bool {
	for _, id := range v.Caller.Organizations() {
		if v.Caller.Membership(id).Role == identity.Admin {
			return true
		}
	}
	return false
}
