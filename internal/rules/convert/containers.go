package convert

import (
	"fmt"
	"regexp"
	"strings"
)

// A container is a step of Woodpecker or Drone. Both run the steps of a pipeline one after the other in one workspace.
type container struct {
	node
	name string
}

func (c *converter) woodpecker(d node) {
	steps := d.get("steps")
	if !steps.set() {
		steps = d.get("pipeline") // before version 1
	}
	c.leaveOut(d, "the file", "steps", "pipeline", "matrix", "when", "labels", "services", "variables", "depends_on", "clone", "skip_clone", "workspace", "runs_on")
	c.containers(d, "", steps, c.conditions(d.get("when")), c.matrixOf(d.get("matrix")))
	for _, p := range d.get("labels").pairs() {
		c.agentsOfAll(p.key, p.value.text())
	}
	if d.get("depends_on").set() {
		c.note(d.get("depends_on"), "depends_on of workflows was left out; put the steps of all workflows into one pipeline, with depends_on between steps")
	}
}

func (c *converter) drone(d node) {
	c.leaveOut(d, "the pipeline", "kind", "type", "name", "steps", "services", "trigger", "depends_on", "clone", "platform", "node", "concurrency", "workspace")
	before := len(c.steps)
	name := d.get("name").text()
	c.containers(d, name, d.get("steps"), c.conditions(d.get("trigger")), nil)
	added := c.steps[before:]
	for _, s := range added {
		for _, other := range d.get("depends_on").texts() {
			s.dependsOn = append(s.dependsOn, c.lastOf(other)...)
		}
		for _, p := range d.get("node").pairs() {
			s.agents = append(s.agents, pair{p.key, p.value.text()})
		}
		if limit := d.get("concurrency").get("limit").text(); limit == "1" {
			s.group = name
		}
	}
	if platform := d.get("platform"); platform.set() {
		c.note(platform, "platform was left out; choose the machines with agents, for example agents: {queue: arm}")
	}
}

// lastOf returns the key of the last step of a pipeline of the file.
func (c *converter) lastOf(pipeline string) []string {
	for i := len(c.steps) - 1; i >= 0; i-- {
		if k := c.steps[i].key; k == keyOf(pipeline) || strings.HasPrefix(k, keyOf(pipeline)+":") {
			return []string{k}
		}
	}
	return nil
}

func (c *converter) agentsOfAll(key, value string) {
	for _, s := range c.steps {
		s.agents = append(s.agents, pair{key, value})
	}
}

// containers converts the steps of a pipeline with a name, which can be empty. If all have one image and no conditions,
// they become one step, so that they still share a workspace.
func (c *converter) containers(d node, pipeline string, steps node, condition string, x *matrix) {
	var list []container
	for _, p := range steps.pairs() {
		list = append(list, container{p.value, p.key})
	}
	for i, item := range steps.items() {
		if !steps.isMapping() && item.isMapping() {
			name := item.get("name").text()
			if name == "" {
				name = fmt.Sprintf("step %d", i+1)
			}
			list = append(list, container{item, name})
		}
	}
	for _, service := range append(d.get("services").pairs(), named(d.get("services"))...) {
		c.note(service.value, "the service %s was left out; start it in the command, or with a plugin such as docker-compose", service.key)
	}
	if c.oneWorkspace(list) {
		c.joined(pipeline, list, condition, x)
		return
	}
	if len(list) > 1 {
		c.note(steps, "each step is a job with its own checkout; pass files between them with artifact_paths and stackyard agent artifact download")
	}
	c.separate(pipeline, list, condition, x)
}

// named returns the items of a list of mappings by their names.
func named(n node) (list []entry) {
	if !n.isList() {
		return nil
	}
	for _, item := range n.items() {
		list = append(list, entry{item.get("name").text(), item})
	}
	return list
}

// oneWorkspace reports whether steps can run in one job.
func (c *converter) oneWorkspace(list []container) bool {
	for _, s := range list {
		if s.get("image").text() != list[0].get("image").text() || s.get("settings").set() || s.get("depends_on").set() || s.get("when").set() || s.get("failure").set() || !s.get("commands").set() {
			return false
		}
	}
	return len(list) > 0
}

func (c *converter) joined(pipeline string, list []container, condition string, x *matrix) {
	one := &step{label: pipeline, key: keyOf(pipeline), condition: condition, matrix: x}
	if one.label == "" {
		one.label = list[0].name
		for _, s := range list[1:] {
			one.label += ", " + s.name
		}
	}
	for _, s := range list {
		converted := c.container(s, x)
		one.image = converted.image
		for i, command := range converted.commands {
			if i == 0 && len(list) > 1 {
				command = "echo '--- " + strings.ReplaceAll(s.name, "'", "") + "'\n" + command
			}
			one.commands = append(one.commands, command)
		}
		one.env = append(one.env, converted.env...)
		one.secrets = append(one.secrets, converted.secrets...)
	}
	c.steps = append(c.steps, one)
}

