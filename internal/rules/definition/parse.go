package definition

import (
	"go.yaml.in/yaml/v3"

	"stackyard/internal/rules/message"
)

// Parse parses pipeline YAML when a pipeline is saved: a mapping with a list of steps, or the bare list. Errors
// are returned together as [Errors], up to a limit.
//
// Variables like $BRANCH are kept, because there is no build yet. A non-text attribute like parallelism
// that contains a variable is treated as absent.
func Parse(source []byte) (*Pipeline, error) {
	return read(source, func(r *reader, root *yaml.Node) bool {
		r.open = true
		r.checkVariables(root)
		return true
	})
}

// ParseWith parses pipeline YAML for a build and interpolates its variables first, in every text. Given
// variables override the definition's own env, which is evaluated from top to bottom. A nil env disables
// interpolation, as for uploads by agents, where dollar signs are literal.
func ParseWith(source []byte, env func(name string) (string, bool)) (*Pipeline, error) {
	return read(source, func(r *reader, root *yaml.Node) bool {
		return env == nil || r.interpolateVariables(root, env) && r.checkShape(root)
	})
}

// read parses pipeline YAML. variables processes variables first, and returns false to stop.
func read(source []byte, variables func(*reader, *yaml.Node) bool) (*Pipeline, error) {
	root, syntax := load(source)
	if syntax != nil {
		return nil, Errors{*syntax}
	}
	r := newReader(source)
	var p *Pipeline
	if r.checkShape(root) && variables(r, root) {
		p = r.pipeline(r.value(root, "the definition"))
		r.checkCycles()
	}
	if problems := r.problems.sorted(); problems != nil {
		return nil, Errors(problems)
	}
	p.Warnings = r.warnings.sorted()
	return p, nil
}

// pipeline reads a whole document. It ignores unknown top-level keys, which may hold anchors.
func (r *reader) pipeline(root value) *Pipeline {
	if root.is(yaml.SequenceNode) {
		return &Pipeline{Steps: r.steps(root)}
	}
	const expected = "a mapping with a list of steps, or a list of steps"
	if !root.set() {
		root.must(expected)
		return nil
	}
	m := root.mapping(expected)
	if m == nil {
		return nil
	}
	m.name = ""
	p := &Pipeline{
		Env:        m.get("env").env(),
		Agents:     m.get("agents").agents(),
		Priority:   m.get("priority").integer(minInteger, maxInteger),
		Attributes: m.passOn("notify", "image", "secrets", "checkout", "cache"),
	}
	steps := m.get("steps")
	if !steps.present() {
		var names []string
		for _, e := range m.entries {
			names = append(names, e.name)
		}
		near := message.Nearest("steps", names)
		if near != "" {
			near = "; did you mean steps instead of " + near + "?"
		}
		r.problem(m.node, "the definition has no steps%s", near)
		return nil
	}
	p.Steps = r.steps(steps)
	return p
}

// steps reads the steps of a pipeline.
func (r *reader) steps(v value) []Step {
	if v.is(yaml.SequenceNode) && len(v.node.Content) == 0 || v.present() && !v.set() {
		r.problem(v.node, "the definition has no steps")
		return nil
	}
	return r.stepList(v)
}

// stepList reads a list of steps.
func (r *reader) stepList(v value) []Step {
	var steps []Step
	for _, item := range v.list("a list of steps") {
		step, ok := r.step(item)
		if r.aborted {
			return nil
		}
		if !ok {
			continue
		}
		r.countJobs(step, item.node)
		steps = append(steps, step)
	}
	return steps
}

// countJobs adds the jobs of a step to those of the build, and aborts above the limit.
func (r *reader) countJobs(s Step, place *yaml.Node) {
	if s.Kind == KindGroup {
		return // its members were counted
	}
	r.jobs += s.jobs()
	if r.jobs > maxJobs {
		r.abort(place, "with this step the build has more than %d jobs", maxJobs)
	}
}
