// Package convert converts pipelines of Woodpecker, Drone and GitHub Actions into pipelines of Stackyard: the common part
// of them. What has no counterpart, or another meaning, is listed in notes.
package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSource limits the size of a file, in bytes.
const maxSource = 1 << 20

// A Result is a converted pipeline.
type Result struct {
	Format   string // what the source was
	Pipeline string // YAML for a repository, in which $ in commands is escaped
	Notes    []Note
}

// A Note says what was not converted, or what has another meaning now.
type Note struct {
	Line int // of the source; 0: the whole file
	Text string
}

// Convert converts a file. An error is about a file that is not a pipeline of these formats.
func Convert(source []byte) (*Result, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the file has %d bytes; at most %d can be converted", len(source), maxSource)
	}
	documents, err := decode(source)
	if err != nil {
		return nil, err
	}
	c := &converter{}
	for _, d := range documents {
		if err := c.document(d); err != nil {
			return nil, err
		}
	}
	if len(c.steps) == 0 {
		return nil, errors.New("the file has no steps that can be converted")
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int { return a.Line - b.Line })
	text, err := c.print()
	return &Result{Format: c.format, Pipeline: text, Notes: c.notes}, err
}

// decode returns the documents of a YAML file, each a mapping. Aliases are refused, because they can make a small file
// large.
func decode(source []byte) (list []node, err error) {
	for d := yaml.NewDecoder(bytes.NewReader(source)); ; {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if hasAlias(&document) {
			return nil, errors.New("the file has YAML aliases; write what they stand for instead")
		}
		if len(document.Content) == 1 && document.Content[0].Kind == yaml.MappingNode {
			list = append(list, node{document.Content[0]})
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the file is not a YAML mapping")
	}
	return list, nil
}

func hasAlias(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return true
	}
	for _, child := range n.Content {
		if hasAlias(child) {
			return true
		}
	}
	return false
}

// A converter collects what the documents of a file become.
type converter struct {
	format string
	env    []pair
	steps  []*step
	notes  []Note
}

// document converts a document by what it looks like.
func (c *converter) document(d node) error {
	switch {
	case d.get("jobs").isMapping():
		return c.formatIs("GitHub Actions", func() { c.workflow(d) })
	case d.get("kind").text() == "pipeline":
		return c.formatIs("Drone", func() { c.drone(d) })
	case d.get("kind").set():
		c.note(d, "a document of the kind %s was left out; only pipelines are converted", d.get("kind").text())
		return nil
	case d.get("steps").set(), d.get("pipeline").isMapping():
		return c.formatIs("Woodpecker", func() { c.woodpecker(d) })
	}
	return errors.New("the file looks like none of Woodpecker (steps), Drone (kind: pipeline) and GitHub Actions (jobs)")
}

func (c *converter) formatIs(format string, convert func()) error {
	if c.format != "" && c.format != format {
		return fmt.Errorf("the file mixes %s and %s", c.format, format)
	}
	c.format = format
	convert()
	return nil
}

func (c *converter) note(at node, format string, args ...any) {
	n := Note{Text: fmt.Sprintf(format, args...)}
	if at.set() {
		n.Line = at.Line
	}
	for _, known := range c.notes {
		if known.Text == n.Text {
			return
		}
	}
	c.notes = append(c.notes, n)
}

// leaveOut notes the keys of a mapping that are not in the list.
func (c *converter) leaveOut(m node, what string, converted ...string) {
	known := map[string]bool{}
	for _, key := range converted {
		known[key] = true
	}
	for _, p := range m.pairs() {
		if !known[p.key] {
			c.note(p.value, "%s of %s was left out", p.key, what)
		}
	}
}

// A step is a step of the converted pipeline.
type step struct {
	label     string
	key       string
	image     string
	commands  []string
	env       []pair
	secrets   []pair // variables and the keys of their secrets
	agents    []pair
	artifacts []string
	matrix    *matrix
	dependsOn []string
	condition string
	softFail  bool
	timeout   int
	group     string // of concurrency
}

// A matrix has a job for each combination of the values of its dimensions.
type matrix struct {
	dimensions  []dimension
	adjustments []adjustment
}

type dimension struct {
	name   string
	values []string
}

// An adjustment adds a combination, or skips one.
type adjustment struct {
	with []pair
	skip bool
}

// print returns the pipeline as YAML.
func (c *converter) print() (string, error) {
	root := mapping()
	if len(c.env) > 0 {
		root.add("env", pairsNode(c.env))
	}
	steps := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range c.steps {
		steps.Content = append(steps.Content, s.node())
	}
	root.add("steps", steps)
	var out strings.Builder
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(root.Node); err != nil {
		return "", err
	}
	return out.String(), nil
}

func (s *step) node() *yaml.Node {
	m := mapping()
	m.addText("label", s.label)
	m.addText("key", s.key)
	m.addText("image", s.image)
	m.add("command", scriptNode(s.commands))
	if len(s.env) > 0 {
		m.add("env", pairsNode(s.env))
	}
	if len(s.secrets) > 0 {
		m.add("secrets", pairsNode(s.secrets))
	}
	if len(s.agents) > 0 {
		m.add("agents", pairsNode(s.agents))
	}
	if len(s.artifacts) > 0 {
		m.add("artifact_paths", listNode(s.artifacts))
	}
	if s.matrix != nil {
		m.add("matrix", s.matrix.node())
	}
	if len(s.dependsOn) > 0 {
		m.add("depends_on", listNode(s.dependsOn))
	}
	m.addText("if", s.condition)
	if s.softFail {
		m.add("soft_fail", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	}
	if s.timeout > 0 {
		m.add("timeout_in_minutes", &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(s.timeout)})
	}
	if s.group != "" {
		m.add("concurrency", &yaml.Node{Kind: yaml.ScalarNode, Value: "1"})
		m.addText("concurrency_group", s.group)
	}
	return m.Node
}

func (x *matrix) node() *yaml.Node {
	setup := mapping()
	for _, d := range x.dimensions {
		setup.add(d.name, listNode(d.values))
	}
	m := mapping()
	m.add("setup", setup.Node)
	if len(x.adjustments) > 0 {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, a := range x.adjustments {
			item := mapping()
			item.add("with", pairsNode(a.with))
			if a.skip {
				item.add("skip", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
			}
			list.Content = append(list.Content, item.Node)
		}
		m.add("adjustments", list)
	}
	return m.Node
}

// names reports whether the matrix has a dimension.
func (x *matrix) names(name string) bool {
	for _, d := range x.dimensions {
		if d.name == name {
			return true
		}
	}
	return false
}

// The upload of a pipeline replaces variables and removes one $ of two, so that scripts keep theirs.
func escaped(script string) string { return strings.ReplaceAll(script, "$", "$$") }

var notInKey = regexp.MustCompile(`[^A-Za-z0-9_:-]+`)

// keyOf returns a step key for a name.
func keyOf(name string) string { return strings.Trim(notInKey.ReplaceAllString(name, "-"), "-") }
