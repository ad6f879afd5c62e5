package definition

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/message"
)

// VisualYAML returns visual steps and the environment of their pipeline as YAML that defines the same builds. Visual
// steps have no variables, so that dollar signs are escaped.
func VisualYAML(steps []VisualResponse, env map[string]string) (string, error) {
	top := yamlMap{}
	top.texts("env", env)
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range steps {
		n, err := s.yaml()
		if err != nil {
			return "", err
		}
		list.Content = append(list.Content, n)
	}
	top.add("steps", list)
	document := top.node()
	if err := escapeVariables(document); err != nil {
		return "", err
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := e.Encode(document)
	return out.String(), err
}

// A yamlMap is a mapping in the order in which keys were added.
type yamlMap struct{ content []*yaml.Node }

func (m *yamlMap) node() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: m.content} }

func (m *yamlMap) add(key string, value *yaml.Node) {
	m.content = append(m.content, yamlText(key), value)
}

// text adds a text unless it is empty.
func (m *yamlMap) text(key, value string) {
	if value != "" {
		m.add(key, yamlText(value))
	}
}

func (m *yamlMap) number(key string, value *int) {
	if value != nil {
		m.add(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(*value)})
	}
}

// texts adds texts by name unless there are none.
func (m *yamlMap) texts(key string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	inner := yamlMap{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		inner.add(name, yamlText(values[name]))
	}
	m.add(key, inner.node())
}

// yamlText returns a text; several lines become a block.
func yamlText(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(value)
	return n
}

// escapedDollar is a dollar sign after an odd number of backslashes. In YAML the last of them escapes the dollar sign,
// and there is no other way to write both.
var escapedDollar = regexp.MustCompile(`(^|[^\\])(\\\\)*\\\$`)

// escapeVariables makes dollar signs begin no variables.
func escapeVariables(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if escapedDollar.MatchString(n.Value) {
			return core.Errorf(core.Unprocessable, `A backslash before a dollar sign cannot be written in YAML. Change it in %s, for example to a script in the repository.`, message.Quote(core.Cut(n.Value, 100)))
		}
		n.Value = strings.ReplaceAll(n.Value, "$", "$$")
	}
	for _, inner := range n.Content {
		if err := escapeVariables(inner); err != nil {
			return err
		}
	}
	return nil
}

func (s VisualResponse) yaml() (*yaml.Node, error) {
	m := yamlMap{}
	label := ""
	if s.VisualLabel != nil {
		label = orEmpty(s.Label)
	}
	switch s.Type {
	case "waiter":
		return yamlText("wait"), nil
	case "manual":
		m.add("block", yamlText(label))
		return m.node(), nil
	case "trigger":
		m.add("trigger", yamlText(s.Pipeline))
		m.text("label", label)
		if s.Async {
			m.add("async", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
		}
		build := yamlMap{}
		build.text("message", orEmpty(s.Build.Message))
		build.text("branch", orEmpty(s.Build.Branch))
		build.text("commit", orEmpty(s.Build.Commit))
		build.texts("env", s.Build.Env)
		if len(build.content) > 0 {
			m.add("build", build.node())
		}
	case "script":
		m.text("label", orEmpty(s.Name))
		m.text("command", s.Command)
		if err := m.script(s.VisualScript); err != nil {
			return nil, err
		}
	}
	m.text("branches", orEmpty(s.BranchConfiguration))
	m.number("parallelism", s.Parallelism)
	m.number("concurrency", s.Concurrency)
	return m.node(), nil
}

func (m *yamlMap) script(s *VisualScript) error {
	m.text("artifact_paths", orEmpty(s.ArtifactPaths))
	m.texts("env", s.Env)
	if len(s.AgentQueryRules) > 0 {
		rules := &yaml.Node{Kind: yaml.SequenceNode}
		for _, rule := range s.AgentQueryRules {
			rules.Content = append(rules.Content, yamlText(rule))
		}
		m.add("agents", rules)
	}
	m.number("timeout_in_minutes", s.TimeoutInMinutes)
	m.text("concurrency_group", s.ConcurrencyGroup)
	if len(s.Plugins) == 0 {
		return nil
	}
	text, err := json.Marshal(s.Plugins)
	if err != nil {
		return err
	}
	var plugins yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(text, &plugins); err != nil {
		return err
	}
	m.add("plugins", blockStyle(plugins.Content[0]))
	return nil
}

// blockStyle removes the brackets and quotes of JSON, except from texts that need quotes.
func blockStyle(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	} else if n.Tag == "!!str" {
		*n = *yamlText(n.Value)
	}
	for _, inner := range n.Content {
		blockStyle(inner)
	}
	return n
}
