package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// A Plugin is the source of a plugin with its configuration in the shapes that JSON has.
type Plugin struct {
	Source string
	Config any
}

// MarshalJSON writes the plugin as agents read it: an object with the source as its one key.
func (p Plugin) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{p.Source: p.Config})
}

// pluginSuffix ends the name of a repository that holds a plugin.
const pluginSuffix = "-buildkite-plugin"

// FullSource returns the source as agents fetch it: docker#v5 stands for the repository of that name among
// the common plugins, acme/thing#v1 for one of acme on GitHub. URLs and paths stay as they are.
func (p Plugin) FullSource() string {
	if p.Source == "" || strings.ContainsAny(p.Source[:1], `/.\`) {
		return p.Source
	}
	// An error means a form such as git@host:acme/thing, a scheme one such as ssh://.
	if u, err := url.Parse(p.Source); err != nil || u.Scheme != "" {
		return p.Source
	}
	name, version, versioned := strings.Cut(p.Source, "#")
	switch strings.Count(name, "/") {
	case 0:
		name = "github.com/buildkite-plugins/" + name + pluginSuffix
	case 1:
		name = "github.com/" + name + pluginSuffix
	default:
		return p.Source
	}
	if versioned {
		name += "#" + version
	}
	return name
}

// errPlugin is about what cannot be read as a plugin.
var errPlugin = errors.New("a plugin is its source, or an object with its source as the one key")

// UnmarshalJSON reads what MarshalJSON writes, or the source alone.
func (p *Plugin) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &p.Source); err == nil && p.Source != "" {
		return nil
	}
	plugins, err := pluginsOf(b)
	if err != nil || len(plugins) != 1 {
		return errPlugin
	}
	*p = plugins[0]
	return nil
}

// JSONSchema describes what MarshalJSON writes.
func (Plugin) JSONSchema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "maxProperties": 1}
}

// pluginsOf reads an object of sources to configurations, in its order, which is that of their hooks.
func pluginsOf(object []byte) (plugins []Plugin, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errPlugin
	}
	for d.More() {
		source, err := d.Token()
		if err != nil {
			return nil, err
		}
		p := Plugin{Source: source.(string)} // a key is nothing else
		if err := d.Decode(&p.Config); err != nil {
			return nil, err
		}
		plugins = append(plugins, p)
	}
	return plugins, nil
}

// plugins reads the plugins of a visual step: a list, or an object of sources to configurations.
func (c visualCheck) plugins(given json.RawMessage) []Plugin {
	if len(given) == 0 || string(given) == "null" {
		return nil
	}
	plugins, err := pluginsOf(given)
	if err != nil {
		err = json.Unmarshal(given, &plugins)
	}
	if err != nil {
		c.add("plugins", "must be a list of plugins, each its source or an object with its source as the one key")
		return nil
	}
	for i, p := range plugins {
		if _, object := p.Config.(map[string]any); p.Source == "" || p.Config != nil && !object {
			c.add(fmt.Sprintf("plugins[%d]", i), "must have a source, and an object or null for its configuration")
		}
	}
	return plugins
}
