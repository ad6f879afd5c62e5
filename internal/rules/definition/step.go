package definition

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/message"
)

// typeKeys maps keys, and values of the key "type", to step kinds.
var typeKeys = map[string]Kind{
	"command":  KindCommand,
	"commands": KindCommand,
	"script":   KindCommand,
	"wait":     KindWait,
	"waiter":   KindWait,
	"block":    KindBlock,
	"manual":   KindBlock,
	"input":    KindInput,
	"trigger":  KindTrigger,
	"group":    KindGroup,
}

// bareSteps are steps that can be written as a single word.
var bareSteps = map[string]Kind{
	"wait":   KindWait,
	"waiter": KindWait,
	"block":  KindBlock,
	"manual": KindBlock,
	"input":  KindInput,
}

// stepKinds names the kinds in messages.
const stepKinds = "command, wait, block, input, trigger or group"

// step reads a step. The result is valid unless its overall shape is wrong; problems with attributes are
// recorded and reading continues.
func (r *reader) step(v value) (Step, bool) {
	v.name = "a step"
	const expected = "a mapping, or one of the words wait, block and input"
	switch {
	case !v.present():
		return Step{}, false
	case v.is(yaml.ScalarNode):
		return r.bareStep(v)
	case !v.is(yaml.MappingNode):
		v.must(expected)
		return Step{}, false
	}
	m := v.mapping(expected)
	m.name = ""
	kind, ok := r.kind(m)
	if !ok {
		return Step{}, false
	}
	if inner := m.nested(); inner != nil {
		m = inner
		switch again, ok := r.kindIn(m); {
		case !ok:
			return Step{}, false
		case again != "" && again != kind:
			r.problem(m.node, "a step is one thing: this is a %s step inside a %s step", again, kind)
			return Step{}, false
		}
	}
	if kind == KindGroup && r.inGroup {
		r.problem(v.node, "a group cannot stand inside a group")
		return Step{}, false
	}
	return r.stepOf(kind, m, v.node), true
}

// bareStep reads a step that is a single word.
func (r *reader) bareStep(v value) (Step, bool) {
	word := v.node.Value
	kind, ok := bareSteps[word]
	if !ok {
		known := slices.Sorted(maps.Keys(bareSteps))
		r.problem(v.node, `%s is not a step%s (to run a command, write "command: …")`, message.Quote(word), message.Suggestion(word, known))
		return Step{}, false
	}
	s := Step{Kind: kind, Line: v.node.Line, Column: v.node.Column}
	if kind == KindWait {
		s.Wait = &Wait{}
	} else {
		s.Manual = &Manual{BlockedState: BlockedPassed}
	}
	return s, true
}

// kind returns the kind of a step that is a mapping.
func (r *reader) kind(m *mapping) (Kind, bool) {
	kind, ok := r.kindIn(m)
	if !ok || kind != "" {
		return kind, ok
	}
	place, near := m.node, ""
	for _, e := range m.entries {
		if near = message.Nearest(e.name, []string{"command", "commands", "wait", "block", "input", "trigger", "group"}); near != "" {
			place, near = e.key, "; did you mean "+near+" instead of "+message.Quote(e.name)+"?"
			break
		}
	}
	r.problem(place, "this step has none of the keys that say what it is: %s%s", stepKinds, near)
	return "", false
}

// kindIn returns the kind that a mapping's keys name, "" if none, and false if they conflict.
func (r *reader) kindIn(m *mapping) (kind Kind, ok bool) {
	if v := m.get("type"); v.set() {
		word := v.text()
		if kind, ok = typeKeys[word]; !ok {
			known := slices.Sorted(maps.Keys(typeKeys))
			r.problem(v.node, "there is no step type %s, only %s%s", message.Quote(word), stepKinds, message.Suggestion(word, known))
			return "", false
		}
	}
	plugins := false
	for _, e := range m.entries {
		plugins = plugins || e.name == "plugins"
		named, known := typeKeys[e.name]
		switch {
		case !known || named == kind:
		case kind == "":
			kind = named
		default:
			r.problem(e.key, "a step is one thing: this one is a %s step and has the key %s", kind, e.name)
			return "", false
		}
	}
	if kind == "" && plugins {
		kind = KindCommand // plugins can run without a command
	}
	return kind, true
}

// nested returns the mapping inside a step like "wait: {continue_on_failure: true}", where the value of the
// type key is the whole step.
func (m *mapping) nested() *mapping {
	if len(m.entries) != 1 || typeKeys[m.entries[0].name] == "" {
		return nil
	}
	inner := m.get(m.entries[0].name)
	if !inner.is(yaml.MappingNode) {
		return nil
	}
	inner.name = ""
	return inner.mapping("")
}

