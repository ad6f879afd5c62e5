package pages

import (
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
)

// A Form is a form as data: the template "form" shows it, and Body returns what was entered as the body of a
// request to the API, whose field names it uses.
type Form struct {
	ID       string // of the form, unique on its page; ids of fields begin with it
	Action   string // path
	Submit   string // text of the button
	Danger   bool   // the button destroys something
	Fields   []Field
	Problems Problems
}

// The kinds of fields.
const (
	TextField     = ""
	AreaField     = "area"
	CodeField     = "code" // an area with a fixed-width font
	NumberField   = "number"
	PasswordField = "password"
	CheckField    = "check"
	SelectField   = "select"
	LinesField    = "lines" // an area with one value on each line
	HiddenField   = "hidden"
	PickField     = "pick" // a text with suggestions; a Picker finds what was entered
)

// A Field is a field of a form.
type Field struct {
	Name, Label, Hint, Placeholder string
	Kind                           string
	Value                          string
	Checked                        bool
	Required                       bool
	Null                           bool // send null instead of an empty text
	Options                        []Option
	// Suggest is the path of suggestions for what is being typed into a PickField; "": Options are all.
	Suggest string
}

// An Option is an option of a SelectField, or a suggestion of a PickField.
type Option struct {
	Value string `json:"value"`
	Text  string `json:"text"`
}

// Problem returns what is wrong with a field, beginning with its label.
func (f Form) Problem(field Field) string {
	if f.Problems[field.Name] == "" {
		return ""
	}
	return field.Label + " " + f.Problems[field.Name]
}

// Unplaced returns the problems that belong to no visible field.
func (f Form) Unplaced() (texts []string) {
	for name, text := range f.Problems {
		if i := slices.IndexFunc(f.Fields, func(field Field) bool { return field.Name == name && field.Kind != HiddenField }); i < 0 {
			texts = append(texts, strings.TrimSpace(name+" "+text))
		}
	}
	slices.Sort(texts)
	return texts
}

// Entered returns the form with what was entered and what is wrong with it. Passwords are not shown again.
func (f Form) Entered(values url.Values, wrong Problems) Form {
	f.Fields = slices.Clone(f.Fields)
	for i := range f.Fields {
		field := &f.Fields[i]
		switch field.Kind {
		case CheckField:
			field.Checked = values.Get(field.Name) != ""
		case PasswordField, HiddenField:
		default:
			field.Value = values.Get(field.Name)
		}
	}
	f.Problems = wrong
	return f
}

// Body returns what was entered as a JSON object.
func (f Form) Body(values url.Values) map[string]any {
	body := map[string]any{}
	for _, field := range f.Fields {
		text := strings.ReplaceAll(values.Get(field.Name), "\r\n", "\n")
		switch {
		case field.Kind == CheckField:
			body[field.Name] = text != ""
		case field.Kind == LinesField:
			body[field.Name] = strings.Fields(text)
		case field.Null && strings.TrimSpace(text) == "":
			body[field.Name] = nil
		case field.Kind == NumberField:
			body[field.Name] = number(text)
		default:
			body[field.Name] = text
		}
	}
	return body
}

// number returns a number for JSON, null for an empty text, and other texts as they are: the API refuses them.
func number(text string) any {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return json.Number(strconv.FormatInt(n, 10))
	}
	return text
}

// API returns the path of the REST API for something in the visit's organization.
func (v *Visit) API(segments ...string) string {
	return core.PublicURL("").Org(v.Org.Slug, segments...)
}

// Place returns the path of a page of the visit's organization below /organizations.
func (v *Visit) Place(segments ...string) string {
	return core.PublicURL("").To(append([]string{"organizations", v.Org.Slug}, segments...)...)
}

// Local returns the path of a URL of this site, such as a web_url.
func (v *Visit) Local(url string) string { return strings.TrimPrefix(url, string(v.Site.Public)) }

// Act sends a request to the API and redirects to a page that says so. What the API refuses because of the
// state of things is shown on that page.
func (v *Visit) Act(method, target string, body any, back, done string) error {
	return v.act(method, target, body, back, back, done)
}

// Delete deletes something with the API and redirects to the list that it was in. What the API refuses is shown on
// the thing's own page.
func (v *Visit) Delete(target, page, list, done string) error {
	return v.act("DELETE", target, nil, page, list, done)
}

func (v *Visit) act(method, target string, body any, refusedAt, doneAt, done string) error {
	_, err := v.Call(method, target, body, nil)
	if wrong, ok := ProblemsOf(err); ok {
		return v.Refused(refusedAt, wrong.Sentence())
	}
	if err != nil {
		return err
	}
	return v.Done(doneAt, done)
}

// Submit sends what was entered in a form to the API. When the API refuses a field, show is called with the
// form as it was entered; otherwise it redirects to a page.
func (v *Visit) Submit(f Form, method, target, back, done string, show func(Form) error) error {
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	return v.SubmitValues(f, values, method, target, back, done, show)
}

// SubmitValues is Submit for a form that was read before.
func (v *Visit) SubmitValues(f Form, values url.Values, method, target, back, done string, show func(Form) error) error {
	return v.Send(f, values, method, target, nil, show, func() error { return v.Done(back, done) })
}

// Send sends what was entered in a form to the API, decodes the response into a value unless that is nil, and calls
// done. When the API refuses a field, it calls show with the form as it was entered.
func (v *Visit) Send(f Form, values url.Values, method, target string, into any, show func(Form) error, done func() error) error {
	_, err := v.Call(method, target, f.Body(values), into)
	if wrong, ok := RefusedFields(err); ok {
		return show(f.Entered(values, wrong))
	}
	if err != nil {
		return err
	}
	return done()
}

// RefusedFields returns the Problems of a form in an error of the API, which says BadRequest for some of them.
func RefusedFields(err error) (Problems, bool) {
	if wrong, ok := ProblemsOf(err); ok {
		return wrong, true
	}
	if core.KindOf(err) == core.BadRequest {
		return Problems{"": err.Error()}, true
	}
	return nil, false
}

// A shownField is a field with the form that it belongs to.
type shownField struct {
	Field
	form Form
}

// ID returns the id of the element.
func (f shownField) ID() string {
	if f.form.ID == "" {
		return f.Name
	}
	return f.form.ID + "-" + f.Name
}

// Problem returns what is wrong with the field.
func (f shownField) Problem() string { return f.form.Problem(f.Field) }

// Described marks an invalid field for screen readers.
func (f shownField) Described() template.HTMLAttr {
	if f.Problem() == "" {
		return ""
	}
	return template.HTMLAttr(` aria-invalid="true" aria-describedby="` + template.HTMLEscapeString(f.ID()) + `-problem"`)
}

// A Confirm is a form that is shown after a first click, with what it will do.
type Confirm struct {
	Summary, Warning string
	Form             Form
}

// Sentence returns all problems in one text.
func (p Problems) Sentence() string { return strings.Join(Form{Problems: p}.Unplaced(), "; ") }

// A Secret is the data of the page "secret", which shows a secret once.
type Secret struct {
	Of           string // name of its owner
	Value        string
	Use          string // a command that uses it; "" for none
	Back, BackTo string
}
