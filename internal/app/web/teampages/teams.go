package teampages

import (
	"net/http"
	"net/url"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) teamRoutes() []route.Route {
	const one = "/settings/teams/{team}"
	return []route.Route{
		s.get("/settings/teams", s.teams),
		s.post("/settings/teams", s.createTeam),
		s.post("/settings/teams/enable", s.enableTeams),
		s.get(one, s.team),
		s.post(one, s.changeTeam),
		s.post(one+"/delete", s.deleteTeam),
		s.post(one+"/members", pages.WithForm(s.addTeamMember)),
		s.post(one+"/members/{user}/remove", s.removeTeamMember),
		s.post(one+"/pipelines", pages.WithForm(s.addTeamPipeline)),
		s.post(one+"/pipelines/{id}/remove", s.removeTeamPipeline),
	}
}

// A team is a team in a response.
type team struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Slug        string `json:"slug"`
	Description string `json:"description"`
	Privacy     string `json:"privacy"`
	Default     bool   `json:"is_default_team"`
	DefaultRole string `json:"default_member_role"`
	Create      bool   `json:"members_can_create_pipelines"`
}

func (s *Site) teamForm(action, submit string, t team) pages.Form {
	return pages.Form{ID: "team", Action: action, Submit: submit, Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true, Value: t.Name},
		{Name: "description", Label: "Description", Null: true, Value: t.Description},
		{Name: "privacy", Label: "Seen by", Kind: pages.SelectField, Value: t.Privacy, Options: []pages.Option{{Value: "visible", Text: "everyone in the organization"}, {Value: "secret", Text: "its members and administrators"}}},
		{Name: "is_default_team", Label: "New members join it", Kind: pages.CheckField, Checked: t.Default},
		{Name: "default_member_role", Label: "New members are", Kind: pages.SelectField, Value: t.DefaultRole, Options: []pages.Option{{Value: "member", Text: "members"}, {Value: "maintainer", Text: "maintainers"}}},
		{Name: "members_can_create_pipelines", Label: "Members can create pipelines", Kind: pages.CheckField, Checked: t.Create},
	}}
}

var newTeam = team{Privacy: "visible", DefaultRole: "member"}

func (s *Site) teams(v *pages.Visit) error {
	return s.showTeams(v, http.StatusOK, s.teamForm(v.Place("settings", "teams"), "Create team", newTeam))
}

func (s *Site) showTeams(v *pages.Visit, status int, form pages.Form) error {
	list, links, err := pages.ListOf[team](v, v.API("teams"))
	if err != nil {
		return err
	}
	shown := struct {
		Enabled, Manages bool
		Teams            []team
		Pages            []pages.PageLink
		New              pages.Form
		Enable           pages.Form
		At               string
	}{
		Enabled: v.Org.Features.Teams, Manages: v.Member.Can(identity.ManageTeams, v.Org), New: form, At: v.Place("settings", "teams"),
		Enable: pages.Form{Action: v.Place("settings", "teams", "enable"), Submit: "Enable teams"}, Teams: list, Pages: links,
	}
	return s.show(v, status, "teams", "teams", "Teams", shown)
}

func (s *Site) createTeam(v *pages.Visit) error {
	form := s.teamForm(v.Place("settings", "teams"), "Create team", newTeam)
	return v.Submit(form, "POST", v.API("teams"), v.Place("settings", "teams"), "Team created.", func(f pages.Form) error {
		return s.showTeams(v, http.StatusUnprocessableEntity, f)
	})
}

func (s *Site) enableTeams(v *pages.Visit) error {
	return v.Act("POST", v.API("teams", "enable"), nil, v.Place("settings", "teams"), "Teams enabled.")
}

// teamPage is the data of a team's page.
type teamPage struct {
	Team      team
	At        string
	Manages   bool // the team itself
	Leads     bool // its members and pipelines
	Members   []teamMember
	Pipelines []teamPipeline
	Edit      pages.Form
	AddMember pages.Form
	AddTo     pages.Form
	Delete    pages.Confirm
}

type teamMember struct {
	ID   string `json:"user_id"`
	Name string `json:"user_name"`
	Role string `json:"role"`
}

type teamPipeline struct {
	ID    string `json:"pipeline_id"`
	URL   string `json:"pipeline_url"`
	Level string `json:"access_level"`
}

// Slug returns the slug of the pipeline.
func (p teamPipeline) Slug() string { return p.URL[strings.LastIndexByte(p.URL, '/')+1:] }

// levels are the levels of access to pipelines.
var levels = []pages.Option{
	{Value: string(identity.ReadOnly), Text: "see it"}, {Value: string(identity.BuildAndRead), Text: "see and build it"}, {Value: string(identity.ManageBuildAndRead), Text: "see, build and change it"},
}

