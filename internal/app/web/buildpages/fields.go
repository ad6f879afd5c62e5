package buildpages

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/definition"
)

// A field is a field of the form that unblocks a job. Pipelines can use any key, so the form uses generated
// names.
type field struct {
	definition.Field
	ID, Name string
	Values   []string // current values
	Problem  string   // what is wrong with them, after the label
}

// fieldsOf returns the fields of a job that waits to be unblocked: with what was entered and is wrong, or with
// the defaults.
func fieldsOf(j *builds.Job, t actionError) []field {
	fields := make([]field, len(j.Work.Manual.Fields))
	for i, f := range j.Work.Manual.Fields {
		f.Label = cmp.Or(f.Label, f.Key)
		fields[i] = field{Field: f, ID: fmt.Sprintf("field-%s-%d", j.ID, i), Name: fieldName(i), Values: f.Default}
		if t.JobID == j.ID {
			fields[i].Values, fields[i].Problem = t.Values[f.Key], t.Fields["fields."+f.Key]
		}
	}
	return fields
}

func fieldName(i int) string { return fmt.Sprintf("field-%d", i) }

// entered returns the values of a form for the fields of a job, by their keys.
func entered(j *builds.Job, form url.Values) map[string][]string {
	values := make(map[string][]string)
	if j.Work.Manual == nil {
		return values
	}
	for i, f := range j.Work.Manual.Fields {
		values[f.Key] = form[fieldName(i)]
	}
	return values
}

// joined returns the values of fields as they are stored: several values of one field are lines.
func joined(values map[string][]string) map[string]string {
	texts := make(map[string]string, len(values))
	for key, list := range values {
		texts[key] = strings.Join(list, "\n")
	}
	return texts
}

// Has reports whether the field has a value.
func (f field) Has(value string) bool { return slices.Contains(f.Values, value) }

// Text returns the value of a text field.
func (f field) Text() string { return strings.Join(f.Values, "\n") }
