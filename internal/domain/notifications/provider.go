package notifications

import (
	"encoding/json"
	"slices"
	"strings"

	"stackyard/internal/platform/identity"
)

// A Provider is one kind of receiver.
type Provider struct {
	ID   string
	Name string // for people
	// ConnectedOnly providers give their credentials to people who authorize the installation in a browser, so that
	// their receivers cannot be created over the API.
	ConnectedOnly bool
	Settings      []Setting
	// feature is what the organization must have switched on; nil: nothing.
	feature func(identity.Features) bool
	// connection returns the application with which people connect the provider, and scopes are what it asks them for;
	// nil: they cannot connect it.
	connection func(Connections) *Connection
	scopes     []string
}

// A Setting is one of a provider's settings.
type Setting struct {
	Name     string
	Doc      string
	Kind     kind
	Required bool
	// Default is what the setting is unless somebody says otherwise; nil: nothing, which is shown as null.
	Default func() any
	Show    Show
	// Managed settings come from the provider when people connect it, and are not changed over the API.
	Managed bool
	// CreateOnly settings are fixed when the receiver is created.
	CreateOnly bool
	// change says why the setting of a receiver cannot be changed from one value to another, "" when it can; nil: it
	// always can.
	change func(r *Receiver, from, to json.RawMessage) string
	// feature is what the organization must have switched on; nil: nothing.
	feature func(identity.Features) bool
}

// Show says how much of a setting is shown to those who may manage the receiver.
type Show int

// The degrees.
const (
	Full    Show = iota
	Masked       // the last characters only
	Omitted      // nothing; not even that there is something
)

// providers lists every provider, those first that can be created over the API.
var providers = []*Provider{
	webhook, chatWebhook, eventBus, pipelineVisibility, openTelemetryTracing, eventLogAPI, chatWorkspace, tracker,
}

// ProviderByID returns the provider with an id, or nil.
func ProviderByID(id string) *Provider {
	i := slices.IndexFunc(providers, func(p *Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return providers[i]
}

// creatable lists the providers that can be created over the API, for a message.
func creatable() string {
	var ids []string
	for _, p := range providers {
		if !p.ConnectedOnly {
			ids = append(ids, p.ID)
		}
	}
	return strings.Join(ids, ", ")
}

// Creatable returns the providers of which an organization can create receivers without connecting them.
func Creatable(f identity.Features) []*Provider {
	return slices.DeleteFunc(slices.Clone(providers), func(p *Provider) bool { return p.ConnectedOnly || !p.Available(f) })
}

// Available reports whether an organization can have receivers of the provider.
func (p *Provider) Available(f identity.Features) bool { return p.feature == nil || p.feature(f) }

// setting returns the setting with a name, or nil.
func (p *Provider) setting(name string) *Setting {
	i := slices.IndexFunc(p.Settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Settings[i]
}

func (s *Setting) available(f identity.Features) bool { return s.feature == nil || s.feature(f) }

// fixed returns a setting's default that is always the same.
func fixed(value any) func() any { return func() any { return value } }
