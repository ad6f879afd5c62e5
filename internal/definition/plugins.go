package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
