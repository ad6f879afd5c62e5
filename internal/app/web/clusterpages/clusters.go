package clusterpages

import (
	"net/http"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) clusterRoutes() []route.Route {
	return []route.Route{
		s.get("/clusters", s.clusters),
		s.post("/clusters", s.createCluster),
		s.get("/clusters/{cluster}/settings", s.clusterSettings),
		s.post("/clusters/{cluster}/settings", s.changeCluster),
		s.post("/clusters/{cluster}/delete", s.deleteCluster),
		s.post("/clusters/{cluster}/maintainers", s.addMaintainer),
		s.post("/clusters/{cluster}/maintainers/{maintainer}/remove", s.removeMaintainer),
	}
}

// manages reports whether the visitor manages a cluster: its maintainers do, and those with the permission.
func (s *Site) manages(v *pages.Visit, c cluster) bool {
	if v.Member.Can(identity.ManageClusters, v.Org) {
		return true
	}
	var maintainers []maintainer
	if _, err := v.Call("GET", v.API("clusters", c.ID, "maintainers"), nil, &maintainers); err != nil {
		return false
	}
	for _, m := range maintainers {
		if m.Actor.ID == v.User().ID {
			return true
		}
		for _, t := range v.Member.Teams {
			if t.TeamID == m.Actor.ID {
				return true
			}
		}
	}
	return false
}

// A maintainer is a user or a team that manages a cluster.
type maintainer struct {
	ID    string `json:"id"`
	Actor struct {
		ID    string `json:"id"`
		Type  string `json:"type"`
		Name  string `json:"name"`
		Email string `json:"email"`
	} `json:"actor"`
}

func (s *Site) newClusterForm(v *pages.Visit) pages.Form {
	return pages.Form{ID: "new", Action: v.Place("clusters"), Submit: "Create cluster", Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true},
		{Name: "description", Label: "Description", Null: true},
	}}
}

func (s *Site) clusters(v *pages.Visit) error {
	return s.showClusters(v, http.StatusOK, s.newClusterForm(v))
}

func (s *Site) showClusters(v *pages.Visit, status int, form pages.Form) error {
	page, err := v.Page()
	if err != nil {
		return err
	}
	var found []cluster
	next, err := v.Call("GET", v.API("clusters")+"?"+pageQuery(page), nil, &found)
	if err != nil {
		return err
	}
	return v.Show(status, "clusters", pages.View{Title: "Clusters", Section: "clusters", Page: struct {
		Org     string
		Rows    []cluster
		Pages   []pages.PageLink
		New     pages.Form
		Manages bool
	}{v.Org.Slug, found, v.PageLinks(page, next.After, "Previous", "Next"), form, v.Member.Can(identity.ManageClusters, v.Org)}})
}

func (s *Site) createCluster(v *pages.Visit) error {
	form := s.newClusterForm(v)
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	var made cluster
	_, err = v.Call("POST", v.API("clusters"), form.Body(values), &made)
	if wrong, ok := pages.RefusedFields(err); ok {
		return s.showClusters(v, http.StatusUnprocessableEntity, form.Entered(values, wrong))
	}
	if err != nil {
		return err
	}
	return v.Done(made.Path(v.Org.Slug), "Cluster created. Next, create a queue in it.")
}

func (s *Site) settingsForm(v *pages.Visit, c cluster) (pages.Form, error) {
	queues, err := s.queuesOf(v, c)
	options := []pages.Option{{Value: "", Text: "None"}}
	for _, q := range queues {
		options = append(options, pages.Option{Value: q.ID, Text: q.Key})
	}
	return pages.Form{ID: "cluster", Action: c.Path(v.Org.Slug, "settings"), Submit: "Save cluster", Fields: []pages.Field{
		{Name: "name", Label: "Name", Required: true, Value: c.Name},
		{Name: "description", Label: "Description", Null: true, Value: c.Description},
		{Name: "emoji", Label: "Emoji", Null: true, Value: text(c.Emoji), Placeholder: ":rocket:"},
		{Name: "color", Label: "Color", Null: true, Value: text(c.Color), Placeholder: "#a9cc66"},
		{Name: "default_queue_id", Label: "Default queue", Kind: pages.SelectField, Null: true, Value: text(c.DefaultQueueID), Options: options, Hint: "Jobs that name no queue run here."},
	}}, err
}

func (s *Site) clusterSettings(v *pages.Visit) error {
	in, err := s.within(v)
	if err != nil {
		return err
	}
	form, err := s.settingsForm(v, in.Cluster)
	if err != nil {
		return err
	}
	return s.showClusterSettings(v, http.StatusOK, in, form)
}

func (s *Site) showClusterSettings(v *pages.Visit, status int, in inCluster, form pages.Form) error {
	var maintainers []maintainer
	if _, err := v.Call("GET", v.API("clusters", in.Cluster.ID, "maintainers"), nil, &maintainers); err != nil {
		return err
	}
	person, err := pages.PickMember.Field(v, "user", "Member", "Name or email")
	if err != nil {
		return err
	}
	return in.show(v, status, "cluster_settings", "cluster", "Cluster settings", struct {
		inCluster
		Form        pages.Form
		Maintainers []maintainer
		Add         pages.Form
		Delete      pages.Confirm
	}{
		in, form, maintainers,
		pages.Form{ID: "maintainer", Action: in.At("maintainers"), Submit: "Add maintainer", Fields: []pages.Field{person}},
		pages.Confirm{Summary: "Delete cluster", Warning: "Its queues, agent tokens, secrets and stacks are deleted, and agents are disconnected. This cannot be undone. A cluster with pipelines cannot be deleted.",
			Form: pages.Form{ID: "delete", Action: in.At("delete"), Submit: "Delete " + in.Cluster.Name, Danger: true}},
	})
}

func (s *Site) changeCluster(v *pages.Visit) error {
	in, err := s.within(v)
	if err != nil {
		return err
	}
	form, err := s.settingsForm(v, in.Cluster)
	if err != nil {
		return err
	}
	return v.Submit(form, "PATCH", v.API("clusters", in.Cluster.ID), in.At("settings"), "Cluster saved.", func(f pages.Form) error {
		return s.showClusterSettings(v, http.StatusUnprocessableEntity, in, f)
	})
}

func (s *Site) deleteCluster(v *pages.Visit) error {
	id := v.PathValue("cluster")
	_, err := v.Call("DELETE", v.API("clusters", id), nil, nil)
	if wrong, ok := pages.ProblemsOf(err); ok {
		return v.Refused(v.Place("clusters", id, "settings"), wrong.Sentence())
	}
	if err != nil {
		return err
	}
	return v.Done(v.Place("clusters"), "Cluster deleted.")
}

func (s *Site) addMaintainer(v *pages.Visit) error {
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	id := v.PathValue("cluster")
	user, problem, err := pages.PickMember.Find(v, form.Get("user"))
	if err != nil {
		return err
	}
	if problem != "" {
		return v.Refused(v.Place("clusters", id, "settings"), "Not added. This "+problem)
	}
	return v.Act("POST", v.API("clusters", id, "maintainers"), map[string]any{"user": user}, v.Place("clusters", id, "settings"), "Maintainer added.")
}

func (s *Site) removeMaintainer(v *pages.Visit) error {
	id := v.PathValue("cluster")
	return v.Act("DELETE", v.API("clusters", id, "maintainers", v.PathValue("maintainer")), nil, v.Place("clusters", id, "settings"), "Maintainer removed.")
}
