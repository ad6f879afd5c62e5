package notifications

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
)

// Settings are the settings of a receiver by name, as canonical JSON. Settings without a value are absent.
type Settings map[string]json.RawMessage

// Decode reads the settings into the struct that dst points to, such as a WebhookSettings.
func (s Settings) Decode(dst any) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, dst)
}

// equal reports whether both have the same values.
func (s Settings) equal(other Settings) bool {
	return maps.EqualFunc(s, other, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// without returns the settings that are available with these features.
func (s Settings) without(p *Provider, f identity.Features) Settings {
	kept := maps.Clone(s)
	for _, setting := range p.Settings {
		if !setting.available(f) {
			delete(kept, setting.Name)
		}
	}
	return kept
}

// maxUnknown limits the unknown names in one error.
const maxUnknown = 20

// create returns the settings of a new receiver and adds problems with the request.
func (p *Provider) create(sent map[string]json.RawMessage, f identity.Features, problems *core.Problems) Settings {
	s := p.merge(&Receiver{Provider: p}, Settings{}, sent, f, problems)
	p.fill(s)
	p.checkRequired(s, problems)
	return s
}

// fill adds the defaults of absent settings.
func (p *Provider) fill(s Settings) {
	for _, setting := range p.Settings {
		if s[setting.Name] == nil && setting.Default != nil {
			s[setting.Name] = canonical(setting.Default())
		}
	}
}

// merge returns the stored settings with the changes of a request, and adds problems with the request. Settings that
// are not sent stay unchanged, and null restores the default. An unchanged value is always accepted, also for settings
// that cannot be changed; the mask of a secret counts as unchanged.
func (p *Provider) merge(r *Receiver, stored Settings, sent map[string]json.RawMessage, f identity.Features, problems *core.Problems) Settings {
	p.checkNames(sent, f, problems)
	merged := maps.Clone(stored)
	for i := range p.Settings {
		setting := &p.Settings[i]
		raw, ok := sent[setting.Name]
		if !ok || !setting.available(f) {
			continue
		}
		value, broken := setting.next(r, stored[setting.Name], raw)
		switch {
		case broken != "":
			problems.Add("settings."+setting.Name, "%s", broken)
		case value == nil:
			delete(merged, setting.Name)
		default:
			merged[setting.Name] = value
		}
	}
	return merged
}

// checkNames adds problems with unknown and unavailable settings.
func (p *Provider) checkNames(sent map[string]json.RawMessage, f identity.Features, problems *core.Problems) {
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		setting := p.setting(name)
		switch {
		case setting == nil && unknown < maxUnknown:
			unknown++
			problems.Add("settings."+core.Cut(name, 100), "is not a setting of %s", p.ID)
		case setting != nil && !setting.available(f):
			problems.Add("settings."+name, "is not available to this organization")
		}
	}
}

// next returns the new value of a setting, nil for none, or the rule that the sent value breaks.
func (s *Setting) next(r *Receiver, stored, sent json.RawMessage) (next json.RawMessage, broken string) {
	switch {
	case s.Show == Masked && stored != nil && bytes.Equal(sent, canonical(maskOf(stored))):
		return stored, ""
	case string(sent) != "null":
		value, broken := s.Kind.read(sent)
		if broken != "" {
			return nil, broken
		}
		next = canonical(value)
	case s.Default != nil:
		next = canonical(s.Default())
	}
	switch {
	case bytes.Equal(next, stored):
		return stored, ""
	case s.Managed:
		return nil, "cannot be changed; it is set when the service is connected through the web interface"
	case next == nil && s.Required:
		return nil, "is required"
	case stored != nil && s.CreateOnly:
		return nil, "cannot be changed; create another notification service instead"
	case stored != nil && s.change != nil:
		return next, s.change(r, stored, next)
	}
	return next, ""
}

// checkRequired adds problems with missing required settings, unless they have problems already.
func (p *Provider) checkRequired(s Settings, problems *core.Problems) {
	for _, setting := range p.Settings {
		field := "settings." + setting.Name
		noted := slices.ContainsFunc(*problems, func(e core.FieldError) bool { return e.Field == field })
		if setting.Required && s[setting.Name] == nil && !noted {
			problems.Add(field, "is required")
		}
	}
}

// view returns the settings as responses show them.
func (p *Provider) view(s Settings, f identity.Features) map[string]any {
	shown := make(map[string]any)
	for _, setting := range p.Settings {
		value := s[setting.Name]
		switch {
		case setting.Show == Omitted, !setting.available(f), setting.Managed && value == nil:
		case value == nil:
			shown[setting.Name] = nil
		case setting.Show == Masked:
			shown[setting.Name] = maskOf(value)
		default:
			shown[setting.Name] = value
		}
	}
	return shown
}

// Facts returns the visible managed settings by label.
func (p *Provider) Facts(s Settings) map[string]string {
	facts := make(map[string]string)
	for _, setting := range p.Settings {
		if value := s[setting.Name]; setting.Managed && setting.Show == Full && value != nil {
			facts[label(setting.Name)] = formValues(setting.Kind, value)[0]
		}
	}
	return facts
}

const (
	// masking is the prefix of every masked value. It does not depend on the length of the secret.
	masking = "********"
	// maxUnmasked limits the characters of a secret that are shown.
	maxUnmasked = 4
)

// maskOf returns the mask of a secret: masking and the last characters, at most four and at most a third of them.
func maskOf(value json.RawMessage) string {
	var secret string
	if json.Unmarshal(value, &secret) != nil {
		return masking
	}
	runes := []rune(secret)
	return masking + string(runes[len(runes)-min(maxUnmasked, len(runes)/3):])
}

// canonical returns the JSON of a value. Equal values have equal JSON.
func canonical(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("notifications: a setting cannot be encoded: %v", err)) // kinds return texts, numbers, lists and maps
	}
	return text
}
