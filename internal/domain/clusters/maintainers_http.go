package clusters

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) maintainerRoutes() []route.Route {
	const path = "/v2/organizations/{org}/clusters/{cluster}/maintainers"
	load := resourceLoader(s, "maintainer", noMaintainer, maintainerByID)
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Tag: "Cluster maintainers", Summary: "List the maintainers of a cluster",
			Scope:   identity.ReadClusters,
			Handler: route.On(s.load, listMaintainers),
		},
		{
			Method: http.MethodPost, Path: path, Tag: "Cluster maintainers", Summary: "Add a maintainer to a cluster",
			Description: "Send exactly one of user and team.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusCreated,
			Handler: route.OnBody(s.load, s.addMaintainer),
		},
		{
			Method: http.MethodGet, Path: path + "/{maintainer}", Tag: "Cluster maintainers", Summary: "Get a maintainer of a cluster",
			Scope:   identity.ReadClusters,
			Handler: route.On(load, getMaintainer),
		},
		{
			Method: http.MethodDelete, Path: path + "/{maintainer}", Tag: "Cluster maintainers", Summary: "Remove a maintainer from a cluster",
			Scope: identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusNoContent,
			Handler: route.On(load, s.removeMaintainer),
		},
	}
}

type clusterMaintainerView struct {
	ID    string                     `json:"id"`
	Actor clusterMaintainerActorView `json:"actor"`
}

type clusterMaintainerActorView struct {
	ID        string    `json:"id"`
	GraphQLID string    `json:"graphql_id"`
	Type      actorType `json:"type"`
	Name      string    `json:"name"`
	Email     string    `json:"email,omitempty" doc:"Of a user."`
	Slug      string    `json:"slug,omitempty" doc:"Of a team."`
}

type actorType string

const (
	userActor actorType = "user"
	teamActor actorType = "team"
)

// Values lists all values.
func (actorType) Values() []string { return []string{string(userActor), string(teamActor)} }

func viewMaintainer(m Maintainer) clusterMaintainerView {
	if t := m.Team; t != nil {
		return clusterMaintainerView{ID: m.ID, Actor: clusterMaintainerActorView{
			ID: t.ID, GraphQLID: core.GraphQLID("Team", t.ID), Type: teamActor, Name: t.Name, Slug: t.Slug,
		}}
	}
	return clusterMaintainerView{ID: m.ID, Actor: clusterMaintainerActorView{
		ID: m.User.ID, GraphQLID: core.GraphQLID("User", m.User.ID), Type: userActor, Name: m.User.Name, Email: m.User.Email,
	}}
}

func listMaintainers(_ *route.Request, c maintained) ([]clusterMaintainerView, error) {
	views := make([]clusterMaintainerView, len(c.maintainers))
	for i, m := range c.maintainers {
		views[i] = viewMaintainer(m)
	}
	return views, nil
}

func getMaintainer(_ *route.Request, p resource[Maintainer]) (clusterMaintainerView, error) {
	return viewMaintainer(p.item), nil
}

type clusterMaintainerCreate struct {
	User route.Opt[string] `json:"user" doc:"The id of a user of the organization."`
	Team route.Opt[string] `json:"team" doc:"The id of a team of the organization."`
}

// ref returns the user or team that the body names. Problems are reported for the fields user and team, after
// prefix.
func (b clusterMaintainerCreate) ref(problems *core.Problems, prefix string) maintainerRef {
	user, team := b.User.Value, b.Team.Value
	if (user == "") == (team == "") {
		problems.Add(prefix+"user", "or %steam must be given, and not both", prefix)
		return maintainerRef{}
	}
	var n maintainerRef
	var ok bool
	if user != "" {
		n.user, ok = core.ParseID(user)
		prefix += "user"
	} else {
		n.team, ok = core.ParseID(team)
		prefix += "team"
	}
	if !ok {
		problems.Add(prefix, "must be a UUID")
	}
	return n
}

// maintainerRefs returns the users and teams that the bodies name.
func maintainerRefs(bodies []clusterMaintainerCreate, problems *core.Problems) []maintainerRef {
	if len(bodies) > maxInitialMaintainers {
		problems.Add("maintainers", "must be at most %d", maxInitialMaintainers)
		return nil
	}
	refs := make([]maintainerRef, len(bodies))
	for i, b := range bodies {
		refs[i] = b.ref(problems, maintainerField(i))
	}
	return refs
}

func (s *Service) addMaintainer(r *route.Request, c maintained, body clusterMaintainerCreate) (clusterMaintainerView, error) {
	var problems core.Problems
	n := body.ref(&problems, "")
	if err := problems.Err(); err != nil {
		return clusterMaintainerView{}, err
	}
	var m Maintainer
	err := s.db.Write(r.Context(), func(q *db.Q) error {
		c, err := Lock(q, c.OrganizationID, c.ID)
		if err != nil {
			return err
		}
		m, err = assignMaintainer(q, c, n, "", s.clock())
		return err
	})
	if err != nil {
		return clusterMaintainerView{}, err
	}
	return viewMaintainer(m), nil
}

func (s *Service) removeMaintainer(r *route.Request, p resource[Maintainer]) (route.Nothing, error) {
	return route.Nothing{}, s.db.Write(r.Context(), func(q *db.Q) error {
		return deleteMaintainer(q, p.ID, p.item.ID)
	})
}
