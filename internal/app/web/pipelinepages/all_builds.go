package pipelinepages

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/app/web/buildpages"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// A listedBuild is a build in a response of the API.
type listedBuild struct {
	ID         string          `json:"id"`
	Number     int             `json:"number"`
	State      flow.BuildState `json:"state"`
	Blocked    bool            `json:"blocked"`
	WebURL     string          `json:"web_url"`
	Message    *string         `json:"message"`
	Branch     string          `json:"branch"`
	CreatedAt  time.Time       `json:"created_at"`
	StartedAt  *time.Time      `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at"`
	Creator    *struct {
		Name string `json:"name"`
	} `json:"creator"`
	Pipeline struct {
		Name string `json:"name"`
		Slug string `json:"slug"`
	} `json:"pipeline"`

	Path  string           `json:"-"`
	Badge buildpages.Badge `json:"-"`
}

// Heading returns the first line of the build's message.
func (b listedBuild) Heading() string {
	if b.Message == nil {
		return "Build #" + strconv.Itoa(b.Number)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(*b.Message), "\n")
	return cmp.Or(first, "Build #"+strconv.Itoa(b.Number))
}

// Ended returns when the build finished; zero while it has not.
func (b listedBuild) Ended() time.Time {
	if b.FinishedAt == nil {
		return time.Time{}
	}
	return *b.FinishedAt
}

// allBuilds lists the builds of all pipelines of the organization.
func (s *Site) allBuilds(v *pages.Visit) error {
	filter, page, err := readFilter(v)
	if err != nil {
		return err
	}
	query := v.Given("branch", "state", "creator", "created_from", "created_to")
	query.Set("exclude_jobs", "true")
	query.Set("page", strconv.Itoa(page.Number))
	query.Set("per_page", strconv.Itoa(page.Size))
	var rows []listedBuild
	next, err := v.Call("GET", v.API("builds")+"?"+query.Encode(), nil, &rows)
	if err != nil {
		return err
	}
	for i := range rows {
		b := &rows[i]
		b.Path, b.Badge = v.Local(b.WebURL), buildpages.BadgeOf(b.State)
		if b.Blocked {
			b.Badge = buildpages.BadgeOf(flow.BuildBlocked)
		}
	}
	mine := ""
	if filter.Person != v.User().Email {
		mine = v.Place("builds") + "?" + url.Values{"creator": {v.User().Email}}.Encode()
	}
	return v.Show(http.StatusOK, "builds", pages.View{Title: "Builds", Section: "builds", Page: buildsPage{
		v.Place("builds"), "/" + v.Org.Slug, mine, v.Org, filter, rows, v.PageLinks(page, next.After, "Newer", "Older"),
	}})
}

// A buildsPage is the data of the page of all builds.
type buildsPage struct {
	Path, Pipelines, Mine string
	Org                   *identity.Organization
	Filter                filterForm
	Rows                  []listedBuild
	Pages                 []pages.PageLink
}

// Suggest returns the path of suggestions for a field of the page.
func (p buildsPage) Suggest(what string) string {
	if what == pages.SuggestBranch { // of which pipeline?
		return ""
	}
	return pages.SuggestPath(p.Org, what, "")
}
