package notifications

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/platform/identity"
)

// An Input is a form field for one setting.
type Input struct {
	Name     string
	Label    string
	Hint     string
	Type     InputType
	Value    string        // text
	On       bool          // checkbox
	Options  []InputOption // select, checks
	Required bool
	Fixed    bool // read-only
	Kept     bool // has a stored value that is not shown; an empty field keeps it
}

// An InputOption is an option of an input.
type InputOption struct {
	Value  string
	Chosen bool
}

// InputType is the type of a form field.
type InputType string

// The types of inputs.
const (
	InputText     InputType = "text"
	InputURL      InputType = "url"
	InputCheckbox InputType = "checkbox"
	InputSelect   InputType = "select"
	InputChecks   InputType = "checks" // several checkboxes
	InputLines    InputType = "lines"  // one "name: value" per line
)

func inputType(k kind) InputType {
	switch k.(type) {
	case address:
		return InputURL
	case flag:
		return InputCheckbox
	case choice, integer:
		return InputSelect
	case names:
		return InputChecks
	case pairs:
		return InputLines
	default:
		return InputText
	}
}

// options returns the possible values of a kind, if they are limited.
func options(k kind) []string {
	switch k := k.(type) {
	case choice:
		return k
	case names:
		return k
	case integer:
		var list []string
		for n := k.min; n <= k.max; n++ {
			list = append(list, strconv.Itoa(n))
		}
		return list
	default:
		return nil
	}
}

// formPrefix is the prefix of field names, the same as in validation errors.
const formPrefix = "settings."

// Inputs returns the form fields for the editable settings of a receiver; nil: a new one.
func (p *Provider) Inputs(f identity.Features, r *Receiver, settings Settings) []Input {
	if r == nil {
		settings = Settings{}
		p.fill(settings)
		delete(settings, "token") // generated on submit
	}
	var inputs []Input
	for _, s := range p.Settings {
		if !s.editable(f, r) {
			continue
		}
		value := settings[s.Name]
		in := Input{Name: formPrefix + s.Name, Label: label(s.Name), Hint: s.Doc, Type: inputType(s.Kind)}
		in.Required = s.Required && (r == nil || s.Show != Omitted)
		in.Fixed = r != nil && s.CreateOnly
		for _, option := range options(s.Kind) {
			in.Options = append(in.Options, InputOption{Value: option})
		}
		switch {
		case s.Show == Omitted && value != nil && r != nil:
			in.Kept = true
		case s.Show == Masked && value != nil:
			in.set([]string{maskOf(value)})
		default:
			in.set(formValues(s.Kind, value))
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// editable reports whether a form has a field for the setting.
func (s *Setting) editable(f identity.Features, r *Receiver) bool {
	connectedURL := r != nil && r.Connected && s.Show == Omitted
	return !s.Managed && !connectedURL && s.available(f)
}

// label returns the display name of a setting.
func label(name string) string {
	words := strings.ReplaceAll(name, "_", " ")
	for _, acronym := range []string{"url", "api", "id", "tls"} {
		words = strings.ReplaceAll(" "+words+" ", " "+acronym+" ", " "+strings.ToUpper(acronym)+" ")
		words = strings.TrimSpace(words)
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

// set sets the value of the input.
func (in *Input) set(values []string) {
	in.Value = strings.Join(values, "\n")
	in.On = slices.Contains(values, "true")
	for i := range in.Options {
		in.Options[i].Chosen = slices.Contains(values, in.Options[i].Value)
	}
}

// Entered sets the inputs to the submitted values.
func Entered(inputs []Input, form url.Values) []Input {
	for i := range inputs {
		in := &inputs[i]
		if values, ok := form[in.Name]; ok || in.Type == InputCheckbox || in.Type == InputChecks {
			in.set(values)
		}
	}
	return inputs
}

// formValues returns the form values of a setting.
func formValues(k kind, value json.RawMessage) []string {
	if value == nil {
		return nil
	}
	switch inputType(k) {
	case InputChecks:
		var list []string
		_ = json.Unmarshal(value, &list)
		return list
	case InputLines:
		var values map[string]string
		_ = json.Unmarshal(value, &values)
		var lines []string
		for _, key := range slices.Sorted(maps.Keys(values)) {
			lines = append(lines, key+": "+values[key])
		}
		return lines
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []string{text}
	}
	return []string{string(value)}
}

// FromForm returns the settings of a submitted form for a receiver; nil: a new one. An empty field restores the default,
// or keeps the stored value if that is not shown.
func (p *Provider) FromForm(f identity.Features, r *Receiver, form url.Values) map[string]json.RawMessage {
	sent := make(map[string]json.RawMessage)
	for _, s := range p.Settings {
		if !s.editable(f, r) {
			continue
		}
		values := form[formPrefix+s.Name]
		empty := strings.TrimSpace(strings.Join(values, "")) == ""
		switch in := inputType(s.Kind); {
		case in == InputCheckbox:
			sent[s.Name] = canonical(slices.Contains(values, "true"))
		case in == InputChecks:
			sent[s.Name] = canonical(append([]string{}, values...))
		case empty && r != nil && s.Show != Full: // keep
		case empty && s.Required:
			sent[s.Name] = canonical("")
		case empty:
			sent[s.Name] = json.RawMessage("null")
		case in == InputLines:
			sent[s.Name] = pairsOf(values[0])
		default:
			sent[s.Name] = jsonOf(s.Kind, strings.TrimSpace(values[0]))
		}
	}
	return sent
}

// pairsOf parses lines of "name: value".
func pairsOf(text string) json.RawMessage {
	values := make(map[string]string)
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return canonical(text) // rejected by the kind
		}
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return canonical(values)
}

// jsonOf returns form text as JSON for a kind.
func jsonOf(k kind, text string) json.RawMessage {
	_, number := k.(integer)
	_, structured := k.(either)
	raw := []byte(text)
	if (number || structured && bytes.ContainsAny(raw[:1], "[{")) && json.Valid(raw) {
		return raw
	}
	return canonical(text)
}