// stepOf reads the attributes of a step of a known kind.
func (r *reader) stepOf(kind Kind, m *mapping, place *yaml.Node) Step {
	s := Step{Kind: kind, Line: place.Line, Column: place.Column}
	r.common(&s, m)
	switch kind {
	case KindCommand:
		s.Command = m.command()
		s.Skip = m.get("skip").skip()
		s.Attributes = m.passOn("matrix", "image", "secrets", "checkout", "cache", "signature", "notify", "if_changed")
	case KindWait:
		s.Label = firstText(s.Label, m.get("wait", "waiter"))
		s.Wait = &Wait{ContinueOnFailure: m.get("continue_on_failure").boolean(false)}
		s.Attributes = m.passOn("if_changed")
	case KindBlock, KindInput:
		s.Label = firstText(s.Label, m.title(kind))
		s.Manual = m.manual()
		s.Attributes = m.passOn("if_changed")
	case KindTrigger:
		s.Trigger = m.trigger()
		s.Skip = m.get("skip").skip()
		s.Attributes = m.passOn("notify", "if_changed")
	case KindGroup:
		s.Label = firstText(s.Label, m.get("group"))
		s.Group = r.group(m)
		s.Skip = m.get("skip").skip()
		s.Attributes = m.passOn("notify", "if_changed")
	}
	r.keepUnknown(&s, m)
	return s
}

// jobs returns the number of jobs of a step other than a group.
func (s Step) jobs() int {
	switch {
	case s.Command != nil && s.Command.Matrix != nil:
		return s.Command.Matrix.jobs()
	case s.Command != nil:
		return copies(s.Command.Parallelism)
	case s.Trigger != nil:
		return copies(s.Trigger.Parallelism)
	}
	return 1
}

// copies returns how many jobs a parallelism creates: zero creates one job, which never runs.
func copies(parallelism *int) int {
	if parallelism == nil {
		return 1
	}
	return max(*parallelism, 1)
}

// title returns the value of the key that makes a step a block or input.
func (m *mapping) title(kind Kind) value {
	if kind == KindInput {
		return m.get("input")
	}
	return m.get("block", "manual")
}

// firstText returns the label, or else the text of v. It checks both.
func firstText(label string, v value) string {
	if text := v.text(); label == "" {
		return text
	}
	return label
}

// common reads the attributes that every step can have.
func (r *reader) common(s *Step, m *mapping) {
	s.Key = r.stepKey(m.get("key", "identifier", "id"))
	s.Label = m.get("label", "name").text()
	s.If = m.get("if").condition(false)
	s.Branches = core.BranchFilter(strings.Join(m.get("branches").texts(), " "))
	s.AllowDependencyFailure = m.get("allow_dependency_failure").boolean(false)
	if s.If != "" && s.Branches != "" {
		r.problem(m.key("branches"), "if and branches cannot stand together; write the branch into the condition, such as build.branch == \"main\"")
	}
	var places []*yaml.Node
	s.DependsOn, places = m.get("depends_on").dependencies()
	r.graph.add(s, places)
}

// stepKey reads the key of a step, which must be unique.
func (r *reader) stepKey(v value) string {
	key := v.text()
	if key == "" {
		return ""
	}
	if _, uuid := core.ParseID(key); uuid {
		r.problem(v.node, "%s must not have the shape of a UUID, since steps have ids of that shape", v.name)
		return ""
	}
	if line, taken := r.keyLines[key]; taken {
		r.problem(v.node, "the key %s is already used on line %d", message.Quote(key), line)
		return ""
	}
	r.keyLines[key] = v.node.Line
	return key
}

// skip reads true, false or the reason to skip a step.
func (v value) skip() Skip {
	const longest = 70
	if !v.decided() {
		return Skip{}
	}
	if on, ok := parseBool(v.node); ok {
		return Skip{On: on}
	}
	if v.node.Kind != yaml.ScalarNode {
		v.must("true, false or a reason")
		return Skip{}
	}
	reason := v.node.Value
	if n := utf8.RuneCountInString(reason); n > longest {
		v.r.problem(v.node, "%s must be a reason of at most %d characters, found %d", v.name, longest, n)
	}
	return Skip{On: reason != "", Reason: reason}
}

// passOn returns attributes as written, or nil.
func (m *mapping) passOn(names ...string) map[string]any {
	var attributes map[string]any
	for _, name := range names {
		v := m.get(name)
		if !v.set() {
			continue
		}
		switch {
		case name == "notify" && !v.is(yaml.SequenceNode):
			v.must("a list of notifications")
		case name == "signature" && !v.is(yaml.MappingNode):
			v.must("a mapping")
		}
		if attributes == nil {
			attributes = map[string]any{}
		}
		attributes[name] = v.plain()
		if name == "notify" {
			v.notifyConditions()
		}
	}
	return attributes
}

// keepUnknown keeps the unknown keys of a step and warns about them.
func (r *reader) keepUnknown(s *Step, m *mapping) {
	for _, e := range m.unknown() {
		if !r.warnings.full() { // suggestions are expensive
			r.warn(e.key, "a %s step has no key %s; it is kept and has no effect%s", s.Kind, message.Quote(e.name), message.Suggestion(e.name, m.readKeys))
		}
		if s.Attributes == nil {
			s.Attributes = map[string]any{}
		}
		s.Attributes[e.name] = r.value(e.value, e.name).plain()
	}
}
