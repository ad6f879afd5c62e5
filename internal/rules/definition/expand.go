package definition

// A JobTemplate describes a job of a step. Jobs of one step share data, which must not be modified.
type JobTemplate struct {
	// Label, Script, Env, Agents and Plugins come from the step, with matrix placeholders replaced.
	Label   string
	Script  string
	Env     Env
	Agents  []string
	Plugins []Plugin
	// Matrix is nil without a matrix, a string for a matrix without named dimensions, and otherwise a
	// map[string]string of values by dimension.
	Matrix any
	// ParallelIndex is the index of the job in a parallel step. Both are nil for other steps.
	ParallelIndex, ParallelTotal *int
	SoftFail                     SoftFail
	Skip                         Skip
	// BrokenReason, if set, is why the job never runs.
	BrokenReason string
}

// ParallelismZero is the broken reason of the only job of a step with parallelism 0.
const ParallelismZero = "parallelism_zero"

// Expand returns the jobs of the step: one per matrix combination, one per parallel index, or one. A group has
// none. The cost is proportional to the number of jobs and the size of the texts that differ between them.
func (s *Step) Expand() []JobTemplate {
	one := JobTemplate{Label: s.Label, Skip: s.Skip}
	switch {
	case s.Kind == KindGroup:
		return nil
	case s.Trigger != nil:
		one.SoftFail = s.Trigger.SoftFail
		return one.parallel(s.Trigger.Parallelism)
	case s.Command == nil:
		return []JobTemplate{one}
	}
	c := s.Command
	one.Script, one.Env, one.Agents, one.Plugins, one.SoftFail = c.Script, c.Env, c.Agents, c.Plugins, c.SoftFail
	if c.Matrix != nil {
		return one.combined(c.Matrix)
	}
	return one.parallel(c.Parallelism)
}

// parallel returns one copy of the template per parallel index.
func (t JobTemplate) parallel(parallelism *int) []JobTemplate {
	switch {
	case parallelism == nil:
		return []JobTemplate{t}
	case *parallelism == 0:
		t.BrokenReason = ParallelismZero
		return []JobTemplate{t}
	}
	total := *parallelism
	indexes := make([]int, total)
	jobs := make([]JobTemplate, total)
	for i := range jobs {
		indexes[i] = i
		jobs[i] = t
		jobs[i].ParallelIndex, jobs[i].ParallelTotal = &indexes[i], &total
	}
	return jobs
}

// combined returns one copy of the template per combination of a matrix.
func (t JobTemplate) combined(m *Matrix) []JobTemplate {
	label, script := m.template(t.Label), m.template(t.Script)
	env := m.textTemplates(t.Env.values())
	agents := m.textTemplates(t.Agents)
	plugins := m.pluginTemplates(t.Plugins)

	combinations := m.Combinations()
	jobs := make([]JobTemplate, len(combinations))
	for i, c := range combinations {
		job := t
		job.Label, job.Script = label.text(c.Values), script.text(c.Values)
		if env != nil {
			job.Env = t.Env.with(fillTexts(env, c.Values))
		}
		if agents != nil {
			job.Agents = fillTexts(agents, c.Values)
		}
		if plugins != nil {
			job.Plugins = fillPlugins(plugins, c.Values)
		}
		job.Matrix = m.named(c.Values)
		if c.Skip.On {
			job.Skip = c.Skip
		}
		if c.SoftFail != nil {
			job.SoftFail = *c.SoftFail
		}
		jobs[i] = job
	}
	return jobs
}

// named returns the values of a combination as JobTemplate.Matrix.
func (m *Matrix) named(values []string) any {
	if m.Dimensions[0].Name == "" {
		return values[0]
	}
	named := make(map[string]string, len(values))
	for i, d := range m.Dimensions {
		named[d.Name] = values[i]
	}
	return named
}

func (e Env) values() []string {
	values := make([]string, len(e))
	for i, v := range e {
		values[i] = v.Value
	}
	return values
}

// with returns the variables with new values.
func (e Env) with(values []string) Env {
	env := make(Env, len(e))
	for i, v := range e {
		env[i] = Variable{v.Name, values[i]}
	}
	return env
}

// textTemplates parses the placeholders of texts. It returns nil if there are none.
func (m *Matrix) textTemplates(texts []string) []template {
	templates := make([]template, len(texts))
	varies := false
	for i, text := range texts {
		templates[i] = m.template(text)
		varies = varies || !templates[i].constant()
	}
	if !varies {
		return nil
	}
	return templates
}

func fillTexts(templates []template, values []string) []string {
	texts := make([]string, len(templates))
	for i, t := range templates {
		texts[i] = t.text(values)
	}
	return texts
}

// A pluginTemplate is a plugin that may have placeholders.
type pluginTemplate struct {
	source template
	config any
}

// pluginTemplates parses the placeholders of plugins. It returns nil if there are none.
func (m *Matrix) pluginTemplates(plugins []Plugin) []pluginTemplate {
	templates := make([]pluginTemplate, len(plugins))
	varies := false
	for i, p := range plugins {
		t := pluginTemplate{m.template(p.Source), m.templates(p.Config)}
		templates[i] = t
		varies = varies || !t.source.constant() || isTemplate(t.config)
	}
	if !varies {
		return nil
	}
	return templates
}

func fillPlugins(templates []pluginTemplate, values []string) []Plugin {
	plugins := make([]Plugin, len(templates))
	for i, t := range templates {
		plugins[i] = Plugin{t.source.text(values), fill(t.config, values)}
	}
	return plugins
}
