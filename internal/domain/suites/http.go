package suites

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Path is where the REST API has the suites of an organization.
const Path = "/v2/analytics/organizations/{org}/suites"

// Routes returns the routes of suites and of the access of teams to them.
func (s *Service) Routes() []route.Route {
	const tag, one = "Suites", Path + "/{suite}"
	return append(s.teamRoutes(), []route.Route{
		{
			Method: http.MethodGet, Path: Path, Tag: tag, Summary: "List suites",
			Description: "Lists the suites that the caller can see, oldest first.",
			Scope:       identity.ReadSuites,
			Query:       append([]route.Param{ShowTokenParam}, route.PageParams...),
			Handler:     route.Do(s.listSuites),
		},
		{
			Method: http.MethodPost, Path: Path, Tag: tag, Summary: "Create a suite",
			Scope: identity.WriteSuites, Permission: identity.CreateSuites,
			Status: http.StatusCreated, PlainValidation: true,
			Handler: route.DoBody(s.createSuite),
		},
		{
			Method: http.MethodGet, Path: one, Tag: tag, Summary: "Get a suite",
			Scope:   identity.ReadSuites,
			Query:   []route.Param{ShowTokenParam},
			Handler: route.On(s.Load, s.getSuite),
		},
		{
			Method: http.MethodPatch, Path: one, Tag: tag, Summary: "Update a suite",
			Description: "Fields that are not sent keep their values. The slug does not change with the name.",
			Scope:       identity.WriteSuites, Permission: identity.EditSuite, PlainValidation: true,
			Handler: route.OnBody(s.Load, s.updateSuite),
		},
		{
			Method: http.MethodDelete, Path: one, Tag: tag, Summary: "Delete a suite",
			Description: "Deletes the suite with all its results.",
			Scope:       identity.WriteSuites, Permission: identity.EditSuite,
			Status:  http.StatusNoContent,
			Handler: route.On(s.Load, s.deleteSuite),
		},
	}...)
}

// ShowTokenParam is the query parameter that asks for API tokens.
var ShowTokenParam = route.Param{Name: "show_api_token", Type: "boolean", Doc: "Whether to show the API token, which needs the permission view_suite_tokens; false unless given."}

// Load returns the suite that the path names, or a NotFound error when the caller cannot see it.
func (s *Service) Load(r *route.Request) (suite *Suite, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		suite, err = BySlug(q, ViewerOf(r), r.PathValue("suite"))
		return err
	})
	return suite, err
}

// List returns a page of the suites that a viewer can see, oldest first, and their number.
func (s *Service) List(ctx context.Context, v Viewer, page route.Page) (suites []*Suite, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		suites, total, err = list(q, v, page.Size, page.Offset())
		return err
	})
	return suites, total, err
}

// SuiteView is a suite in the REST API.
type SuiteView struct {
	ID              string         `json:"id"`
	GraphQLID       string         `json:"graphql_id"`
	OrganizationID  string         `json:"organization_id"`
	Slug            string         `json:"slug"`
	Name            string         `json:"name"`
	URL             string         `json:"url"`
	WebURL          string         `json:"web_url"`
	DefaultBranch   string         `json:"default_branch" doc:"The branch whose trends are shown. Results of all branches are collected."`
	ApplicationName *string        `json:"application_name"`
	Color           *string        `json:"color"`
	Emoji           *string        `json:"emoji"`
	Policy          PolicyDocument `json:"oidc_policy" doc:"Which OpenID Connect tokens can upload results: YAML or an array of statements, as it was given."`
	APIToken        string         `json:"api_token,omitempty" doc:"The token that uploads results. Present when show_api_token is true."`
}

// View returns a suite as the REST API shows it, without its token.
func (s *Service) View(org *identity.Organization, suite *Suite) SuiteView {
	return SuiteView{
		ID:              suite.ID,
		GraphQLID:       core.GraphQLID("Suite", suite.ID),
		OrganizationID:  suite.OrganizationID,
		Slug:            suite.Slug,
		Name:            suite.Name,
		URL:             URL(s.public, org, suite.Slug),
		WebURL:          WebURL(s.public, org, suite.Slug),
		DefaultBranch:   suite.DefaultBranch,
		ApplicationName: core.OrNull(suite.ApplicationName),
		Color:           core.OrNull(suite.Color),
		Emoji:           core.OrNull(suite.Emoji),
		Policy:          suite.Policy,
	}
}

// URL returns the API URL of a suite or of something in it.
func URL(public core.PublicURL, org *identity.Organization, slug string, segments ...string) string {
	return public.To(append([]string{"v2", "analytics", "organizations", org.Slug, "suites", slug}, segments...)...)
}

// WebURL returns the URL of a suite's page or of a page below it.
func WebURL(public core.PublicURL, org *identity.Organization, slug string, segments ...string) string {
	return public.To(append([]string{"organizations", org.Slug, "analytics", "suites", slug}, segments...)...)
}

// Views returns a page of suites as the REST API shows them, with their tokens if the request asks for them. The
// caller needs the permission to see tokens then.
func (s *Service) Views(r *route.Request, list func(route.Page) ([]*Suite, int, error)) (none route.Paged[SuiteView], err error) {
	token, err := wantsToken(r)
	if err != nil {
		return none, err
	}
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	suites, total, err := list(page)
	if err != nil {
		return none, err
	}
	views := make([]SuiteView, len(suites))
	for i, suite := range suites {
		if views[i], err = s.viewWith(r, suite, token); err != nil {
			return none, err
		}
	}
	return route.PageOf(views, page, total), nil
}

