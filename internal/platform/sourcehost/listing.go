package sourcehost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A Listing is the repositories that the credentials of a host can see.
type Listing struct {
	Repositories []ListedRepository
	// Complete is false when the host has more than these.
	Complete bool
	// Searched is set when the host applied the search. Otherwise these are repositories of any name.
	Searched bool
}

// A ListedRepository is a repository as its host describes it.
type ListedRepository struct {
	Path          string // owner/name
	Name          string
	Description   string
	DefaultBranch string // empty: the host does not say
	Private       bool
	HTTPS, SSH    string // URLs to clone from; empty: none
}

// Bounds of a listing.
const (
	maxListedPages = 10
	maxListing     = 8 << 20 // bytes of one page
	maxListedText  = 300     // characters of a description
)

var listRepositories = action{"list", "repositories"}

// list reads a page of a list into a value, and returns the response.
func (a api) list(ctx context.Context, path string, query url.Values, into any) (*http.Response, error) {
	resp, content, err := a.sendUpTo(ctx, http.MethodGet, path+"?"+query.Encode(), nil, maxListing)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%w: there is no list of repositories at %s; correct api_url or provider", ErrRefused, a.url)
	case resp.StatusCode == http.StatusForbidden:
		if _, limited := rateLimited(resp); !limited {
			return nil, fmt.Errorf("%w: the token may not list repositories (%s)", ErrRefused, readProblem(content))
		}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp, content, listRepositories, Repository{})
	}
	if err := json.Unmarshal(content, into); err != nil {
		return nil, fmt.Errorf("%w: its list of repositories is not what this kind of host sends; correct api_url or provider", ErrUnavailable)
	}
	return resp, nil
}

// listPages reads pages of a list until one is not full. page returns the repositories of a page.
func listPages(size int, page func(query url.Values) ([]ListedRepository, error)) (Listing, error) {
	var all Listing
	for number := 1; number <= maxListedPages; number++ {
		found, err := page(url.Values{"page": {strconv.Itoa(number)}})
		if err != nil {
			return all, err
		}
		all.Repositories = append(all.Repositories, found...)
		if len(found) < size {
			all.Complete = true
			break
		}
	}
	return all, nil
}

// A githubRepository is a repository in a list of GitHub or Gitea.
type githubRepository struct {
	Name          string `json:"name"`
	FullName      string `json:"full_name"`
	Description   string `json:"description"`
	DefaultBranch string `json:"default_branch"`
	Private       bool   `json:"private"`
	CloneURL      string `json:"clone_url"`
	SSHURL        string `json:"ssh_url"`
}

func fromGitHub(list []githubRepository) []ListedRepository {
	found := make([]ListedRepository, len(list))
	for i, r := range list {
		found[i] = ListedRepository{
			Path: r.FullName, Name: r.Name, Description: shorten(r.Description, maxListedText), DefaultBranch: r.DefaultBranch,
			Private: r.Private, HTTPS: r.CloneURL, SSH: r.SSHURL,
		}
	}
	return found
}

// ListRepositories implements [Host]. GitHub does not search in what a token can see.
func (g *GitHub) ListRepositories(ctx context.Context, _ string) (Listing, error) {
	const size = 100
	return listPages(size, func(query url.Values) ([]ListedRepository, error) {
		query.Set("per_page", strconv.Itoa(size))
		if g.installation {
			var page struct {
				Repositories []githubRepository `json:"repositories"`
			}
			_, err := g.api.list(ctx, "/installation/repositories", query, &page)
			return fromGitHub(page.Repositories), err
		}
		query.Set("sort", "pushed")
		var page []githubRepository
		_, err := g.api.list(ctx, "/user/repos", query, &page)
		return fromGitHub(page), err
	})
}

// ListRepositories implements [Host].
func (g *gitea) ListRepositories(ctx context.Context, _ string) (Listing, error) {
	const size = 50 // the most that it sends
	return listPages(size, func(query url.Values) ([]ListedRepository, error) {
		query.Set("limit", strconv.Itoa(size))
		var page []githubRepository
		_, err := g.api.list(ctx, "/user/repos", query, &page)
		return fromGitHub(page), err
	})
}

