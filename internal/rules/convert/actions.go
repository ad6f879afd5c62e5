package convert

import (
	"regexp"
	"strconv"
	"strings"
)

// workflow converts a workflow of GitHub Actions. A job there is a step here: its steps share a machine and a workspace.
func (c *converter) workflow(d node) {
	c.leaveOut(d, "the workflow", "name", "on", "true", "env", "jobs", "permissions", "concurrency", "run-name")
	if on := d.get("on"); on.set() || d.get("true").set() {
		c.note(on, "on was left out: set what is built in the settings of the pipeline (docs/webhooks.md), and times with stackyard schedule create")
	}
	if d.get("permissions").set() {
		c.note(d.get("permissions"), "permissions was left out: jobs get no token of the source host")
	}
	for _, p := range d.get("env").pairs() {
		c.env = append(c.env, pair{p.key, c.expressions(p.value, nil)})
	}
	for _, job := range d.get("jobs").pairs() {
		if job.value.isMapping() {
			c.job(job.key, job.value, d.get("concurrency"))
		}
	}
}

func (c *converter) job(id string, j, concurrency node) {
	what := "the job " + id
	c.leaveOut(j, what, "name", "runs-on", "needs", "if", "steps", "env", "strategy", "timeout-minutes", "continue-on-error", "container", "services", "permissions", "concurrency", "defaults", "outputs")
	if uses := j.get("uses"); uses.set() {
		c.note(uses, "%s was left out: it calls the workflow %s; write a trigger step", what, uses.text())
		return
	}
	s := &step{label: j.get("name").text(), key: keyOf(id), softFail: j.get("continue-on-error").text() == "true", matrix: c.strategy(j.get("strategy"))}
	if s.label == "" {
		s.label = id
	}
	s.label = c.plainExpressions(s.label)
	for _, other := range j.get("needs").texts() {
		s.dependsOn = append(s.dependsOn, keyOf(other))
	}
	s.timeout, _ = strconv.Atoi(j.get("timeout-minutes").text())
	s.condition = c.ifOf(j.get("if"), what)
	s.image = j.get("container").text()
	if image := j.get("container").get("image"); image.set() {
		s.image = image.text()
	}
	s.image = c.plainExpressions(s.image)
	if own := j.get("concurrency"); own.set() {
		concurrency = own
	}
	if concurrency.set() {
		s.group = concurrency.text()
		if group := concurrency.get("group"); group.set() {
			s.group = group.text()
		}
		if strings.Contains(s.group, "${{") {
			c.note(concurrency, "the concurrency group %q was left out, because it has expressions", s.group)
			s.group = ""
		}
	}
	c.runsOn(s, j.get("runs-on"))
	for _, service := range j.get("services").pairs() {
		c.note(service.value, "the service %s was left out; start it in the command, or with a plugin such as docker-compose", service.key)
	}
	if j.get("outputs").set() {
		c.note(j.get("outputs"), "outputs of %s were left out; use meta-data: stackyard agent meta-data set", what)
	}
	for _, p := range j.get("env").pairs() {
		s.env = append(s.env, pair{p.key, c.expressions(p.value, s)})
	}
	shellFolder := j.get("defaults").get("run").get("working-directory").text()
	for i, item := range j.get("steps").items() {
		c.actionStep(s, item, shellFolder, i+1)
	}
	if len(s.commands) == 0 {
		c.note(j, "%s was left out: no step of it runs a command", what)
		return
	}
	c.steps = append(c.steps, s)
}

// runsOn notes labels of hosted machines, and keeps those of machines of one's own as tags.
func (c *converter) runsOn(s *step, on node) {
	labels := on.texts()
	if on.isMapping() {
		labels = append(on.get("labels").texts(), on.get("group").texts()...)
	}
	for _, label := range labels {
		switch {
		case label == "self-hosted":
		case strings.HasPrefix(label, "ubuntu-"), strings.Contains(label, "${{"):
			c.note(on, "runs-on %s was left out: the step runs on any agent of the default queue", label)
		default:
			s.agents = []pair{{"queue", keyOf(label)}}
			c.note(on, "runs-on %s became the queue %s; create it, or choose another", label, keyOf(label))
		}
	}
}

