package graphql

import (
	"context"
	"net/url"
	"strings"

	gql "github.com/graph-gophers/graphql-go"

	"stackyard/internal/platform/core"
)

const v2 = "/v2/organizations/"

// query resolves queries and mutations.
type query struct{}

type restOrganization struct{ ID, Slug, Name string }

type organization struct{ o restOrganization }

func (q *query) Organization(ctx context.Context, args struct{ Slug gql.ID }) (*organization, error) {
	var o restOrganization
	if _, err := callsOf(ctx).get(v2+url.PathEscape(string(args.Slug)), &o); err != nil {
		return nil, err
	}
	return &organization{o}, nil
}

// organizations returns the organizations of the caller.
func organizations(ctx context.Context) (list []restOrganization, err error) {
	_, err = callsOf(ctx).get("/v2/organizations?per_page=100", &list)
	return list, err
}

func (o *organization) ID() gql.ID   { return idOf("Organization", o.o.ID) }
func (o *organization) UUID() string { return o.o.ID }
func (o *organization) Slug() string { return o.o.Slug }
func (o *organization) Name() string { return o.o.Name }

func (o *organization) path(rest string) string { return v2 + url.PathEscape(o.o.Slug) + rest }

type restUser struct{ ID, Name, Email, Role string }

type user struct{ u restUser }

func (u user) ID() gql.ID    { return idOf("User", u.u.ID) }
func (u user) UUID() string  { return u.u.ID }
func (u user) Name() string  { return u.u.Name }
func (u user) Email() string { return u.u.Email }

type viewer struct{ u user }

func (v *viewer) User() *user { return &v.u }

func (q *query) Viewer(ctx context.Context) (*viewer, error) {
	var u restUser
	if _, err := callsOf(ctx).get("/v2/user", &u); err != nil {
		return nil, err
	}
	return &viewer{user{u}}, nil
}

type member struct{ u restUser }

func (m member) ID() gql.ID   { return idOf("OrganizationMember", m.u.ID) }
func (m member) Role() string { return strings.ToUpper(m.u.Role) }
func (m member) User() user   { return user(m) }

// memberPages limits the pages of members that a search reads.
const memberPages = 20

// Members lists members, all or those with an email or a part of a name or email.
func (o *organization) Members(ctx context.Context, args struct {
	First         *int32
	After         *string
	Search, Email *string
}) (*connection[member], error) {
	p, err := pageArgs{args.First, args.After}.page()
	if err != nil {
		return nil, err
	}
	found := connection[member]{}
	filtered := args.Search != nil || args.Email != nil
	if filtered {
		p = page{1, maxPage}
	}
	for {
		var list []restUser
		next, err := callsOf(ctx).get(o.path("/members")+p.query(), &list)
		if err != nil {
			return nil, err
		}
		for _, u := range list {
			if matches(u, args.Email, args.Search) {
				found.nodes = append(found.nodes, member{u})
			}
		}
		found.info = p.info(next.After && !filtered)
		if !filtered || !next.After || p.number == memberPages {
			return &found, nil
		}
		p.number++
	}
}

func matches(u restUser, email, search *string) bool {
	if email != nil && !strings.EqualFold(u.Email, *email) {
		return false
	}
	return search == nil || strings.Contains(strings.ToLower(u.Name+"\n"+u.Email), strings.ToLower(*search))
}

type restCluster struct{ ID, Name, Description string }

type cluster struct {
	c   restCluster
	org *organization
}

func (c cluster) ID() gql.ID           { return idOf("Cluster", c.c.ID) }
func (c cluster) UUID() string         { return c.c.ID }
func (c cluster) Name() string         { return c.c.Name }
func (c cluster) Description() *string { return &c.c.Description }

func (o *organization) Clusters(ctx context.Context, args pageArgs) (*connection[cluster], error) {
	p, err := args.page()
	if err != nil {
		return nil, err
	}
	var list []restCluster
	next, err := callsOf(ctx).get(o.path("/clusters")+p.query(), &list)
	if err != nil {
		return nil, err
	}
	found := connection[cluster]{info: p.info(next.After)}
	for _, c := range list {
		found.nodes = append(found.nodes, cluster{c, o})
	}
	return &found, nil
}

type restQueue struct{ ID, Key, Description string }

type queue struct{ q restQueue }

func (q queue) ID() gql.ID           { return gql.ID(q.q.ID) }
func (q queue) UUID() string         { return q.q.ID }
func (q queue) Key() string          { return q.q.Key }
func (q queue) Description() *string { return &q.q.Description }

func (c cluster) Queues(ctx context.Context, args pageArgs) (*connection[queue], error) {
	p, err := args.page()
	if err != nil {
		return nil, err
	}
	var list []restQueue
	next, err := callsOf(ctx).get(c.org.path("/clusters/"+c.c.ID+"/queues")+p.query(), &list)
	if err != nil {
		return nil, err
	}
	found := connection[queue]{info: p.info(next.After)}
	for _, q := range list {
		found.nodes = append(found.nodes, queue{q})
	}
	return &found, nil
}

// node is an object that has an id: an organization or a cluster.
type node struct {
	org     *organization
	cluster *cluster
}

func (n *node) ToOrganization() (*organization, bool) { return n.org, n.org != nil }
func (n *node) ToCluster() (*cluster, bool)           { return n.cluster, n.cluster != nil }

func (n *node) ID() gql.ID {
	if n.org != nil {
		return n.org.ID()
	}
	return n.cluster.ID()
}

// Node finds an object in the organizations of the caller.
func (q *query) Node(ctx context.Context, args struct{ ID gql.ID }) (*node, error) {
	kind, uuid, ok := parseID(args.ID)
	if !ok || kind != "" && kind != "Cluster" && kind != "Organization" {
		return nil, nil
	}
	orgs, err := organizations(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range orgs {
		org := &organization{o}
		if o.ID == uuid && kind != "Cluster" {
			return &node{org: org}, nil
		}
		if kind == "Organization" {
			continue
		}
		var c restCluster
		_, err := callsOf(ctx).get(org.path("/clusters/"+uuid), &c)
		if core.KindOf(err) == core.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &node{cluster: &cluster{c, org}}, nil
	}
	return nil, nil
}
