package organizations

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) memberRoutes() []route.Route {
	const tag = "Members"
	const collection = organizationPath + "/members"
	const single = collection + "/{user}"
	return []route.Route{
		{
			Method: http.MethodGet, Path: collection, Tag: tag,
			Summary: "List the members of an organization",
			Scope:   identity.ReadOrganizations,
			Query:   route.PageParams,
			Handler: route.Do(s.listMembers),
		},
		{
			Method: http.MethodGet, Path: single, Tag: tag,
			Summary: "Get a member",
			Scope:   identity.ReadOrganizations,
			Handler: route.On(s.loadMember, s.getMember),
		},
		{
			Method: http.MethodPatch, Path: single, Tag: tag,
			Summary:     "Change a member's role or how they must sign in",
			Description: "You cannot change your own membership. An organization keeps at least one administrator.",
			Scope:       identity.WriteOrganizations,
			Permission:  identity.ManageMembers,
			Handler:     route.OnBody(s.loadOtherMember, s.updateMember),
		},
		{
			Method: http.MethodDelete, Path: single, Tag: tag,
			Summary:     "Remove a member",
			Description: "Their access ends at once: they leave the teams of the organization, and none of their access tokens reaches it any more. An organization keeps at least one administrator.",
			Scope:       identity.WriteOrganizations,
			Permission:  identity.ManageMembers,
			Status:      http.StatusNoContent,
			Errors:      []int{http.StatusUnprocessableEntity},
			Handler:     route.On(s.loadMember, s.deleteMember),
		},
	}
}

type memberView struct {
	ID      string           `json:"id" doc:"The id of the user."`
	Name    string           `json:"name"`
	Email   string           `json:"email"`
	Role    identity.Role    `json:"role"`
	SSOMode identity.SSOMode `json:"sso_mode,omitempty" doc:"Whether they must sign in through the organization's provider; shown to administrators and to the member."`
}

// memberViewer returns the function that renders members for the caller.
func memberViewer(r *route.Request) func(Member) memberView {
	return func(m Member) memberView {
		v := memberView{ID: m.User.ID, Name: m.User.Name, Email: m.User.Email, Role: m.Role}
		if m.User.ID == r.Caller.User.ID || r.Member.Can(identity.ManageMembers, r.Org) {
			v.SSOMode = m.SSOMode
		}
		return v
	}
}

func (s *Service) loadMember(r *route.Request) (Member, error) {
	id, err := r.PathID("user", noMember)
	if err != nil {
		return Member{}, err
	}
	return s.Member(r.Context(), r.Org.ID, id)
}

// loadOtherMember loads a member whom the caller can change. Callers cannot change their own role, so that
// administrators do not lock themselves out by mistake.
func (s *Service) loadOtherMember(r *route.Request) (Member, error) {
	m, err := s.loadMember(r)
	if err == nil && m.User.ID == r.Caller.User.ID {
		return m, core.Errorf(core.Forbidden, "Forbidden: you cannot change your own membership; ask another administrator")
	}
	return m, err
}

func (s *Service) listMembers(r *route.Request) (page route.Paged[memberView], err error) {
	p, err := r.Page()
	if err != nil {
		return page, err
	}
	members, total, err := s.Members(r.Context(), r.Org.ID, p.Size, p.Offset())
	return route.MapPage(members, p, total, memberViewer(r)), err
}

func (s *Service) getMember(r *route.Request, m Member) (memberView, error) {
	return memberViewer(r)(m), nil
}

type memberUpdate struct {
	Role    route.Opt[identity.Role]    `json:"role"`
	SSOMode route.Opt[identity.SSOMode] `json:"sso_mode"`
}

func (s *Service) updateMember(r *route.Request, m Member, body memberUpdate) (memberView, error) {
	if !body.Role.Set && !body.SSOMode.Set {
		return memberView{}, core.Errorf(core.Unprocessable, "Give a role or an sso_mode to change")
	}
	var problems core.Problems
	role, mode := pointer(body.Role), pointer(body.SSOMode)
	if role != nil {
		requireOneOf(&problems, "role", *role)
	}
	if mode != nil {
		requireOneOf(&problems, "sso_mode", *mode)
	}
	if err := problems.Err(); err != nil {
		return memberView{}, err
	}
	m, err := s.ChangeMember(r.Context(), r.Org.ID, m.User.ID, role, mode)
	return memberViewer(r)(m), err
}

// pointer returns nil if the field was not sent, and the zero value for null.
func pointer[T any](field route.Opt[T]) *T {
	if !field.Set {
		return nil
	}
	return &field.Value
}

func (s *Service) deleteMember(r *route.Request, m Member) (route.Nothing, error) {
	return route.Nothing{}, s.RemoveMember(r.Context(), r.Org.ID, m.User.ID)
}
