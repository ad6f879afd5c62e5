package definition

// A JobTemplate is a job that a step makes. What is the same for all jobs of the step is shared among
// them and must not be changed.
type JobTemplate struct {
	// Label, Script, Env, Agents and Plugins are those of the step, with the placeholders of the
	// matrix filled in.
	Label   string
	Script  string
	Env     Env
	Agents  []string
	Plugins []Plugin
	// Matrix is the value of a matrix without named dimensions, a string, or the values by dimension,
	// a map[string]string; nil without a matrix.
	Matrix any
	// ParallelIndex counts the jobs of a parallel step from zero; both are nil for other steps.
	ParallelIndex, ParallelTotal *int
	SoftFail                     SoftFail
	Skip                         Skip
	// BrokenReason, when set, is why the job never runs, whatever else holds.
	BrokenReason string
}

// ParallelismZero is why the one job of a step with a parallelism of zero never runs.
const ParallelismZero = "parallelism_zero"

// Expand returns the jobs that the step makes: those of a matrix or a parallelism, else one. A group
// makes none itself. The time it takes grows with the jobs and with the texts that differ between
// them.
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

// parallel returns as many copies of the template as a parallelism says.
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

// combined returns a copy of the template for each combination of a matrix.
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

// named returns the values of a combination as [JobTemplate] has them.
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

// with returns the variables with other values.
func (e Env) with(values []string) Env {
	env := make(Env, len(e))
	for i, v := range e {
		env[i] = Variable{v.Name, values[i]}
	}
	return env
}

// textTemplates finds the placeholders of texts; it returns nil when there are none.
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

// pluginTemplates finds the placeholders of plugins; it returns nil when there are none.
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
