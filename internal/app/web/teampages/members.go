package teampages

import (
	"net/http"
	"net/url"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) memberRoutes() []route.Route {
	return []route.Route{
		s.get("/settings/members", s.members),
		s.post("/settings/members/invite", pages.WithForm(s.invite)),
		s.post("/settings/members/{user}/role", pages.WithForm(s.changeRole)),
		s.post("/settings/members/{user}/remove", s.removeMember),
		s.post("/settings/invitations/{invitation}/withdraw", s.withdraw),
	}
}

// A member is a member in a response.
type member struct {
	person
	Email string        `json:"email"`
	Role  identity.Role `json:"role"`
}

// An invitation is an invitation in a response.
type invitation struct {
	ID        string        `json:"id"`
	Email     string        `json:"email"`
	Role      identity.Role `json:"role"`
	CreatedBy *person       `json:"created_by"`
	CreatedAt time.Time     `json:"created_at"`
	ExpiresAt time.Time     `json:"expires_at"`
	AcceptURL string        `json:"accept_url"` // only in the response that creates it
}

func (s *Site) inviteForm(v *pages.Visit) pages.Form {
	return pages.Form{ID: "invite", Action: v.Place("settings", "members", "invite"), Submit: "Create invitation link", Fields: []pages.Field{
		{Name: "email", Label: "Email", Required: true, Placeholder: "grace@example.com"},
		{Name: "role", Label: "Role", Kind: pages.SelectField, Value: string(identity.Member), Options: []pages.Option{
			{Value: string(identity.Member), Text: "Member: builds pipelines"}, {Value: string(identity.Admin), Text: "Administrator: can do everything"},
		}},
	}}
}

func (s *Site) members(v *pages.Visit) error {
	return s.showMembers(v, http.StatusOK, s.inviteForm(v))
}

func (s *Site) showMembers(v *pages.Visit, status int, form pages.Form) error {
	list, links, err := pages.ListOf[member](v, v.API("members"))
	if err != nil {
		return err
	}
	shown := struct {
		Members     []member
		Pages       []pages.PageLink
		Invitations []invitation
		Invite      pages.Form
		Manages     bool
		Me          string
		At          string
		Base        string
	}{
		Members: list, Pages: links, Invite: form,
		Manages: v.Member.Can(identity.ManageMembers, v.Org), Me: v.User().ID, At: v.Place("settings", "members"), Base: v.Place("settings"),
	}
	if shown.Manages {
		if shown.Invitations, err = pages.All[invitation](v, v.API("invitations")); err != nil {
			return err
		}
	}
	return s.show(v, status, "members", "members", "Members", shown)
}

func (s *Site) invite(v *pages.Visit, values url.Values) error {
	var made invitation
	refused := func(f pages.Form) error { return s.showMembers(v, http.StatusUnprocessableEntity, f) }
	return v.Send(s.inviteForm(v), values, "POST", v.API("invitations"), &made, refused, func() error {
		return s.show(v, http.StatusCreated, "secret", "members", "Invitation link", pages.Secret{
			Of: "For " + made.Email + ", for seven days, once", Value: made.AcceptURL, Back: v.Place("settings", "members"), BackTo: "Members",
		})
	})
}

func (s *Site) changeRole(v *pages.Visit, form url.Values) error {
	return v.Act("PATCH", v.API("members", v.PathValue("user")), map[string]any{"role": form.Get("role")}, v.Place("settings", "members"), "Role changed.")
}

func (s *Site) removeMember(v *pages.Visit) error {
	back := v.Place("settings", "members")
	if v.PathValue("user") == v.User().ID {
		back = "/"
	}
	_, err := v.Call("DELETE", v.API("members", v.PathValue("user")), nil, nil)
	if core.KindOf(err) == core.Unprocessable {
		return v.Refused(v.Place("settings", "members"), err.Error())
	}
	if err != nil {
		return err
	}
	return v.Done(back, "Member removed.")
}

func (s *Site) withdraw(v *pages.Visit) error {
	return v.Act("DELETE", v.API("invitations", v.PathValue("invitation")), nil, v.Place("settings", "members"), "Invitation withdrawn.")
}
