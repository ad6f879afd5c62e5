package definition

import "stackyard/internal/platform/core"

// A VisualResponse is a step in REST responses. It includes the parts that the type of the step has, with all
// their fields; a field without value is null.
type VisualResponse struct {
	Type string `json:"type" doc:"What the step is: script, waiter, manual or trigger."`
	*VisualLabel
	*VisualScript
	*VisualTrigger
	*VisualJobs
}

// VisualLabel holds the fields of manual and trigger steps.
type VisualLabel struct {
	Label *string `json:"label" doc:"The label of the step."`
}

// VisualScript holds the fields of script steps.
type VisualScript struct {
	Name             *string           `json:"name" doc:"The label of the step."`
	Command          string            `json:"command" doc:"The commands, one to a line."`
	ArtifactPaths    *string           `json:"artifact_paths" doc:"The artifacts, separated by semicolons."`
	Env              map[string]string `json:"env" doc:"The environment of the step."`
	TimeoutInMinutes *int              `json:"timeout_in_minutes" doc:"How long the step may run."`
	AgentQueryRules  []string          `json:"agent_query_rules" doc:"The agents that the step runs on, as key=value."`
	ConcurrencyGroup string            `json:"concurrency_group,omitempty" doc:"The concurrency group, when the step has one."`
	Plugins          []Plugin          `json:"plugins,omitempty" doc:"The plugins, when the step has some: each an object with its source as the one key, and its configuration or null."`
}

// VisualTrigger holds the fields of trigger steps.
type VisualTrigger struct {
	Pipeline string      `json:"pipeline" doc:"The slug of the pipeline that is built."`
	Build    VisualBuild `json:"build" doc:"The build that is started."`
	Async    bool        `json:"async" doc:"Whether the step passes as soon as the build exists."`
}

// VisualJobs holds the fields that script and trigger steps share.
type VisualJobs struct {
	BranchConfiguration *string `json:"branch_configuration" doc:"The branches that the step is for."`
	Concurrency         *int    `json:"concurrency" doc:"How many jobs of the concurrency group run at a time."`
	Parallelism         *int    `json:"parallelism" doc:"How many jobs the step creates."`
}

// Visual returns the steps as the REST API shows them. The visual form is less expressive than YAML: block and
// input steps are both manual, and a group is replaced by its members.
func (p *Pipeline) Visual() []VisualResponse {
	return appendVisual([]VisualResponse{}, p.Steps)
}

func appendVisual(list []VisualResponse, steps []Step) []VisualResponse {
	for _, s := range steps {
		if s.Kind == KindGroup {
			list = appendVisual(list, s.Group.Steps)
			continue
		}
		list = append(list, s.visual())
	}
	return list
}

func (s Step) visual() VisualResponse {
	label := core.OrNull(s.Label)
	jobs := &VisualJobs{BranchConfiguration: core.OrNull(string(s.Branches))}
	switch s.Kind {
	case KindWait:
		return VisualResponse{Type: "waiter"}
	case KindTrigger:
		jobs.Parallelism = s.Trigger.Parallelism
		return VisualResponse{Type: "trigger", VisualLabel: &VisualLabel{label}, VisualTrigger: s.Trigger.visual(), VisualJobs: jobs}
	case KindCommand:
		jobs.Parallelism = s.Command.Parallelism
		if c := s.Command.Concurrency; c != nil {
			jobs.Concurrency = &c.Limit
		}
		return VisualResponse{Type: "script", VisualScript: s.Command.visual(label), VisualJobs: jobs}
	}
	return VisualResponse{Type: "manual", VisualLabel: &VisualLabel{label}}
}

func (c *Command) visual(name *string) *VisualScript {
	script := &VisualScript{
		Name:             name,
		Command:          c.Script,
		ArtifactPaths:    core.OrNull(c.ArtifactPaths),
		Env:              c.Env.Map(),
		TimeoutInMinutes: c.TimeoutInMinutes,
		AgentQueryRules:  append([]string{}, c.Agents...),
		Plugins:          c.Plugins,
	}
	if c.Concurrency != nil {
		script.ConcurrencyGroup = c.Concurrency.Group
	}
	return script
}

func (t *Trigger) visual() *VisualTrigger {
	build := VisualBuild{
		Message: core.OrNull(t.Build.Message),
		Branch:  core.OrNull(t.Build.Branch),
		Commit:  core.OrNull(t.Build.Commit),
		Env:     t.Build.Env.Map(),
	}
	return &VisualTrigger{Pipeline: t.Pipeline, Build: build, Async: t.Async}
}
