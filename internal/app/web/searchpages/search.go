// Package searchpages finds pipelines, builds, agents and pages by a text: as a page, and as JSON for the command
// palette (assets/stackyard.js of package pages).
//
// A search runs a fixed number of statements with small limits, whatever the size of the organization, and finds only
// what its visitor can see.
package searchpages

import (
	"embed"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"stackyard/internal/app/web/buildpages"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/route"
)

//go:embed templates
var templates embed.FS

// Config contains the dependencies of the search.
type Config struct {
	Pipelines *pipelines.Service
	Builds    *lifecycle.Service
	Agents    *agents.Service
}

// Site serves the search.
type Site struct {
	*pages.Site
	Config
}

// New returns the search.
func New(base *pages.Site, c Config) *Site {
	base.AddTemplates(templates, nil)
	return &Site{Site: base, Config: c}
}

const (
	// maxText limits the text of a search, in bytes, and maxFound what is shown of each kind.
	maxText  = 200
	maxFound = 8
	// maxBranches limits the branches that are suggested.
	maxBranches = 20
	// maxOrganizations limits the organizations that are searched at once.
	maxOrganizations = 5
)

// Routes returns the routes of the search.
func (s *Site) Routes() []route.Route {
	return []route.Route{
		s.Get("/organizations/search", pages.SignedIn(s.everywhere)),
		s.Get("/organizations/{org}/search", pages.Within(s.within)),
		s.Get("/organizations/{org}/suggestions", pages.MembersOnly(s.suggest)),
	}
}

// A Group is what was found of one kind.
type Group struct {
	Title string `json:"title"`
	Items []Item `json:"items"`
}

// An Item is something that was found.
type Item struct {
	Title string `json:"title"`
	About string `json:"about,omitempty"`
	Path  string `json:"path"`
	Class string `json:"class,omitempty"` // of its state
}

// within searches an organization. Visitors find what is public.
func (s *Site) within(v *pages.Visit) error {
	groups, err := s.find(v, query(v), v.FormQuery("pipeline"))
	if err != nil {
		return err
	}
	if v.Member == nil && len(groups) == 0 {
		if _, public, err := s.Pipelines.List(v.Context(), pipelines.ViewerOf(v.Request), "", route.Page{Number: 1, Size: 1}); err != nil || public == 0 {
			return pages.ErrNothing // nothing here is public
		}
	}
	return s.show(v, v.Place("search"), groups)
}

// everywhere searches the visitor's organizations.
func (s *Site) everywhere(v *pages.Visit) error {
	memberships, err := v.Organizations()
	if err != nil {
		return err
	}
	text := query(v)
	var groups []Group
	searched := 0
	for _, m := range memberships {
		if m.Suspended || searched == maxOrganizations {
			continue
		}
		searched++
		v.Org, v.Member = &m.Organization, v.Caller.Membership(m.ID)
		found, err := s.find(v, text, "")
		if err != nil {
			return err
		}
		for i := range found {
			if len(memberships) > 1 {
				found[i].Title += " in " + m.Name
			}
		}
		groups = append(groups, found...)
	}
	v.Org, v.Member = nil, nil
	groups = add(groups, "Settings", links(v.Site.Prefix, v.SettingsLinks(), text))
	return s.show(v, "/organizations/search", groups)
}

// query returns the text of the search.
func query(v *pages.Visit) string { return strings.TrimSpace(core.Cut(v.FormQuery("q"), maxText)) }

func (s *Site) show(v *pages.Visit, path string, groups []Group) error {
	v.W.Header().Set("Vary", "Accept")
	if !strings.Contains(v.Header.Get("Accept"), "text/html") {
		v.W.Header().Set("Content-Type", "application/json; charset=utf-8")
		return json.NewEncoder(v.W).Encode(struct {
			Groups []Group `json:"groups"`
		}{groups})
	}
	return v.Show(http.StatusOK, "search", pages.View{Title: "Search", Section: "search", Page: struct {
		Path, Text string
		Groups     []Group
	}{path, query(v), groups}})
}

// suggest returns, as JSON, what can be meant by a text that is being typed into a field.
func (s *Site) suggest(v *pages.Visit) error {
	options, err := []pages.Option(nil), error(nil)
	if what := v.FormQuery("what"); what == pages.SuggestBranch {
		options, err = s.branches(v, v.FormQuery("pipeline"), query(v))
	} else {
		options, err = pages.Suggest(v, what, query(v))
	}
	if err != nil {
		return err
	}
	if options == nil {
		options = []pages.Option{}
	}
	v.W.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(v.W).Encode(options)
}

