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

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by the name of their file, each together with the layout and the parts.
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

// functions are what templates can call besides what html/template has.
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

		"eventWords": func(what string) string { return eventWords[what] },
	}
}

// A view is what the layout needs to know. Page is for the template of the page itself.
type view struct {
	Title   string
	Section string // which link of the navigation leads here
	Person  *identity.User
	// Settings are the pages beside this one, when it is one of them.
	Settings []place
	Flash    string
	// Focused pages ask one thing: they have no navigation but the way home.
	Focused bool
	Page    any
}

// show writes a page. One of the templates' "main" is put into the layout.
func (v *visit) show(status int, name string, page view) error {
	if v.session != nil {
		user := v.user()
		page.Person = &user
		page.Settings = v.settingsBeside(page.Section)
	}
	page.Flash = v.takeFlash()
	return v.site.templates.write(v.w, status, name, page)
}

// write writes a page when the whole of it could be made.
func (t templates) write(w http.ResponseWriter, status int, name string, page view) error {
	var text bytes.Buffer
	if err := t[name].ExecuteTemplate(&text, "layout.html", page); err != nil {
		return err
	}
	w.WriteHeader(status)
	_, err := text.WriteTo(w)
	return err
}

// problems says what is wrong with the fields of a form, by the name of the field; "" is for what is
// wrong with all of it.
type problems map[string]string

// problemsOf returns what an error says about a form, to be shown with it; ok is false for errors that
// are not about what was entered.
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

// invalid marks a field that broke a rule for programs that read the page to people.
func (p problems) invalid(field string) template.HTMLAttr {
	if p[field] == "" {
		return ""
	}
	return template.HTMLAttr(`aria-invalid="true" aria-describedby="` + field + `-problem"`)
}

// problem says what is wrong with a field, beginning with its label.
func (p problems) problem(field, label string) template.HTML {
	if p[field] == "" {
		return ""
	}
	return template.HTML(`<p class="problem" id="` + field + `-problem">` + template.HTMLEscapeString(label+" "+p[field]) + `</p>`)
}

// ErrorPage tells a person why there is no page.
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

// errorTitles say in a few words what happened.
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
