package connections

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/lru"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
)

// Bounds of listing repositories.
const (
	listTimeout     = 20 * time.Second
	keepListing     = time.Minute
	maxListings     = 200 // cached by a process
	maxRepositories = 100 // of a response
	maxSearch       = 200 // characters
)

// A listings caches what hosts list, and sends one request to a connection at a time, so that many visitors cost its
// host few requests.
type listings struct {
	cached *lru.Cache[listingKey, cachedListing]
	busy   *lru.Cache[string, chan struct{}] // by connection; holds one value while a request is sent
}

// A listingKey identifies what was asked of which credentials.
type listingKey struct {
	connectionID string
	updatedAt    time.Time
	search       string
}

type cachedListing struct {
	sourcehost.Listing
	until time.Time
}

func newListings() listings {
	return listings{lru.New[listingKey, cachedListing](maxListings), lru.New[string, chan struct{}](maxListings)}
}

// lock returns a function that lets the next request of a connection go.
func (l listings) lock(ctx context.Context, connectionID string) (unlock func(), err error) {
	slot, ok := l.busy.Get(connectionID)
	if !ok {
		slot = make(chan struct{}, 1)
		l.busy.Add(connectionID, slot)
	}
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// get returns a listing that answers a search: of that search, or of all repositories.
func (l listings) get(key listingKey, now time.Time) (sourcehost.Listing, bool) {
	for _, search := range []string{key.search, ""} {
		found, ok := l.cached.Get(listingKey{key.connectionID, key.updatedAt, search})
		if ok && found.until.After(now) && (search == key.search || found.Complete || !found.Searched) {
			return found.Listing, true
		}
	}
	return sourcehost.Listing{}, false
}

// listRepositories returns repositories that a connection reaches and that match a search.
func (s *Service) listRepositories(ctx context.Context, c *Connection, search string) (sourcehost.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	key := listingKey{c.ID, c.UpdatedAt, strings.ToLower(search)}
	listing, ok := s.listings.get(key, s.clock())
	if !ok {
		unlock, err := s.listings.lock(ctx, c.ID)
		if err != nil {
			return listing, core.Errorf(core.Unprocessable, "%s takes too long to list its repositories; try again", c.Host)
		}
		defer unlock()
		if listing, ok = s.listings.get(key, s.clock()); !ok { // another request may have got it
			if listing, err = s.fetch(ctx, c, key); err != nil {
				return listing, err
			}
		}
	}
	return matching(listing, key.search), nil
}

// fetch asks the host, and caches what it lists.
func (s *Service) fetch(ctx context.Context, c *Connection, key listingKey) (listing sourcehost.Listing, err error) {
	host, err := s.host(ctx, c)
	if err == nil {
		listing, err = host.ListRepositories(ctx, key.search)
	}
	if errors.Is(err, sourcehost.ErrRefused) || errors.Is(err, sourcehost.ErrUnavailable) {
		return listing, core.Errorf(core.Unprocessable, "The repositories of %s could not be listed: %s", c.Host, err)
	}
	if err != nil {
		return listing, err
	}
	if !listing.Searched {
		key.search = ""
	}
	s.listings.cached.Add(key, cachedListing{listing, s.clock().Add(keepListing)})
	return listing, nil
}

// matching returns the repositories whose path or name contains a text.
func matching(l sourcehost.Listing, search string) sourcehost.Listing {
	if search == "" {
		return l
	}
	all := l.Repositories
	l.Repositories = nil
	for _, r := range all {
		if strings.Contains(strings.ToLower(r.Path), search) || strings.Contains(strings.ToLower(r.Name), search) {
			l.Repositories = append(l.Repositories, r)
		}
	}
	return l
}

// repositoryRoutes are for people who can create pipelines: they pick a repository without seeing its connection.
func (s *Service) repositoryRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Path: "/v2/organizations/{org}/source-hosts", Summary: "List connected source hosts",
			Description: "The hosts whose repositories can be listed, for people who can create pipelines.",
			Tag:         "Source connections", Scope: identity.ReadOrganizationRepositoryConnections, Permission: identity.CreatePipelines,
			Handler: route.Do(s.getHosts),
		},
		{
			Method: http.MethodGet, Path: "/v2/organizations/{org}/source-connections/{connection}/repositories", Summary: "List repositories of a source host",
			Description: "Up to 100 repositories that the connection can see, from the API of the host. What a host listed is kept for a minute.",
			Query:       []route.Param{{Name: "search", Doc: "A part of the path or name."}},
			Tag:         "Source connections", Scope: identity.ReadOrganizationRepositoryConnections, Permission: identity.CreatePipelines,
			Errors: []int{http.StatusUnprocessableEntity}, Handler: route.On(s.load, s.getRepositories),
		},
	}
}

type hostView struct {
	ConnectionID string `json:"connection_id"`
	Host         string `json:"host" doc:"As in repository URLs."`
	Provider     string `json:"provider"`
	Clones       bool   `json:"clones" doc:"Whether jobs get a token to clone with over HTTPS."`
}

func (s *Service) getHosts(r *route.Request) (hosts []hostView, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		found, _, err := list(q, r.Org.ID, maxConnections, 0)
		hosts = make([]hostView, len(found))
		for i, c := range found {
			hosts[i] = hostView{c.ID, c.Host, c.Provider, c.AppID != "" || c.sealedCloneToken != ""}
		}
		return err
	})
	return hosts, err
}

type repositoriesView struct {
	Repositories []repositoryView `json:"repositories"`
	Total        int              `json:"total" doc:"How many were found; only the first 100 are shown."`
	Complete     bool             `json:"complete" doc:"false when the host has more repositories than were searched."`
}

type repositoryView struct {
	Path          string  `json:"path" doc:"Owner and name."`
	Name          string  `json:"name"`
	Description   string  `json:"description"`
	DefaultBranch *string `json:"default_branch" doc:"null when the host does not say."`
	Private       bool    `json:"private"`
	HTTPSURL      *string `json:"https_url"`
	SSHURL        *string `json:"ssh_url"`
}

func (s *Service) getRepositories(r *route.Request, c *Connection) (repositoriesView, error) {
	search := strings.TrimSpace(r.FormQuery("search"))
	if len([]rune(search)) > maxSearch {
		return repositoriesView{}, core.Errorf(core.BadRequest, "search must have at most %d characters", maxSearch)
	}
	found, err := s.listRepositories(r.Context(), c, search)
	if err != nil {
		return repositoriesView{}, err
	}
	view := repositoriesView{Repositories: []repositoryView{}, Total: len(found.Repositories), Complete: found.Complete}
	for _, repo := range found.Repositories[:min(len(found.Repositories), maxRepositories)] {
		view.Repositories = append(view.Repositories, repositoryView{
			repo.Path, repo.Name, repo.Description, core.OrNull(repo.DefaultBranch), repo.Private, core.OrNull(repo.HTTPS), core.OrNull(repo.SSH),
		})
	}
	return view, nil
}