// Access describes the level.
func (p teamPipeline) Access() string {
	for _, l := range levels {
		if l.Value == p.Level {
			return l.Text
		}
	}
	return p.Level
}

func (s *Site) team(v *pages.Visit) error {
	return s.showTeam(v, http.StatusOK, func(*teamPage) {})
}

func (s *Site) showTeam(v *pages.Visit, status int, change func(*teamPage)) error {
	api := v.API("teams", v.PathValue("team"))
	p := teamPage{Manages: v.Member.Can(identity.ManageTeams, v.Org)}
	if _, err := v.Call("GET", api, nil, &p.Team); err != nil {
		return err
	}
	var err error
	if p.Members, err = pages.All[teamMember](v, api+"/members"); err != nil {
		return err
	}
	if p.Pipelines, err = pages.All[teamPipeline](v, api+"/pipelines"); err != nil {
		return err
	}
	p.At = v.Place("settings", "teams", p.Team.Slug)
	p.Leads = p.Manages
	for _, t := range v.Member.Teams {
		p.Leads = p.Leads || t.TeamID == p.Team.ID && t.Role == identity.TeamMaintainer
	}
	p.Edit = s.teamForm(p.At, "Save team", p.Team)
	if err := s.teamForms(v, &p); err != nil {
		return err
	}
	p.Delete = pages.Confirm{Summary: "Delete team", Warning: "Its members lose the access that it gives them. This cannot be undone.", Form: pages.Form{ID: "delete", Action: p.At + "/delete", Submit: "Delete " + p.Team.Name, Danger: true}}
	change(&p)
	return s.show(v, status, "team", "teams", p.Team.Name, p)
}

// teamForms adds the forms that add members and pipelines, if the visitor can use them.
func (s *Site) teamForms(v *pages.Visit, p *teamPage) error {
	if !p.Leads {
		return nil
	}
	people, err := pages.PickMember.Field(v, "user_id", "Member", "Name or email")
	if err != nil {
		return err
	}
	pipelines, err := pages.PickPipeline.Field(v, "pipeline_id", "Pipeline", "Name")
	if err != nil {
		return err
	}
	p.AddMember = pages.Form{ID: "member", Action: p.At + "/members", Submit: "Add member", Fields: []pages.Field{
		people,
		{Name: "role", Label: "Role", Kind: pages.SelectField, Options: []pages.Option{{Value: "member", Text: "member"}, {Value: "maintainer", Text: "maintainer"}}},
	}}
	p.AddTo = pages.Form{ID: "pipeline", Action: p.At + "/pipelines", Submit: "Add pipeline", Fields: []pages.Field{
		pipelines,
		{Name: "access_level", Label: "Members can", Kind: pages.SelectField, Options: levels},
	}}
	return nil
}

func (s *Site) changeTeam(v *pages.Visit) error {
	at := v.Place("settings", "teams", v.PathValue("team"))
	return v.Submit(s.teamForm(at, "Save team", team{}), "PATCH", v.API("teams", v.PathValue("team")), v.Place("settings", "teams"), "Team saved.", func(f pages.Form) error {
		return s.showTeam(v, http.StatusUnprocessableEntity, func(p *teamPage) { p.Edit = f })
	})
}

func (s *Site) deleteTeam(v *pages.Visit) error {
	return v.Act("DELETE", v.API("teams", v.PathValue("team")), nil, v.Place("settings", "teams"), "Team deleted.")
}

func (s *Site) addTeamMember(v *pages.Visit, form url.Values) error {
	t := v.PathValue("team")
	back := v.Place("settings", "teams", t)
	return pages.PickMember.Add(v, form.Get("user_id"), back, func(id string) error {
		return v.Act("POST", v.API("teams", t, "members"), map[string]any{"user_id": id, "role": form.Get("role")}, back, "Member added.")
	})
}

func (s *Site) removeTeamMember(v *pages.Visit) error {
	t := v.PathValue("team")
	return v.Act("DELETE", v.API("teams", t, "members", v.PathValue("user")), nil, v.Place("settings", "teams", t), "Member removed.")
}

func (s *Site) addTeamPipeline(v *pages.Visit, form url.Values) error {
	t := v.PathValue("team")
	back := v.Place("settings", "teams", t)
	return pages.PickPipeline.Add(v, form.Get("pipeline_id"), back, func(id string) error {
		return v.Act("POST", v.API("teams", t, "pipelines"), map[string]any{"pipeline_id": id, "access_level": form.Get("access_level")}, back, "Pipeline added.")
	})
}

func (s *Site) removeTeamPipeline(v *pages.Visit) error {
	t := v.PathValue("team")
	return v.Act("DELETE", v.API("teams", t, "pipelines", v.PathValue("id")), nil, v.Place("settings", "teams", t), "Pipeline removed.")
}
