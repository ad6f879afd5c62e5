package plan

import (
	"encoding/json"

	"stackyard/internal/rules/definition"
)

// A Variation is what a job of a matrix has in place of the work of its step. Values that all jobs of the step share
// are left out, so that a large step is not stored once per job.
type Variation struct {
	Label   string            `json:"-"`
	Command *string           `json:"command,omitempty"`
	Plugins json.RawMessage   `json:"plugins,omitempty"`
	Agents  []string          `json:"agents,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// vary returns the variation of a job of a command step.
func (p *Planner) vary(c *definition.Command, t definition.JobTemplate) *Variation {
	v := &Variation{Label: t.Label}
	if t.Script != c.Script {
		v.Command = &t.Script
	}
	if !shared(t.Plugins, c.Plugins) {
		v.Plugins = plugins(t.Plugins)
	}
	if !shared(t.Agents, c.Agents) {
		v.Agents = agents(p.Defaults.Agents, t.Agents)
	}
	if !shared(t.Env, c.Env) {
		v.Env = t.Env.Map()
	}
	return v
}

// shared reports whether two lists of the same length are the same list. Job templates share what does not vary with
// their step.
func shared[T any](a, b []T) bool { return len(a) == 0 || &a[0] == &b[0] }

// Apply returns the work of the job, given the work of its step.
func (v Variation) Apply(w Work) Work {
	if v.Command != nil {
		w.Command = *v.Command
	}
	if v.Plugins != nil {
		w.Plugins = v.Plugins
	}
	if v.Agents != nil {
		w.Agents = v.Agents
	}
	if v.Env != nil {
		w.Env = v.Env
	}
	return w
}
