package pages

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/rules/definition"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages by file name, each with the layout and the shared parts. A page is parsed when it is
// first shown, so that servers start faster.
type templates map[string]func() *template.Template

// AddTemplates adds the pages of a package, with functions for its templates besides those of all pages. It panics
// if the name of a template is taken.
func (s *Site) AddTemplates(files fs.FS, functions template.FuncMap) {
	shared := sync.OnceValue(func() *template.Template {
		return template.Must(template.New("layout.html").Funcs(s.functions()).Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	})
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if s.templates[name] != nil {
			panic("pages: two templates named " + name)
		}
		s.templates[name] = sync.OnceValue(func() *template.Template {
			return template.Must(template.Must(shared().Clone()).ParseFS(files, file))
		})
	}
}

// ParseTemplates parses all pages now. It panics if one is invalid.
func (s *Site) ParseTemplates() {
	for _, parse := range s.templates {
		parse()
	}
}

// Part renders one element of a page, which its template defines.
func (s *Site) Part(w io.Writer, page, name string, data any) error {
	return s.templates[page]().ExecuteTemplate(w, name, data)
}

// editorKeys returns the keys that the editor of steps offers, as JSON.
var editorKeys = sync.OnceValues(func() (string, error) {
	text, err := json.Marshal(definition.Keys())
	return string(text), err
})

// functions returns the functions of all templates.
func (s *Site) functions() template.FuncMap {
	return template.FuncMap{
		"path":    func(p string) string { return s.Prefix + p },
		"asset":   func(name string) string { return s.Prefix + AssetPath(name) },
		"icon":    Icon,
		"when":    s.when,
		"browser": browserName,
		"invalid": Problems.invalid,
		"problem": Problems.problem,
		"label":   func(text string) template.HTML { return template.HTML(markdown.Label(text)) },
		"emoji":   markdown.Emoji,
		"html":    func(safe string) template.HTML { return template.HTML(safe) },
		"ran":     s.ran,
		"clock":   clock,
		"size":    Size,
		"length":  Length,

		"editorKeys": editorKeys,

		"formField": func(f Form, field Field) shownField { return shownField{field, f} },
	}
}

// A View is the data of the layout. Page is the data of the page's template.
type View struct {
	Title   string
	Section string // active link of the navigation
	Icon    string // asset of the icon; "": the icon of the site
	Person  *identity.User
	// Settings are the links to the settings pages, if this is one of them.
	Settings []NavLink
	// Beside are the links beside the page, with the same section for the active one; Settings if nil.
	Beside      []NavLink
	BesideLabel string
	// Places are the links of the organization that the page belongs to, if the visitor is a member.
	Places []NavLink
	Org    *identity.Organization // nil: none
	// Live is the path of the stream of changes of the page's parts; "": the page does not change.
	Live string
	// Search is the path of the search for the command palette; "": the page has no script.
	Search string
	Flash  string
	// Refusal says why what the visitor did before was not done.
	Refusal string
	// Focused pages have a single purpose and no navigation except the link home.
	Focused bool
	Page    any
}

// Show writes a page: a template's "main" in the layout.
func (v *Visit) Show(status int, name string, page View) error {
	if v.Session != nil {
		user := v.User()
		page.Person = &user
		if page.Beside == nil {
			page.Settings = v.settingsBeside(page.Section)
		}
	}
	if page.Beside == nil {
		page.Beside, page.BesideLabel = page.Settings, "Settings"
	}
	if v.Org != nil && v.Member != nil && !page.Focused {
		page.Org, page.Places = v.Org, v.places()
	}
	page.Search, page.Live = v.searchPath(page), v.Live
	if page.Search != "" || page.Live != "" {
		allowScript(v.W.Header())
	}
	page.Flash, page.Refusal = v.takeFlash()
	return v.Site.templates.write(v.W, status, name, page)
}

// searchPath returns the path of the search for a page. Focused pages, on which people sign in and approve things,
// have none.
func (v *Visit) searchPath(page View) string {
	switch {
	case page.Focused:
		return ""
	case v.Org != nil:
		return v.Place("search")
	case v.Session != nil:
		return "/organizations/search"
	}
	return ""
}

// write writes a page after it was rendered completely.
func (t templates) write(w http.ResponseWriter, status int, name string, page View) error {
	var text bytes.Buffer
	if err := t[name]().ExecuteTemplate(&text, "layout.html", page); err != nil {
		return err
	}
	content := text.Bytes()
	if page.Live != "" {
		content = bytes.Replace(content, []byte(`data-seen=""`), []byte(`data-seen="`+PartsOf(content).Version()+`"`), 1)
	}
	w.WriteHeader(status)
	_, err := w.Write(content)
	return err
}

// Problems maps the fields of a form to what is wrong with them; "" is for the whole form.
type Problems map[string]string

// ProblemsOf returns the Problems of a form in an error; ok is false for other errors.
func ProblemsOf(err error) (p Problems, ok bool) {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Unprocessable {
		return nil, false
	}
	p = make(Problems)
	for _, f := range e.Fields {
		if before := p[f.Field]; before != "" {
			p[f.Field] = before + "; " + f.Code
		} else {
			p[f.Field] = f.Code
		}
	}
	if len(e.Fields) == 0 {
		p[""] = e.Message
	}
	return p, true
}

// invalid marks an invalid field for screen readers.
func (p Problems) invalid(field string) template.HTMLAttr {
	if p[field] == "" {
		return ""
	}
	return template.HTMLAttr(`aria-invalid="true" aria-describedby="` + field + `-problem"`)
}

// problem returns what is wrong with a field, beginning with its label.
func (p Problems) problem(field, label string) template.HTML {
	if p[field] == "" {
		return ""
	}
	return template.HTML(`<p class="problem" id="` + field + `-problem">` + template.HTMLEscapeString(label+" "+p[field]) + `</p>`)
}
