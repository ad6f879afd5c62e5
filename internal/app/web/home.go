package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/app/web/pipelinepages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/route"
)

// start serves the start page, or JSON to programs.
func (s *Site) start(v *pages.Visit) error {
	v.W.Header().Set("Vary", "Accept")
	switch {
	case !strings.Contains(v.Header.Get("Accept"), "text/html"):
		v.W.Header().Set("Content-Type", "application/json; charset=utf-8")
		return json.NewEncoder(v.W).Encode(map[string]any{"message": "Stackyard", "timestamp": s.Clock().Unix()})
	case v.Session == nil:
		v.Live = ""
		return s.account.SignIn(v, "/")
	}
	memberships, err := v.Organizations()
	if err != nil {
		return err
	}
	orgs := make([]homeOrganization, len(memberships))
	for i, m := range memberships {
		orgs[i].Membership = m
		if m.Suspended || i >= homeOrganizations {
			continue
		}
		if orgs[i].Pipelines, err = s.pipelinesAtHome(v, m); err != nil {
			return err
		}
	}
	v.Org, v.Member = nil, nil
	return v.Show(http.StatusOK, "start", pages.View{Title: "Home", Section: "home", Page: struct {
		Name          string
		Organizations []homeOrganization
		Settings      []pages.NavLink
	}{firstName(v.User().Name), orgs, v.SettingsLinks()}})
}

// watchHome says when the pipelines on the start page change.
func (s *Site) watchHome(v *pages.Visit) (w live.Watch, err error) {
	if v.Session == nil {
		return w, pages.ErrNothing
	}
	memberships, err := v.Organizations()
	for i, m := range memberships {
		if m.Suspended || i >= homeOrganizations {
			continue
		}
		w.Topics = append(w.Topics, builds.OrganizationTopic(m.ID), pipelines.Topic(m.ID))
		w.Sees += m.Slug + " " + live.PermissionsOf(v.Caller.Membership(m.ID)) + "\n"
	}
	w.Own = true
	return w, err
}

// The start page shows some pipelines of the first organizations.
const homeOrganizations, homePipelines = 10, 8

// A homeOrganization is an organization with some of its pipelines.
type homeOrganization struct {
	pages.Membership
	Pipelines *pipelinepages.List // nil: not shown
}

func (s *Site) pipelinesAtHome(v *pages.Visit, m pages.Membership) (*pipelinepages.List, error) {
	v.Org, v.Member = &m.Organization, v.Caller.Membership(m.ID)
	return s.pipelines.List(v, "", route.Page{Number: 1, Size: homePipelines})
}

// firstName returns the name for a greeting.
func firstName(name string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(name), " ")
	return first
}