// actionStep adds a step of a job to the commands of the converted step.
func (c *converter) actionStep(s *step, item node, folder string, number int) {
	name := item.get("name").text()
	if name == "" {
		name = "step " + strconv.Itoa(number)
	}
	if uses := item.get("uses").text(); uses != "" {
		c.action(s, item, uses, name)
		return
	}
	run := item.get("run")
	if !run.set() {
		return
	}
	if condition := item.get("if"); condition.set() {
		c.note(condition, "the condition of %q was left out: %s", name, condition.text())
	}
	if shell := item.get("shell"); shell.set() && shell.text() != "bash" && shell.text() != "sh" {
		c.note(shell, "%q uses the shell %s; commands run in the agent's shell", name, shell.text())
	}
	for _, key := range []string{"continue-on-error", "timeout-minutes"} {
		if v := item.get(key); v.set() {
			c.note(v, "%s of %q was left out; steps have it as a whole", key, name)
		}
	}
	command := c.expressions(run, s)
	if at := item.get("working-directory").text(); at != "" {
		folder = at
	}
	// Each step starts in the workspace, with its own variables.
	var before []string
	for _, p := range item.get("env").pairs() {
		before = append(before, "export "+p.key+"="+quoted(c.expressions(p.value, s)))
	}
	if folder != "" {
		before = append(before, "cd "+quoted(folder))
	}
	if len(before) > 0 {
		command = "(\n" + strings.Join(before, "\n") + "\n" + strings.TrimRight(command, "\n") + "\n)"
	}
	if item.get("name").set() {
		command = "echo '--- " + strings.ReplaceAll(c.plainExpressions(name), "'", "") + "'\n" + command
	}
	s.commands = append(s.commands, command)
}

// quoted quotes a text for the shell; variables in it are replaced.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(text) + `"`
}

// action converts the actions that have counterparts.
func (c *converter) action(s *step, item node, uses, name string) {
	with := item.get("with")
	action, _, _ := strings.Cut(uses, "@")
	switch {
	case action == "actions/checkout":
		for _, p := range with.pairs() {
			c.note(p.value, "%s of actions/checkout was left out; agents check out the commit before the command", p.key)
		}
	case action == "actions/upload-artifact":
		for path := range strings.Lines(with.get("path").text()) {
			path = strings.TrimSpace(path)
			switch {
			case path == "":
			case strings.ContainsAny(path, "*?"):
				s.artifacts = append(s.artifacts, path)
			default:
				s.artifacts = append(s.artifacts, path, strings.TrimRight(path, "/")+"/**/*")
			}
		}
	case action == "actions/download-artifact":
		folder := with.get("path").text()
		if folder == "" {
			folder = "."
		}
		s.commands = append(s.commands, "stackyard agent artifact download '*' "+quoted(folder))
		c.note(item, "%q downloads all artifacts of the build; narrow the pattern", uses)
	case strings.HasPrefix(action, "actions/setup-"):
		tool := strings.TrimPrefix(action, "actions/setup-")
		c.note(item, "%s was left out: install %s on the agents, or set image", uses, tool)
	default:
		c.note(item, "the action %s (%s) was left out; write a command for it", uses, name)
	}
}

// strategy converts a matrix with include and exclude.
func (c *converter) strategy(strategy node) *matrix {
	m := strategy.get("matrix")
	if !m.set() {
		return nil
	}
	if !m.isMapping() {
		c.note(m, "a matrix that is an expression was left out")
		return nil
	}
	x := &matrix{}
	for _, p := range m.pairs() {
		if p.key == "include" || p.key == "exclude" {
			continue
		}
		if !p.value.isList() || len(p.value.texts()) != len(p.value.items()) {
			c.note(p.value, "the dimension %s of the matrix was left out: only lists of texts are converted", p.key)
			continue
		}
		x.dimensions = append(x.dimensions, dimension{notInDimension.ReplaceAllString(p.key, "_"), p.value.texts()})
	}
	for _, item := range m.get("exclude").items() {
		c.adjust(x, item, true)
	}
	for _, item := range m.get("include").items() {
		c.adjust(x, item, false)
	}
	if len(x.dimensions) == 0 {
		return nil
	}
	return x
}

var notInDimension = regexp.MustCompile(`[^A-Za-z0-9_]`)

// adjust adds a combination that a matrix includes or excludes, if it names a value of each dimension.
func (c *converter) adjust(x *matrix, item node, skip bool) {
	var with []pair
	for _, d := range x.dimensions {
		for _, p := range item.pairs() {
			if notInDimension.ReplaceAllString(p.key, "_") == d.name {
				with = append(with, pair{d.name, p.value.text()})
			}
		}
	}
	if len(with) != len(x.dimensions) || len(item.pairs()) != len(with) {
		c.note(item, "a combination that the matrix includes or excludes was left out, because it does not name just the dimensions")
		return
	}
	x.adjustments = append(x.adjustments, adjustment{with, skip})
}
