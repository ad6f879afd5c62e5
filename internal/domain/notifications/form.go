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

// An Input is a field of a form for one setting.
type Input struct {
	Name     string // of the form's field
	Label    string
	Hint     string
	Type     InputType
	Value    string        // of inputs for one text
	On       bool          // of a checkbox
	Options  []InputOption // of inputs that offer a choice
	Required bool
	Fixed    bool // it is shown and cannot be changed
	Kept     bool // there is a value that is not shown, and that an empty field keeps
}

// An InputOption is one of those that an input offers.
type InputOption struct {
	Value  string
	Chosen bool
}

// InputType is how a setting is entered.
type InputType string

// The types of inputs.
const (
	InputText     InputType = "text"
	InputURL      InputType = "url"
	InputCheckbox InputType = "checkbox"
	InputSelect   InputType = "select"
	InputChecks   InputType = "checks" // any number of options
	InputLines    InputType = "lines"  // a pair on each line
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

// options returns what a kind offers to choose from.
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

// formPrefix begins the names of the form's fields for settings, as it begins the fields that errors name.
const formPrefix = "settings."

// Inputs returns the fields of a form for the settings of a receiver, or of a new one, which is nil. Settings that came
// from the provider have none.
func (p *Provider) Inputs(f identity.Features, r *Receiver, settings Settings) []Input {
	if r == nil {
		settings = Settings{}
		p.fill(settings)
		delete(settings, "token") // it is generated when the form is sent
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

// editable reports whether people can enter the setting.
func (s *Setting) editable(f identity.Features, r *Receiver) bool {
	connectedURL := r != nil && r.Connected && s.Show == Omitted
	return !s.Managed && !connectedURL && s.available(f)
}

// label returns the name of a setting as people read it.
func label(name string) string {
	words := strings.ReplaceAll(name, "_", " ")
	for _, acronym := range []string{"url", "api", "id", "tls"} {
		words = strings.ReplaceAll(" "+words+" ", " "+acronym+" ", " "+strings.ToUpper(acronym)+" ")
		words = strings.TrimSpace(words)
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

// set shows values in the input.
func (in *Input) set(values []string) {
	in.Value = strings.Join(values, "\n")
	in.On = slices.Contains(values, "true")
	for i := range in.Options {
		in.Options[i].Chosen = slices.Contains(values, in.Options[i].Value)
	}
}

// Entered shows what somebody has entered into the inputs, to be corrected.
func Entered(inputs []Input, form url.Values) []Input {
	for i := range inputs {
		in := &inputs[i]
		if values, ok := form[in.Name]; ok || in.Type == InputCheckbox || in.Type == InputChecks {
			in.set(values)
		}
	}
	return inputs
}

// formValues returns the values of a form's field for a setting.
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

// FromForm returns the settings that a form says about a receiver, or about a new one, which is nil. An empty field is
// the default, or, where the value is not shown, keeps it.
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
		case empty && r != nil && s.Show != Full: // it stays
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

// pairsOf reads a pair from each line: a name, a colon and a value.
func pairsOf(text string) json.RawMessage {
	values := make(map[string]string)
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return canonical(text) // which is refused with the rule
		}
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return canonical(values)
}

// jsonOf returns a text as the kind reads it: numbers, lists and objects as they are written, everything else as a text.
func jsonOf(k kind, text string) json.RawMessage {
	_, number := k.(integer)
	_, structured := k.(either)
	raw := []byte(text)
	if (number || structured && bytes.ContainsAny(raw[:1], "[{")) && json.Valid(raw) {
		return raw
	}
	return canonical(text)
}
