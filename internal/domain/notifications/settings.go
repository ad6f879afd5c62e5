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

// Settings are the settings of a receiver by their names, each in its kind's canonical form. Those that are nothing
// are left out.
type Settings map[string]json.RawMessage

// Decode reads the settings into the struct that dst points to, such as a WebhookSettings.
func (s Settings) Decode(dst any) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, dst)
}

// equal reports whether both hold the same.
func (s Settings) equal(other Settings) bool {
	return maps.EqualFunc(s, other, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// without returns the settings that an organization with these features has.
func (s Settings) without(p *Provider, f identity.Features) Settings {
	kept := maps.Clone(s)
	for _, setting := range p.Settings {
		if !setting.available(f) {
			delete(kept, setting.Name)
		}
	}
	return kept
}

// maxUnknown is how many unknown names one answer lists.
const maxUnknown = 20

// create returns the settings of a new receiver, and notes what is wrong with those that were sent.
func (p *Provider) create(sent map[string]json.RawMessage, f identity.Features, problems *core.Problems) Settings {
	s := p.merge(&Receiver{Provider: p}, Settings{}, sent, f, problems)
	p.fill(s)
	p.checkRequired(s, problems)
	return s
}

// fill gives settings that nobody gave their defaults.
func (p *Provider) fill(s Settings) {
	for _, setting := range p.Settings {
		if s[setting.Name] == nil && setting.Default != nil {
			s[setting.Name] = canonical(setting.Default())
		}
	}
}

// merge returns what a request makes of the settings of a receiver, and notes what is wrong with it. Settings that
// were not sent stay as they are, and null is the default. A masked value that is sent back as it was shown stays as it
// is, and so does every other value that is sent back unchanged, also where changes are refused.
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

// checkNames notes settings that the provider does not have, or the organization cannot use.
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

// next returns the value that a setting of a receiver gets, nil for nothing, or the rule that this breaks.
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

// checkRequired notes settings without which there is nothing to send to, unless something is wrong with them already.
func (p *Provider) checkRequired(s Settings, problems *core.Problems) {
	for _, setting := range p.Settings {
		field := "settings." + setting.Name
		noted := slices.ContainsFunc(*problems, func(e core.FieldError) bool { return e.Field == field })
		if setting.Required && s[setting.Name] == nil && !noted {
			problems.Add(field, "is required")
		}
	}
}

// view returns the settings as those see them who may manage the receiver.
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

// Facts returns what came from the provider when people connected it and is no secret, by its name for people.
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
	// masking begins every masked value, whatever the length of the secret.
	masking = "********"
	// maxUnmasked is how many characters of a secret are shown at most.
	maxUnmasked = 4
)

// maskOf returns a text of which only the last characters are readable: at most four, and at most a third of it.
func maskOf(value json.RawMessage) string {
	var secret string
	if json.Unmarshal(value, &secret) != nil {
		return masking
	}
	runes := []rune(secret)
	return masking + string(runes[len(runes)-min(maxUnmasked, len(runes)/3):])
}

// canonical returns a value as JSON; equal values give equal bytes.
func canonical(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("notifications: a setting cannot be encoded: %v", err)) // kinds return texts, numbers, lists and maps
	}
	return text
}
