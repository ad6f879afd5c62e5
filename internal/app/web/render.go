package web

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by file name, each with the layout and the shared parts.
type templates map[string]*template.Template

func (s *Site) parseTemplates() templates {
	shared := template.Must(template.New("layout.html").Funcs(s.functions()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	all := make(templates)
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		all[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, file))
	}
	return all
}

// functions returns the functions of templates.
func (s *Site) functions() template.FuncMap {
	return template.FuncMap{
		"path":    func(p string) string { return s.prefix + p },
		"asset":   func(name string) string { return s.prefix + assetPath(name) },
		"icon":    icon,
		"when":    s.when,
		"browser": browserName,
		"invalid": problems.invalid,
		"problem": problems.problem,
		"html":    func(safe string) template.HTML { return template.HTML(safe) },
		"ran":     s.ran,
		"clock":   clock,
		"size":    size,
		"length":  length,

		"scope":     func(scope string) string { return serviceScopes[notifications.Scope(scope)] },
		"entry":     func(in notifications.Input, wrong problems) serviceEntry { return serviceEntry{in, wrong} },
		"eventText": func(what string) string { return eventTexts[what] },
	}
}

// A view is the data of the layout. Page is the data of the page's template.
type view struct {
	Title   string
	Section string // active link of the navigation
	Person  *identity.User
	// Settings are the links to the settings pages, if this is one of them.
	Settings []navLink
	Flash    string
	// Focused pages have a single purpose and no navigation except the link home.
	Focused bool
	Page    any
}

// show writes a page: a template's "main" in the layout.
func (v *visit) show(status int, name string, page view) error {
	if v.session != nil {
		user := v.user()
		page.Person = &user
		page.Settings = v.settingsBeside(page.Section)
	}
	page.Flash = v.takeFlash()
	return v.site.templates.write(v.w, status, name, page)
}

// write writes a page after it was rendered completely.
func (t templates) write(w http.ResponseWriter, status int, name string, page view) error {
	var text bytes.Buffer
	if err := t[name].ExecuteTemplate(&text, "layout.html", page); err != nil {
		return err
	}
	w.WriteHeader(status)
	_, err := text.WriteTo(w)
	return err
}

// problems maps the fields of a form to what is wrong with them; "" is for the whole form.
type problems map[string]string

// problemsOf returns the problems of a form in an error; ok is false for other errors.
func problemsOf(err error) (p problems, ok bool) {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Unprocessable {
		return nil, false
	}
	p = make(problems)
	for _, f := range e.Fields {
		p[f.Field] = f.Code
	}
	if len(e.Fields) == 0 {
		p[""] = e.Message
	}
	return p, true
}

// invalid marks an invalid field for screen readers.
func (p problems) invalid(field string) template.HTMLAttr {
	if p[field] == "" {
		return ""
	}
	return template.HTMLAttr(`aria-invalid="true" aria-describedby="` + field + `-problem"`)
}

// problem returns what is wrong with a field, beginning with its label.
func (p problems) problem(field, label string) template.HTML {
	if p[field] == "" {
		return ""
	}
	return template.HTML(`<p class="problem" id="` + field + `-problem">` + template.HTMLEscapeString(label+" "+p[field]) + `</p>`)
}

// ErrorPage shows an error to a user.
func (s *Site) ErrorPage(w http.ResponseWriter, status int, message string) {
	setHeaders(w.Header())
	page := view{Title: errorTitles[status], Focused: true, Page: struct {
		Status  int
		Message string
	}{status, message}}
	if page.Title == "" {
		page.Title = http.StatusText(status)
	}
	if err := s.templates.write(w, status, "error", page); err != nil {
		s.Log.Error("render error page failed", "error", err)
	}
}

// errorTitles are the titles of error pages.
var errorTitles = map[int]string{
	http.StatusBadRequest:          "Bad request",
	http.StatusMethodNotAllowed:    "Method not allowed",
	http.StatusForbidden:           "Access denied",
	http.StatusNotFound:            "Page not found",
	http.StatusGone:                "No longer available",
	http.StatusTooManyRequests:     "Too many attempts",
	http.StatusInternalServerError: "Something went wrong",
	http.StatusServiceUnavailable:  "Temporarily unavailable",
}
