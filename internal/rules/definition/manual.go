package definition

import (
	"regexp/syntax"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manual holds the attributes of a block or input step.
type Manual struct {
	Prompt string
	Submit string
	// BlockedState is the state of the build while the step waits.
	BlockedState BlockedState
	// AllowedTeams are slugs or ids. If not empty, only members of these teams may unblock the step.
	AllowedTeams []string
	Fields       []Field
}

// BlockedState is the state of a build that waits for a person.
type BlockedState string

// The blocked states.
const (
	BlockedPassed  BlockedState = "passed"
	BlockedFailed  BlockedState = "failed"
	BlockedRunning BlockedState = "running"
)

// FieldKind is the kind of input of a field.
type FieldKind string

// The kinds of fields.
const (
	FieldText   FieldKind = "text"
	FieldSelect FieldKind = "select"
)

// A Field asks for a value that becomes meta-data of the build.
type Field struct {
	Kind     FieldKind
	Label    string
	Key      string
	Hint     string
	Required bool
	// Default has at most one value unless Multiple is set.
	Default []string
	// Format is a regular expression for a text field. It must match the whole value.
	Format string
	// Options and Multiple apply to select fields.
	Options  []Option
	Multiple bool
}

// An Option is a value to choose, with its label.
type Option struct{ Label, Value string }

// maxAllowedTeams is the maximum number of allowed teams.
const maxAllowedTeams = 100

// manual reads the attributes of a block or input step.
func (m *mapping) manual() *Manual {
	manual := &Manual{
		Prompt:       m.get("prompt").text(),
		Submit:       m.get("submit").text(),
		BlockedState: BlockedPassed,
	}
	if word := m.get("blocked_state").oneOf(string(BlockedPassed), string(BlockedFailed), string(BlockedRunning)); word != "" {
		manual.BlockedState = BlockedState(word)
	}
	teams := m.get("allowed_teams")
	manual.AllowedTeams = teams.texts()
	if n := len(manual.AllowedTeams); n > maxAllowedTeams {
		m.r.problem(teams.node, "allowed_teams must name at most %d teams, found %d", maxAllowedTeams, n)
	}
	for _, item := range m.get("fields").list("a list of fields") {
		if f, ok := item.field(); ok {
			manual.Fields = append(manual.Fields, f)
		}
	}
	return manual
}

// field reads a text or select field.
func (v value) field() (Field, bool) {
	v.name = "a field"
	m := v.itemMapping("a mapping with text or select, and a key")
	if m == nil {
		return Field{}, false
	}
	m.name = "field"
	text, choice := m.get("text"), m.get("select")
	if text.present() == choice.present() {
		v.r.problem(v.node, "a field must have one of the keys text and select")
		return Field{}, false
	}
	key := m.get("key")
	if key.text() == "" {
		v.r.problem(v.node, "a field must have a key, under which its value is kept")
	}
	f := Field{
		Kind:     FieldText,
		Label:    text.text(),
		Key:      key.text(),
		Hint:     m.get("hint").text(),
		Required: m.get("required").boolean(true),
		Default:  m.get("default").texts(),
	}
	if choice.present() {
		f.Kind, f.Label = FieldSelect, choice.text()
		options := m.get("options")
		if !options.set() || options.is(yaml.SequenceNode) && len(options.node.Content) == 0 {
			v.r.problem(v.node, "a select field must have options")
		}
		f.Options = options.options()
		f.Multiple = m.get("multiple").boolean(false)
	} else {
		f.Format = m.get("format").format()
	}
	if len(f.Default) > 1 && !f.Multiple {
		v.r.problem(m.key("default"), "field.default must be one value unless multiple is true, found %d", len(f.Default))
	}
	m.warnUnknown()
	return f, true
}

// format reads a regular expression.
func (v value) format() string {
	format := v.text()
	if len(format) > maxFormat {
		v.r.problem(v.node, "%s must be at most %d bytes, found %d", v.name, maxFormat, len(format))
		return ""
	}
	if v.r.formats += len(format); v.r.formats > maxFormats {
		v.r.abort(v.node, "the formats of all fields together have more than %d bytes", maxFormats)
		return ""
	}
	if v.pending() {
		return format
	}
	if _, err := syntax.Parse(format, syntax.Perl); err != nil {
		why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		v.r.problem(v.node, "%s must be a regular expression: %s", v.name, why)
		return ""
	}
	return format
}

// options reads the options of a select field.
func (v value) options() []Option {
	var options []Option
	for _, item := range v.list("a list of mappings with label and value") {
		item.name = "an option"
		m := item.itemMapping("a mapping with label and value")
		if m == nil {
			continue
		}
		label, val := m.get("label"), m.get("value")
		if !label.set() || !val.set() {
			v.r.problem(item.node, "an option must have a label and a value")
		}
		m.warnUnknown()
		options = append(options, Option{label.text(), val.text()})
	}
	return options
}
