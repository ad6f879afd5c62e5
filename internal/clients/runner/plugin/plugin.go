// Package plugin reads the plugins of a step: where each comes from, and the variables that its hooks get.
package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Plugin is a plugin of a step.
type Plugin struct {
	Source  string // without the version: a URL, a host with a path, or a path
	Version string // a tag, branch or commit; "": the default branch
	config  any
}

// limits of what a step can have.
const (
	maxPlugins   = 50
	maxVariables = 1000
)

var errShape = errors.New("a plugin is its source, or an object with its source as the one key")

// Parse parses the plugins of a step: a JSON list of sources, or of objects with the source as the key and the
// configuration as the value.
func Parse(text string) ([]Plugin, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var list []json.RawMessage
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("read plugins: %w", err)
	}
	if len(list) > maxPlugins {
		return nil, fmt.Errorf("the step has %d plugins; the limit is %d", len(list), maxPlugins)
	}
	var plugins []Plugin
	for _, raw := range list {
		p, err := parseOne(raw)
		if err != nil {
			return nil, fmt.Errorf("read plugins: %w", err)
		}
		plugins = append(plugins, p)
	}
	return plugins, nil
}

func parseOne(raw json.RawMessage) (Plugin, error) {
	var source string
	if json.Unmarshal(raw, &source) == nil {
		return newPlugin(source, nil)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) != nil || len(object) != 1 {
		return Plugin{}, errShape
	}
	for source, config := range object {
		return newPlugin(source, config)
	}
	return Plugin{}, errShape
}

func newPlugin(source string, config any) (Plugin, error) {
	source, version, _ := strings.Cut(source, "#")
	if source == "" || strings.HasPrefix(version, "-") {
		return Plugin{}, fmt.Errorf("%q is not the source of a plugin, such as docker#v5.12.0", source+"#"+version)
	}
	return Plugin{Source: source, Version: version, config: config}, nil
}

// suffix is how names of plugin repositories end.
const suffix = "-buildkite-plugin"

// Name returns the name of the plugin: docker for …/docker-buildkite-plugin.
func (p Plugin) Name() string {
	name := strings.TrimRight(strings.ReplaceAll(p.Source, `\`, "/"), "/")
	name = name[strings.LastIndexAny(name, "/:")+1:]
	return strings.TrimSuffix(strings.TrimSuffix(name, ".git"), suffix)
}

// Vendored reports whether the plugin is a folder of the repository that is built.
func (p Plugin) Vendored() bool { return strings.HasPrefix(p.Source, ".") }

// Repository returns the URL or path that git clones. Short sources are repositories on GitHub.
func (p Plugin) Repository() string {
	switch {
	case filepath.IsAbs(p.Source), strings.Contains(p.Source, "::"), strings.Contains(p.Source, "://"), strings.Contains(p.Source, "@"):
		return p.Source
	case !strings.Contains(p.Source, "/"):
		return "https://github.com/buildkite-plugins/" + p.Source + suffix
	case strings.Count(p.Source, "/") == 1:
		return "https://github.com/" + p.Source + suffix
	}
	return "https://" + p.Source
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Dir returns the name of the folder for its checkout, which differs for each source and version.
func (p Plugin) Dir() string {
	sum := sha256.Sum256([]byte(p.Repository() + "#" + p.Version))
	name := unsafe.ReplaceAllString(p.Name()+"-"+p.Version, "-")
	return name[:min(len(name), 60)] + "-" + hex.EncodeToString(sum[:8])
}

// String returns the source with the version.
func (p Plugin) String() string {
	if p.Version == "" {
		return p.Source
	}
	return p.Source + "#" + p.Version
}

var separators = regexp.MustCompile(`[^A-Za-z0-9]+`)

// variable returns a text as a part of the name of a variable.
func variable(text string) string { return strings.ToUpper(separators.ReplaceAllString(text, "_")) }

// Variables returns the variables of its hooks, by name without the prefix of service variables: PLUGIN_NAME,
// PLUGIN_CONFIGURATION, and PLUGIN_DOCKER_IMAGE for the option image. Items of lists are numbered from 0.
func (p Plugin) Variables() (map[string]string, error) {
	configuration, err := json.Marshal(p.config)
	if err != nil {
		return nil, err
	}
	if p.config == nil {
		configuration = []byte("{}")
	}
	name := variable(p.Name())
	variables := map[string]string{"PLUGIN_NAME": name, "PLUGIN_CONFIGURATION": string(configuration)}
	if options, ok := p.config.(map[string]any); ok {
		if err := flatten(variables, "PLUGIN_"+name, options); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", p, err)
		}
	}
	return variables, nil
}

func flatten(variables map[string]string, name string, value any) error {
	if len(variables) > maxVariables {
		return fmt.Errorf("the configuration has more than %d values", maxVariables)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := flatten(variables, name+"_"+variable(key), v[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := flatten(variables, name+"_"+strconv.Itoa(i), item); err != nil {
				return err
			}
		}
	case nil:
		variables[name] = ""
	default:
		variables[name] = fmt.Sprint(v)
	}
	return nil
}
