package clusterpages

import (
	"net/http"
	"net/url"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) clusterRoutes() []route.Route {
	return []route.Route{
		s.get("/clusters", s.clusters),
		s.post("/clusters", pages.WithForm(s.createCluster)),
		s.get("/clusters/{cluster}/settings", pages.On(s.within, s.clusterSettings)),
		s.post("/clusters/{cluster}/settings", pages.On(s.within, s.changeCluster)),
		s.post("/clusters/{cluster}/delete", s.deleteCluster),
		s.post("/clusters/{cluster}/maintainers", pages.WithForm(s.addMaintainer)),
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
	found, links, err := pages.ListOf[cluster](v, v.API("clusters"))
	if err != nil {
		return err
	}
	return v.Show(status, "clusters", pages.View{Title: "Clusters", Section: "clusters", Page: struct {
		Org     string
		Rows    []cluster
		Pages   []pages.PageLink
		New     pages.Form
		Manages bool
	}{v.Org.Slug, found, links, form, v.Member.Can(identity.ManageClusters, v.Org)}})
}

func (s *Site) createCluster(v *pages.Visit, values url.Values) error {
	var made cluster
	refused := func(f pages.Form) error { return s.showClusters(v, http.StatusUnprocessableEntity, f) }
	return v.Send(s.newClusterForm(v), values, "POST", v.API("clusters"), &made, refused, func() error {
		return v.Done(made.Path(v.Org.Slug), "Cluster created. Next, create a queue in it.")
	})
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
		{Name: "emoji", Label: "Emoji", Null: true, Value: pages.Text(c.Emoji), Placeholder: ":rocket:"},
		{Name: "color", Label: "Color", Null: true, Value: pages.Text(c.Color), Placeholder: "#a9cc66"},
		{Name: "default_queue_id", Label: "Default queue", Kind: pages.SelectField, Null: true, Value: pages.Text(c.DefaultQueueID), Options: options, Hint: "Jobs that name no queue run here."},
	}}, err
}

func (s *Site) clusterSettings(v *pages.Visit, in inCluster) error {
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

func (s *Site) changeCluster(v *pages.Visit, in inCluster) error {
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
	return v.Delete(v.API("clusters", id), v.Place("clusters", id, "settings"), v.Place("clusters"), "Cluster deleted.")
}

func (s *Site) addMaintainer(v *pages.Visit, form url.Values) error {
	id := v.PathValue("cluster")
	back := v.Place("clusters", id, "settings")
	return pages.PickMember.Add(v, form.Get("user"), back, func(user string) error {
		return v.Act("POST", v.API("clusters", id, "maintainers"), map[string]any{"user": user}, back, "Maintainer added.")
	})
}

func (s *Site) removeMaintainer(v *pages.Visit) error {
	id := v.PathValue("cluster")
	return v.Act("DELETE", v.API("clusters", id, "maintainers", v.PathValue("maintainer")), nil, v.Place("clusters", id, "settings"), "Maintainer removed.")
}
