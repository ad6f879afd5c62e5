package builds

import (
	"encoding/json"

	"stackyard/internal/platform/db"
	"stackyard/internal/rules/definition"
)

// A variation is what a job of a matrix has in place of what its step has. What is the same for all
// jobs of the step is left out: a large step must not be written once for each of its jobs.
type variation struct {
	label   string
	Command *string           `json:"command,omitempty"`
	Plugins json.RawMessage   `json:"plugins,omitempty"`
	Agents  []string          `json:"agents,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// vary returns what a job of a command step has of its own.
func (p *planner) vary(c *definition.Command, t definition.JobTemplate) *variation {
	v := &variation{label: t.Label}
	if t.Script != c.Script {
		v.Command = &t.Script
	}
	if !shared(t.Plugins, c.Plugins) {
		v.Plugins = plugins(t.Plugins)
	}
	if !shared(t.Agents, c.Agents) {
		v.Agents = agents(p.defaults.Agents, t.Agents)
	}
	if !shared(t.Env, c.Env) {
		v.Env = t.Env.Map()
	}
	return v
}

// shared reports whether two lists of the same length are one and the same. What does not vary is
// shared by all job templates of a step.
func shared[T any](a, b []T) bool { return len(a) == 0 || &a[0] == &b[0] }

// of returns the work of the job, given that of its step.
func (v variation) of(w Work) Work {
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

// describeOwn gives the jobs of a matrix what they have in place of their step's.
func describeOwn(q *db.Q, jobs []*Job) error {
	byID := make(map[string]*Job)
	for _, j := range jobs {
		if j.Matrix != nil {
			byID[j.ID] = j
		}
	}
	if len(byID) == 0 {
		return nil
	}
	in, arg := q.In("job_id", 1, keys(byID))
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var own variation
		if err := scan(&id, &own.label, db.ToJSON(&own)); err != nil {
			return none, err
		}
		j := byID[id]
		j.Label, j.Work = own.label, own.of(j.Work)
		return none, nil
	}, `SELECT job_id, label, work FROM job_details WHERE `+in, arg)
	return err
}
