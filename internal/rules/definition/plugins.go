package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// A Plugin is the source of a plugin with its configuration, a value with the types of JSON.
type Plugin struct {
	Source string
	Config any
}

// MarshalJSON returns the plugin as agents expect it: an object with the source as its only key.
func (p Plugin) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{p.Source: p.Config})
}

// pluginSuffix is the suffix of plugin repositories.
const pluginSuffix = "-buildkite-plugin"

// FullSource returns the source that agents fetch: docker#v5 is a repository of the common plugins,
// acme/thing#v1 a repository of acme on GitHub. URLs and paths are unchanged.
func (p Plugin) FullSource() string {
	if p.Source == "" || strings.ContainsAny(p.Source[:1], `/.\`) {
		return p.Source
	}
	// url.Parse fails for git@host:acme/thing and returns a scheme for ssh://.
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

// errPlugin is the error for JSON that is not a plugin.
var errPlugin = errors.New("a plugin is its source, or an object with its source as the one key")

// UnmarshalJSON accepts the output of MarshalJSON, or the source alone.
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

// JSONSchema describes the output of MarshalJSON.
func (Plugin) JSONSchema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "maxProperties": 1}
}

// pluginsOf reads an object of sources to configurations. It keeps the order, in which hooks run.
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
		p := Plugin{Source: source.(string)} // keys are always strings
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
