package organizations

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) invitationRoutes() []route.Route {
	const tag = "Members"
	const collection = organizationPath + "/invitations"
	return []route.Route{
		{
			Method: http.MethodGet, Path: collection, Tag: tag,
			Summary:    "List open invitations",
			Scope:      identity.ReadOrganizations,
			Permission: identity.ManageMembers,
			Query:      route.PageParams,
			Handler:    route.Do(s.listInvitations),
		},
		{
			Method: http.MethodPost, Path: collection, Tag: tag,
			Summary:     "Invite a person",
			Description: "Returns a link for the person with the email; give it to them. It works once, for seven days, and replaces an earlier one for the same email.",
			Scope:       identity.WriteOrganizations,
			Permission:  identity.ManageMembers,
			Status:      http.StatusCreated,
			Handler:     route.DoBody(s.createInvitation),
		},
		{
			Method: http.MethodDelete, Path: collection + "/{invitation}", Tag: tag,
			Summary:    "Withdraw an invitation",
			Scope:      identity.WriteOrganizations,
			Permission: identity.ManageMembers,
			Status:     http.StatusNoContent,
			Handler:    route.Do(s.withdrawInvitation),
		},
	}
}

type invitationView struct {
	ID        string             `json:"id"`
	Email     string             `json:"email"`
	Role      identity.Role      `json:"role"`
	CreatedBy *identity.UserView `json:"created_by"`
	CreatedAt core.Time          `json:"created_at"`
	ExpiresAt core.Time          `json:"expires_at"`
}

type createdInvitationView struct {
	invitationView
	AcceptURL string `json:"accept_url" doc:"The link for the invited person. It is shown once."`
}

func (s *Service) invitationView(i Invitation) invitationView {
	return invitationView{
		ID: i.ID, Email: i.Email, Role: i.Role, CreatedBy: i.CreatedBy.View(s.public), CreatedAt: core.At(i.CreatedAt), ExpiresAt: core.At(i.ExpiresAt),
	}
}

func (s *Service) listInvitations(r *route.Request) (page route.Paged[invitationView], err error) {
	p, err := r.Page()
	if err != nil {
		return page, err
	}
	list, total, err := s.Invitations(r.Context(), r.Org.ID, p.Size, p.Offset())
	return route.MapPage(list, p, total, s.invitationView), err
}

type invitationCreate struct {
	Email string                   `json:"email"`
	Role  route.Opt[identity.Role] `json:"role" doc:"admin or member; member unless given."`
}

func (s *Service) createInvitation(r *route.Request, body invitationCreate) (createdInvitationView, error) {
	role := identity.Member
	if body.Role.Set {
		role = body.Role.Value
	}
	i, token, err := s.Invite(r.Context(), r.Org.ID, body.Email, role, r.Caller.User)
	return createdInvitationView{s.invitationView(i), s.public.To("signup", "invitation", token)}, err
}

func (s *Service) withdrawInvitation(r *route.Request) (route.Nothing, error) {
	id, err := r.PathID("invitation", noInvitation)
	if err == nil {
		err = s.Withdraw(r.Context(), r.Org.ID, id)
	}
	return route.Nothing{}, err
}