// branches returns recently built branches of a pipeline.
func (s *Site) branches(v *pages.Visit, slug, text string) (options []pages.Option, err error) {
	err = s.DB.Read(v.Context(), func(q *db.Q) error {
		p, err := pipelines.BySlug(q, pipelines.ViewerOf(v.Request), slug)
		if err != nil {
			return err
		}
		names, err := builds.RecentBranches(q, p.ID, text, maxBranches)
		options = nil
		for _, name := range names {
			options = append(options, pages.Option{Value: name})
		}
		return err
	})
	return options, err
}

// find searches the visit's organization. current is the slug of the pipeline whose builds come first.
func (s *Site) find(v *pages.Visit, text, current string) (groups []Group, err error) {
	name, number := split(text)
	viewer := pipelines.ViewerOf(v.Request)
	found, _, err := s.Pipelines.List(v.Context(), viewer, name, route.Page{Number: 1, Size: maxFound})
	if err != nil {
		return nil, err
	}
	if number > 0 {
		list, err := s.numbered(v, found, number, current)
		if err != nil {
			return nil, err
		}
		groups = add(groups, "Builds", list)
		if name == "" && text != "" {
			// A number can be a part of a name.
			if found, _, err = s.Pipelines.List(v.Context(), viewer, text, route.Page{Number: 1, Size: maxFound}); err != nil {
				return nil, err
			}
		}
	}
	var items []Item
	for _, p := range found {
		items = append(items, Item{Title: markdown.Emoji(p.Name), About: "Pipeline", Path: v.Site.Prefix + core.PublicURL("").To(v.Org.Slug, p.Slug)})
	}
	groups = add(groups, "Pipelines", items)
	if v.Member != nil {
		if text != "" {
			list, err := s.Agents.Find(v.Context(), v.Org.ID, text, maxFound)
			if err != nil {
				return nil, err
			}
			items = nil
			for _, a := range list {
				items = append(items, Item{Title: a.Name, About: a.Hostname, Path: v.Site.Prefix + v.Place("agents", a.ID)})
			}
			groups = add(groups, "Agents", items)
		}
		groups = add(groups, "Pages", links(v.Site.Prefix, v.OrganizationPages(), text))
	}
	return groups, nil
}

// numbered returns the builds with a number of some pipelines, and first of the current one.
func (s *Site) numbered(v *pages.Visit, found []*pipelines.Pipeline, number int, current string) ([]Item, error) {
	ids, names := make([]string, 0, len(found)+1), make(map[string]*pipelines.Pipeline)
	if current != "" {
		var here *pipelines.Pipeline
		err := s.DB.Read(v.Context(), func(q *db.Q) (err error) {
			here, err = pipelines.BySlug(q, pipelines.ViewerOf(v.Request), current)
			return err
		})
		if err != nil && core.KindOf(err) != core.NotFound {
			return nil, err
		}
		if err == nil {
			found = append([]*pipelines.Pipeline{here}, found...)
		}
	}
	for _, p := range found {
		if names[p.ID] == nil {
			ids, names[p.ID] = append(ids, p.ID), p
		}
	}
	byPipeline, err := s.Builds.Numbered(v.Context(), v.Org.ID, ids, number)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, id := range ids {
		if b := byPipeline[id]; b != nil {
			head := buildpages.HeadOf(v, builds.OnBuild{Build: b, Pipeline: names[id]})
			items = append(items, Item{
				Title: markdown.Emoji(names[id].Name) + " #" + strconv.Itoa(number), About: head.Badge.Label + " · " + markdown.Emoji(head.Heading()), Path: v.Site.Prefix + head.Path, Class: head.Badge.Class,
			})
		}
	}
	return items, nil
}

// split returns the name and the build number in a text such as "12", "#12", "web 12" or "web #12".
func split(text string) (name string, number int) {
	name, digits := "", text
	if i := strings.LastIndexAny(text, " #/"); i >= 0 {
		name, digits = strings.TrimRight(text[:i], " #/"), text[i+1:]
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n <= 0 || n > 1<<31-1 || digits[0] == '+' {
		return text, 0
	}
	return name, n
}

// links returns the pages whose title contains all words of a text.
func links(prefix string, all []pages.NavLink, text string) (items []Item) {
	for _, l := range all {
		title := strings.ToLower(l.Title)
		matches := true
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			matches = matches && strings.Contains(title, word)
		}
		if matches {
			items = append(items, Item{Title: l.Title, About: l.About, Path: prefix + l.Path})
		}
	}
	return items
}

// add adds a group unless nothing was found.
func add(groups []Group, title string, items []Item) []Group {
	if len(items) == 0 {
		return groups
	}
	return append(groups, Group{title, items})
}
