package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// localDefinition returns a checked definition for a local run: without agent rules, since there is one kind of agent, and
// with all steps skipped but those whose key or label is in only, unless it is empty.
func localDefinition(source []byte, only []string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return "", err
	}
	l := &localSteps{only: only}
	root := resolve(doc.Content[0])
	if root.Kind == yaml.SequenceNode {
		l.steps(root)
	} else {
		removeKey(root, "agents")
		if steps := valueOf(root, "steps"); steps != nil {
			l.steps(resolve(steps))
		}
	}
	for _, name := range only {
		if !slices.Contains(l.found, name) {
			return "", fmt.Errorf("--only: no step has the key or label %q; steps: %s", name, strings.Join(l.names, ", "))
		}
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(&doc); err != nil {
		return "", err
	}
	return text.String(), encoder.Close()
}

// localSteps changes the steps of a definition.
type localSteps struct {
	only  []string
	names []string // of all command steps
	found []string // those of only that exist
}

func (l *localSteps) steps(list *yaml.Node) {
	for i, item := range list.Content {
		step := resolve(item)
		if step.Kind != yaml.MappingNode {
			continue
		}
		// A step that is an alias gets a copy, because the others of the same anchor may be treated differently.
		step = &yaml.Node{Kind: yaml.MappingNode, Anchor: item.Anchor, Content: slices.Clone(step.Content)}
		list.Content[i] = step
		removeKey(step, "agents")
		if merged := valueOf(step, "<<"); merged != nil {
			removeKey(resolve(merged), "agents")
		}
		if members := valueOf(step, "steps"); members != nil && !l.chosen(step) {
			l.steps(resolve(members))
			continue
		} else if members != nil {
			(&localSteps{}).steps(resolve(members)) // all of them
			continue
		}
		if l.choose(step) {
			continue
		}
		removeKey(step, "skip")
		step.Content = append(step.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "skip"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "not in --only", Style: yaml.DoubleQuotedStyle})
	}
}

// choose reports whether a step runs. Steps that only control others always do.
func (l *localSteps) choose(step *yaml.Node) bool {
	for _, key := range []string{"wait", "waiter", "block", "input", "manual"} {
		if valueOf(step, key) != nil {
			return true
		}
	}
	if t := valueOf(step, "type"); t != nil && t.Value != "command" && t.Value != "script" && t.Value != "trigger" {
		return true
	}
	return l.chosen(step) || len(l.only) == 0
}

// chosen reports whether only names a step.
func (l *localSteps) chosen(step *yaml.Node) bool {
	named := false
	for _, key := range []string{"key", "id", "identifier", "label", "name", "group"} {
		value := valueOf(step, key)
		if value == nil || resolve(value).Kind != yaml.ScalarNode {
			continue
		}
		text := resolve(value).Value
		if text != "" {
			l.names = append(l.names, fmt.Sprintf("%q", text))
		}
		if slices.Contains(l.only, text) {
			l.found = append(l.found, text)
			named = true
		}
	}
	return named
}

// resolve returns what an alias refers to.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Kind == yaml.MappingNode && mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func removeKey(mapping *yaml.Node, key string) {
	for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(slices.Clone(mapping.Content), i, i+2)
			return
		}
	}
}