// ListRepositories implements [Host].
func (g *gitlab) ListRepositories(ctx context.Context, search string) (Listing, error) {
	query := url.Values{"membership": {"true"}, "simple": {"true"}, "archived": {"false"}, "order_by": {"last_activity_at"}, "per_page": {"100"}}
	if search != "" {
		query.Set("search", search)
		query.Set("search_namespaces", "true")
	}
	var page []struct {
		Path          string `json:"path_with_namespace"`
		Name          string `json:"name"`
		Description   string `json:"description"`
		DefaultBranch string `json:"default_branch"`
		Visibility    string `json:"visibility"`
		HTTPS         string `json:"http_url_to_repo"`
		SSH           string `json:"ssh_url_to_repo"`
	}
	resp, err := g.api.list(ctx, "/projects", query, &page)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Searched: true, Complete: resp.Header.Get("X-Next-Page") == ""}
	for _, p := range page {
		l.Repositories = append(l.Repositories, ListedRepository{
			Path: p.Path, Name: p.Name, Description: shorten(p.Description, maxListedText), DefaultBranch: p.DefaultBranch,
			// Simple lists have no visibility before GitLab 17.
			Private: p.Visibility != "public", HTTPS: p.HTTPS, SSH: p.SSH,
		})
	}
	return l, nil
}

// bitbucketLinks are the clone URLs of a repository on Bitbucket Cloud and Server.
type bitbucketLinks struct {
	Clone []struct{ Href, Name string }
}

func (l bitbucketLinks) urls() (https, ssh string) {
	for _, c := range l.Clone {
		switch c.Name {
		case "https", "http":
			if u, err := url.Parse(c.Href); err == nil { // Cloud writes the name of the user into it
				u.User = nil
				https = u.String()
			}
		case "ssh":
			ssh = c.Href
		}
	}
	return https, ssh
}

// ListRepositories implements [Host].
func (b *bitbucket) ListRepositories(ctx context.Context, search string) (Listing, error) {
	query := url.Values{"role": {"member"}, "pagelen": {"100"}, "sort": {"-updated_on"}}
	if search != "" {
		query.Set("q", "full_name ~ "+strconv.Quote(strings.Map(plainRune, search)))
	}
	var page struct {
		Next   string
		Values []struct {
			FullName    string `json:"full_name"`
			Name        string
			Description string
			IsPrivate   bool `json:"is_private"`
			MainBranch  *struct{ Name string }
			Links       bitbucketLinks
		}
	}
	if _, err := b.api.list(ctx, "/repositories", query, &page); err != nil {
		return Listing{}, err
	}
	l := Listing{Searched: true, Complete: page.Next == ""}
	for _, r := range page.Values {
		listed := ListedRepository{Path: r.FullName, Name: r.Name, Description: shorten(r.Description, maxListedText), Private: r.IsPrivate}
		if r.MainBranch != nil {
			listed.DefaultBranch = r.MainBranch.Name
		}
		listed.HTTPS, listed.SSH = r.Links.urls()
		l.Repositories = append(l.Repositories, listed)
	}
	return l, nil
}

// plainRune leaves out what could end a quoted text of a query.
func plainRune(r rune) rune {
	if r == '"' || r == '\\' || r < ' ' {
		return -1
	}
	return r
}

// ListRepositories implements [Host].
func (b *bitbucketServer) ListRepositories(ctx context.Context, search string) (Listing, error) {
	query := url.Values{"limit": {"100"}}
	if search != "" {
		query.Set("name", search)
	}
	var page struct {
		IsLastPage bool
		Values     []struct {
			Slug, Name, Description string
			Public                  bool
			Project                 struct{ Key string }
			Links                   bitbucketLinks
		}
	}
	if _, err := b.api.list(ctx, "/repos", query, &page); err != nil {
		return Listing{}, err
	}
	l := Listing{Searched: true, Complete: page.IsLastPage}
	for _, r := range page.Values {
		listed := ListedRepository{Path: r.Project.Key + "/" + r.Slug, Name: r.Name, Description: shorten(r.Description, maxListedText), Private: !r.Public}
		listed.HTTPS, listed.SSH = r.Links.urls()
		l.Repositories = append(l.Repositories, listed)
	}
	return l, nil
}
