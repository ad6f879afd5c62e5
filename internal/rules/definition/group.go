package definition

import "go.yaml.in/yaml/v3"

// group reads the members of a group step.
func (r *reader) group(m *mapping) *Group {
	for _, name := range []string{"concurrency", "concurrency_group", "concurrency_method"} {
		if m.get(name).present() {
			r.problem(m.key(name), "%s cannot stand on a group; set it on the steps in the group", name)
		}
	}
	steps := m.get("steps")
	if !steps.set() || steps.is(yaml.SequenceNode) && len(steps.node.Content) == 0 {
		r.problem(m.key("steps"), "a group must have at least one step")
		return &Group{}
	}
	r.inGroup = true
	r.graph.enter()
	defer func() {
		r.inGroup = false
		r.graph.leave()
	}()
	return &Group{Steps: r.stepList(steps)}
}
