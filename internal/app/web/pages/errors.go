package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/message"
)

// An errorPage is the data of the error page.
type errorPage struct {
	Status  int
	Message string
	Hint    string    // what to do
	Near    []NavLink // what the visitor may have meant
	Links   []NavLink // where to go
}

// errorTitles are the titles of error pages.
var errorTitles = map[int]string{
	http.StatusBadRequest:            "Bad request",
	http.StatusMethodNotAllowed:      "Method not allowed",
	http.StatusForbidden:             "Access denied",
	http.StatusNotFound:              "Page not found",
	http.StatusGone:                  "No longer available",
	http.StatusRequestEntityTooLarge: "Form too large",
	http.StatusUnprocessableEntity:   "Not done",
	http.StatusConflict:              "Not done",
	http.StatusTooManyRequests:       "Too many attempts",
	http.StatusInternalServerError:   "Something went wrong",
	http.StatusServiceUnavailable:    "Temporarily unavailable",
}

// ErrorPage shows an error that no page can explain further.
func (s *Site) ErrorPage(w http.ResponseWriter, status int, message string) {
	SetHeaders(w.Header())
	page := errorPage{Status: status, Message: message, Links: []NavLink{{Path: "/", Title: "Go home", Icon: "house"}}}
	if status == http.StatusInternalServerError {
		page.Hint = "Try again. If it happens again, send the request id to whoever runs this server."
	}
	if err := s.templates.write(w, status, "error", errorView(page)); err != nil {
		s.Log.Error("render error page failed", "error", err)
	}
}

func errorView(page errorPage) View {
	return View{Title: cmp.Or(errorTitles[page.Status], http.StatusText(page.Status)), Focused: true, Page: page}
}

// explained are the statuses of errors that get a page with more than a sentence.
var explained = map[core.Kind]int{
	core.NotFound: http.StatusNotFound, core.Forbidden: http.StatusForbidden, core.TooLarge: http.StatusRequestEntityTooLarge,
}

// explain shows the error page of an error that a signed-in visitor can do something about, and returns other errors.
// It shows nothing of what the visitor cannot see: something of another organization looks like something that does
// not exist.
func (v *Visit) explain(err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || explained[e.Kind] == 0 || v.Session == nil || !strings.Contains(v.Header.Get("Accept"), "text/html") {
		return err
	}
	page := errorPage{Status: explained[e.Kind], Message: e.Message}
	member := v.Org != nil && v.Member != nil
	if member {
		page.Links = append(page.Links, NavLink{Path: "/" + v.Org.Slug, Title: "Pipelines of " + v.Org.Name, Icon: "stack"})
	}
	page.Links = append(page.Links, NavLink{Path: "/", Title: "Go home", Icon: "house"})
	switch e.Kind {
	case core.NotFound:
		page.Near = v.near()
		search := NavLink{Path: "/organizations/search", Title: "Search", Icon: "search"}
		if member {
			search.Path = v.Place("search")
		}
		page.Links = slices.Insert(page.Links, 0, search)
	case core.Forbidden:
		if member {
			page.Hint = v.whoGrants()
		}
	case core.TooLarge:
		page.Hint = fmt.Sprintf("A form can have up to %s. Go back, shorten what you entered and send it again, or use the API or the command line.", Size(route.MaxForm))
	}
	SetHeaders(v.W.Header())
	return v.Site.templates.write(v.W, page.Status, "error", errorView(page))
}

// maxNear limits the pipelines among which a similar name is looked for.
const maxNear = 100

// near returns pages of similar names: of a pipeline of the visitor's organization, or of an organization.
func (v *Visit) near() []NavLink {
	if v.Org != nil && v.Member != nil {
		name := v.PathValue("pipeline")
		var list []struct{ Name, Slug string }
		if _, err := v.Call("GET", v.API("pipelines")+fmt.Sprintf("?per_page=%d", maxNear), nil, &list); err != nil || name == "" {
			return nil
		}
		slugs := make([]string, len(list))
		for i, p := range list {
			slugs[i] = p.Slug
		}
		if i := slices.Index(slugs, message.Nearest(name, slugs)); i >= 0 && slugs[i] != name {
			return []NavLink{{Path: core.PublicURL("").To(v.Org.Slug, slugs[i]), Title: list[i].Name}}
		}
		return nil
	}
	orgs, err := v.Organizations()
	if err != nil {
		return nil
	}
	slugs := make([]string, len(orgs))
	for i, o := range orgs {
		slugs[i] = o.Slug
	}
	if i := slices.Index(slugs, message.Nearest(v.PathValue("org"), slugs)); i >= 0 {
		return []NavLink{{Path: "/" + orgs[i].Slug, Title: orgs[i].Name}}
	}
	return nil
}

// whoGrants says who can give the visitor access.
func (v *Visit) whoGrants() string {
	var members []struct {
		Name string        `json:"name"`
		Role identity.Role `json:"role"`
	}
	if _, err := v.Call("GET", v.API("members")+"?per_page=100", nil, &members); err != nil {
		return "Ask an administrator of " + v.Org.Name + " for access."
	}
	var names []string
	for _, m := range members {
		if m.Role == identity.Admin && len(names) < 3 {
			names = append(names, m.Name)
		}
	}
	return strings.TrimSuffix("An administrator of "+v.Org.Name+" can give you access: "+strings.Join(names, ", "), ": ") + "."
}

// ReadForm reads the fields of the submitted form. Forms of signed-in visitors can be large: pipelines and templates
// are long.
func (v *Visit) ReadForm() (url.Values, error) {
	if v.Session == nil {
		return v.Request.ReadForm()
	}
	return v.Request.ReadLargeForm()
}

// expired redirects a visitor whose session has ended to the sign-in page and then back to the page of the form. A
// submitted form is lost, so that it does not run for the next user who signs in.
func (v *Visit) expired() error {
	back := "/"
	if v.Method == http.MethodGet {
		back = v.URL.RequestURI()
	} else if from, err := url.Parse(v.Header.Get("Referer")); err == nil && from.Host == v.Host {
		back = LocalPath("/" + strings.TrimPrefix(strings.TrimPrefix(from.RequestURI(), v.Site.Prefix), "/"))
	}
	if v.Method != http.MethodGet && v.CookieValue(v.Site.Cookies.Session) != "" {
		v.Site.Cookies.setFlash(v.W, flashRefused+"Your session has expired. Sign in again; what you sent was not saved.")
	}
	return v.Redirect("/login?" + url.Values{"return_to": {back}}.Encode())
}