// viewWith returns a suite as the REST API shows it, with its token if that is wanted.
func (s *Service) viewWith(r *route.Request, suite *Suite, token bool) (SuiteView, error) {
	v := s.View(r.Org, suite)
	if !token {
		return v, nil
	}
	var err error
	v.APIToken, err = s.token(suite)
	return v, err
}

// permitToken returns a Forbidden error when the caller wants to see a token and does not have the permission.
func permitToken(r *route.Request, wanted bool) error {
	if wanted && !r.Member.Can(identity.ViewSuiteTokens, r.Org) {
		return core.Errorf(core.Forbidden, "Forbidden: show_api_token needs the permission %s", identity.ViewSuiteTokens)
	}
	return nil
}

// wantsToken returns the query parameter show_api_token, or an error when the caller does not have the permission.
func wantsToken(r *route.Request) (bool, error) {
	wanted, err := r.Flag(ShowTokenParam.Name, false)
	if err != nil {
		return false, err
	}
	return wanted, permitToken(r, wanted)
}

func (s *Service) listSuites(r *route.Request) (route.Paged[SuiteView], error) {
	return s.Views(r, func(page route.Page) ([]*Suite, int, error) { return s.List(r.Context(), ViewerOf(r), page) })
}

func (s *Service) getSuite(r *route.Request, suite *Suite) (SuiteView, error) {
	token, err := wantsToken(r)
	if err != nil {
		return SuiteView{}, err
	}
	return s.viewWith(r, suite, token)
}

// suiteFields are the fields that creating and updating a suite both take.
type suiteFields struct {
	Name            route.Opt[string]         `json:"name"`
	DefaultBranch   route.Opt[string]         `json:"default_branch" doc:"The branch whose trends are shown. Results of all branches are collected."`
	ApplicationName route.Opt[string]         `json:"application_name"`
	Color           route.Opt[string]         `json:"color" doc:"In hex, such as #A9CCE3 or #abc."`
	Emoji           route.Opt[string]         `json:"emoji" doc:"An emoji, or the name of one between colons."`
	Policy          route.Opt[PolicyDocument] `json:"oidc_policy" doc:"Which OpenID Connect tokens can upload results: YAML or an array of statements. Null removes the policy."`
	ShowToken       route.Opt[bool]           `json:"show_api_token" doc:"Whether to show the API token, which needs the permission view_suite_tokens."`
}

// check adds what is wrong with the policy that was sent.
func (f *suiteFields) check(problems *core.Problems) {
	if _, err := f.Policy.Value.Parse(); err != nil {
		problems.Add("oidc_policy", "%s", err)
	}
}

// merge writes what was sent to a suite. Null clears a field.
func (f *suiteFields) merge(s *Suite) {
	for _, field := range []struct {
		sent route.Opt[string]
		dst  *string
	}{{f.Name, &s.Name}, {f.DefaultBranch, &s.DefaultBranch}, {f.ApplicationName, &s.ApplicationName}, {f.Color, &s.Color}, {f.Emoji, &s.Emoji}} {
		if field.sent.Set {
			*field.dst = strings.TrimSpace(field.sent.Value)
		}
	}
	f.Policy.To(&s.Policy)
	if s.Policy.blank() {
		s.Policy = ""
	}
}

type suiteCreate struct {
	suiteFields
	TeamIDs  route.Opt[[]string] `json:"team_ids" doc:"The teams that get access to the suite. Required when the organization has teams enabled."`
	TeamsIDs route.Opt[[]string] `json:"teams_ids" doc:"Another spelling of team_ids."`
}

// maxTeams bounds the teams that a request names.
const maxTeams = 250

// teams returns the ids of the teams that the request names, in either spelling, each once.
func (c *suiteCreate) teams(v Viewer, problems *core.Problems) []string {
	var ids []string
	named := slices.Concat(c.TeamIDs.Value, c.TeamsIDs.Value)
	if len(named) > maxTeams {
		problems.Add("team_ids", "must be at most %d teams", maxTeams)
		return nil
	}
	valid := true
	for _, name := range named {
		id, ok := core.ParseID(name)
		switch {
		case !ok:
			problems.Add("team_ids", "must be UUIDs of teams; %.50q is not a UUID", name)
			valid = false
		case !slices.Contains(ids, id):
			ids = append(ids, id)
		}
	}
	switch {
	case !valid || !v.Org.Features.Teams:
	case len(ids) == 0:
		problems.Add("team_ids", "is required, because the organization has teams enabled")
	case !v.editsAll() && !v.createsFor(ids):
		problems.Add("team_ids", "must have at least one team that you belong to and whose members can create suites")
	}
	return ids
}

func (s *Service) createSuite(r *route.Request, body suiteCreate) (SuiteView, error) {
	if err := permitToken(r, body.ShowToken.Value); err != nil {
		return SuiteView{}, err
	}
	suite, err := s.create(r.Context(), ViewerOf(r), &body)
	if err != nil {
		return SuiteView{}, err
	}
	return s.viewWith(r, suite, body.ShowToken.Value)
}

func (s *Service) updateSuite(r *route.Request, suite *Suite, body suiteFields) (SuiteView, error) {
	if err := permitToken(r, body.ShowToken.Value); err != nil {
		return SuiteView{}, err
	}
	suite, err := s.update(r.Context(), ViewerOf(r), suite.ID, &body)
	if err != nil {
		return SuiteView{}, err
	}
	return s.viewWith(r, suite, body.ShowToken.Value)
}

func (s *Service) deleteSuite(r *route.Request, suite *Suite) (route.Nothing, error) {
	return route.Nothing{}, s.delete(r.Context(), suite)
}
