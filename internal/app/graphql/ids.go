package graphql

import (
	"encoding/base64"
	"strconv"
	"strings"

	gql "github.com/graph-gophers/graphql-go"

	"stackyard/internal/platform/core"
)

// idOf returns the id of an object of a kind.
func idOf(kind, uuid string) gql.ID { return gql.ID(core.GraphQLID(kind, uuid)) }

// parseID returns the kind and the UUID of an id. Clients also send UUIDs, whose kind is "".
func parseID(id gql.ID) (kind, uuid string, ok bool) {
	if uuid, ok := core.ParseID(string(id)); ok {
		return "", uuid, true
	}
	text, err := base64.StdEncoding.DecodeString(string(id))
	if err != nil {
		return "", "", false
	}
	kind, uuid, _ = strings.Cut(string(text), "---")
	uuid, ok = core.ParseID(uuid)
	return kind, uuid, ok
}

// wanted returns the UUID of an id that must be of a kind.
func wanted(id gql.ID, kind, missing string) (string, error) {
	found, uuid, ok := parseID(id)
	if !ok || found != "" && found != kind {
		return "", core.Errorf(core.NotFound, "%s", missing)
	}
	return uuid, nil
}

// A page is the part of a list that a query asks for. Cursors are page numbers.
type page struct{ number, size int }

type pageArgs struct {
	First *int32
	After *string
}

func (a pageArgs) page() (page, error) {
	p := page{number: 1, size: maxPage}
	if a.First != nil {
		if *a.First < 1 || *a.First > 500 {
			return p, core.Errorf(core.BadRequest, "first must be from 1 to 500")
		}
		p.size = min(int(*a.First), maxPage)
	}
	if a.After != nil && *a.After != "" {
		number, err := strconv.Atoi(*a.After)
		if err != nil || number < 1 || number > 1_000_000 {
			return p, core.Errorf(core.BadRequest, "after is not a cursor of this list")
		}
		p.number = number + 1
	}
	return p, nil
}

func (p page) query() string {
	return "?page=" + strconv.Itoa(p.number) + "&per_page=" + strconv.Itoa(p.size)
}

// info returns what follows the page.
func (p page) info(more bool) pageInfo { return pageInfo{more, strconv.Itoa(p.number)} }

type pageInfo struct {
	more   bool
	cursor string
}

func (i pageInfo) HasNextPage() bool { return i.more }
func (i pageInfo) EndCursor() *string {
	if i.cursor == "" {
		return nil
	}
	return &i.cursor
}

// A connection is a page of a list.
type connection[T any] struct {
	nodes []T
	info  pageInfo
}

func (c connection[T]) Edges() *[]*edge[T] {
	edges := make([]*edge[T], len(c.nodes))
	for i, n := range c.nodes {
		edges[i] = &edge[T]{n}
	}
	return &edges
}

func (c connection[T]) PageInfo() pageInfo { return c.info }

type edge[T any] struct{ node T }

func (e *edge[T]) Node() *T { return &e.node }
