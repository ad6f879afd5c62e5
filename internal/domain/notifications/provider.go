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
	// ConnectedOnly providers are connected over OAuth in the web interface. Their receivers cannot be created over the
	// API.
	ConnectedOnly bool
	Settings      []Setting
	// feature reports whether an organization can use the provider; nil: always.
	feature func(identity.Features) bool
	// connection returns the OAuth application for connecting the provider, and scopes are the OAuth scopes it requests;
	// nil: the provider cannot be connected.
	connection func(Connections) *Connection
	scopes     []string
}

// A Setting is one of a provider's settings.
type Setting struct {
	Name     string
	Doc      string
	Kind     kind
	Required bool
	// Default returns the default value; nil: no value, shown as null.
	Default func() any
	Show    Show
	// Managed settings are set by the provider when it is connected and cannot be edited.
	Managed bool
	// CreateOnly settings cannot be changed after creation.
	CreateOnly bool
	// change returns why a value cannot be changed to another one, or ""; nil: every change is allowed.
	change func(r *Receiver, from, to json.RawMessage) string
	// feature reports whether an organization can use the setting; nil: always.
	feature func(identity.Features) bool
}

// Show is the visibility of a setting in responses and forms.
type Show int

// The visibilities.
const (
	Full    Show = iota
	Masked       // the last characters only
	Omitted      // nothing
)

// providers lists every provider, creatable ones first.
var providers = []*Provider{
	webhook, chatWebhook, eventBus, pipelineVisibility, openTelemetryTracing, eventLogAPI, smtp, chatWorkspace, tracker,
}

// ProviderByID returns the provider with an id, or nil.
func ProviderByID(id string) *Provider {
	i := slices.IndexFunc(providers, func(p *Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return providers[i]
}

// creatable lists the ids of providers that can be created over the API, for error messages.
func creatable() string {
	var ids []string
	for _, p := range providers {
		if !p.ConnectedOnly {
			ids = append(ids, p.ID)
		}
	}
	return strings.Join(ids, ", ")
}

// Creatable returns the providers available to an organization that need no connection.
func Creatable(f identity.Features) []*Provider {
	return slices.DeleteFunc(slices.Clone(providers), func(p *Provider) bool { return p.ConnectedOnly || !p.Available(f) })
}

// Available reports whether an organization with these features can use the provider.
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

// fixed returns a Default function for a constant.
func fixed(value any) func() any { return func() any { return value } }