func (c *converter) separate(pipeline string, list []container, condition string, x *matrix) {
	anyDepends := false
	for _, s := range list {
		anyDepends = anyDepends || s.get("depends_on").set()
	}
	prefix := ""
	if pipeline != "" {
		prefix = keyOf(pipeline) + ":"
	}
	previous := ""
	for _, s := range list {
		one := c.container(s, x)
		if one == nil {
			continue
		}
		one.label, one.key, one.matrix = s.name, prefix+keyOf(s.name), x
		one.condition = both(condition, c.conditions(s.get("when")))
		switch {
		case anyDepends:
			for _, other := range s.get("depends_on").texts() {
				one.dependsOn = append(one.dependsOn, prefix+keyOf(other))
			}
		case previous != "":
			one.dependsOn = []string{previous}
		}
		previous = one.key
		c.steps = append(c.steps, one)
	}
}

// container converts one step, without its place among others. It returns nil for plugins.
func (c *converter) container(s container, x *matrix) *step {
	what := "the step " + s.name
	if s.get("settings").set() || !s.get("commands").set() {
		c.note(s.node, "%s was left out: it is a plugin (%s); write a command for it", what, s.get("image").text())
		return nil
	}
	c.leaveOut(s.node, what, "name", "image", "commands", "environment", "secrets", "when", "depends_on", "failure", "pull", "group")
	one := &step{image: c.substitute(s.get("image").text(), x), softFail: s.get("failure").text() == "ignore"}
	for _, command := range s.get("commands").texts() {
		one.commands = append(one.commands, c.substitute(command, x))
	}
	for _, p := range s.get("environment").pairs() {
		if secret := p.value.get("from_secret").text(); secret != "" {
			one.secrets = append(one.secrets, pair{p.key, secret})
			continue
		}
		one.env = append(one.env, pair{p.key, c.substitute(p.value.text(), x)})
	}
	for _, text := range s.get("environment").texts() {
		if name, value, ok := strings.Cut(text, "="); ok {
			one.env = append(one.env, pair{name, c.substitute(value, x)})
		}
	}
	for _, secret := range s.get("secrets").texts() {
		one.secrets = append(one.secrets, pair{strings.ToUpper(secret), secret})
	}
	if x != nil {
		for _, d := range x.dimensions {
			one.env = append(one.env, pair{d.name, "{{matrix." + d.name + "}}"})
		}
	}
	if len(one.secrets) > 0 {
		c.note(s.node, "create the secrets of the steps in the cluster: docs/secrets.md")
	}
	return one
}

// variable matches an escaped variable.
var variable = regexp.MustCompile(`\$\$(?:\{\w+\}|\w+)`)

// ciVariables are variables of jobs that Woodpecker and Drone name otherwise.
var ciVariables = map[string]string{
	"CI_COMMIT_SHA": "BUILDKITE_COMMIT", "DRONE_COMMIT_SHA": "BUILDKITE_COMMIT", "DRONE_COMMIT": "BUILDKITE_COMMIT",
	"CI_COMMIT_BRANCH": "BUILDKITE_BRANCH", "DRONE_BRANCH": "BUILDKITE_BRANCH", "DRONE_COMMIT_BRANCH": "BUILDKITE_BRANCH",
	"CI_COMMIT_TAG": "BUILDKITE_TAG", "DRONE_TAG": "BUILDKITE_TAG",
	"CI_COMMIT_MESSAGE": "BUILDKITE_MESSAGE", "DRONE_COMMIT_MESSAGE": "BUILDKITE_MESSAGE",
	"CI_PIPELINE_NUMBER": "BUILDKITE_BUILD_NUMBER", "DRONE_BUILD_NUMBER": "BUILDKITE_BUILD_NUMBER",
	"CI_COMMIT_PULL_REQUEST": "BUILDKITE_PULL_REQUEST", "DRONE_PULL_REQUEST": "BUILDKITE_PULL_REQUEST",
	"CI_REPO_URL": "BUILDKITE_REPO", "DRONE_GIT_HTTP_URL": "BUILDKITE_REPO",
}

// substitute replaces values of the matrix and names of variables, and escapes each $ that is for the shell. These
// formats write it as $ or, to escape it from their own substitution, as $$.
func (c *converter) substitute(text string, x *matrix) string {
	text = escaped(strings.ReplaceAll(text, "$$", "$"))
	return variable.ReplaceAllStringFunc(text, func(written string) string {
		name := strings.Trim(written, "${}")
		if x != nil && x.names(name) {
			return "{{matrix." + name + "}}"
		}
		if ours := ciVariables[name]; ours != "" {
			return "$$" + ours
		}
		return written
	})
}

// matrixOf converts a matrix of Woodpecker: dimensions, or a list of combinations.
func (c *converter) matrixOf(m node) *matrix {
	if !m.isMapping() {
		return nil
	}
	x := &matrix{}
	if list := m.get("include"); list.isList() {
		for _, item := range list.items() {
			var with []pair
			for _, p := range item.pairs() {
				with = append(with, pair{p.key, p.value.text()})
				if !x.names(p.key) {
					x.dimensions = append(x.dimensions, dimension{p.key, []string{p.value.text()}})
				}
			}
			x.adjustments = append(x.adjustments, adjustment{with: with})
		}
		return x.onlyAdjusted()
	}
	for _, p := range m.pairs() {
		x.dimensions = append(x.dimensions, dimension{p.key, p.value.texts()})
	}
	return x
}

// onlyAdjusted makes a matrix of its adjustments alone: the first is what the dimensions have.
func (x *matrix) onlyAdjusted() *matrix {
	if len(x.adjustments) == 0 {
		return nil
	}
	x.adjustments = x.adjustments[1:]
	return x
}
