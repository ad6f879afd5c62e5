package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/rules/message"
)

// A VisualStep is a step in REST requests. The type decides which fields apply. A trigger step may also use the
// form of responses, so that clients can send back what they read.
type VisualStep struct {
	Type                string            `json:"type" doc:"What the step is: script, waiter, manual or trigger."`
	Name                string            `json:"name,omitempty" doc:"The label of a script step."`
	Label               string            `json:"label,omitempty" doc:"The label of a manual or trigger step."`
	Command             string            `json:"command,omitempty" doc:"The commands of a script step, one to a line."`
	ArtifactPaths       string            `json:"artifact_paths,omitempty" doc:"The artifacts of a script step, separated by semicolons."`
	BranchConfiguration string            `json:"branch_configuration,omitempty" doc:"The branches that the step is for."`
	Env                 map[string]string `json:"env,omitempty" doc:"The environment of a script step."`
	TimeoutInMinutes    *int              `json:"timeout_in_minutes,omitempty" doc:"How long a script step may run."`
	AgentQueryRules     []string          `json:"agent_query_rules,omitempty" doc:"The agents that a script step runs on, as key=value."`
	Concurrency         *int              `json:"concurrency,omitempty" doc:"How many jobs of the concurrency group run at a time."`
	ConcurrencyGroup    string            `json:"concurrency_group,omitempty" doc:"The concurrency group of a script step."`
	Parallelism         *int              `json:"parallelism,omitempty" doc:"How many jobs the step creates."`
	Plugins             json.RawMessage   `json:"plugins,omitempty" doc:"The plugins of a script step: a list of sources and of objects from one source to its configuration, or an object of sources to configurations."`

	TriggerProjectSlug string `json:"trigger_project_slug,omitempty" doc:"The pipeline that a trigger step builds."`
	TriggerCommit      string `json:"trigger_commit,omitempty" doc:"The commit that a trigger step builds."`
	TriggerBranch      string `json:"trigger_branch,omitempty" doc:"The branch that a trigger step builds."`
	TriggerAsync       bool   `json:"trigger_async,omitempty" doc:"Whether a trigger step passes as soon as the build exists."`

	Pipeline string       `json:"pipeline,omitempty" doc:"As trigger_project_slug, in the form of a response."`
	Build    *VisualBuild `json:"build,omitempty" doc:"The build that a trigger step starts, in the form of a response."`
	Async    bool         `json:"async,omitempty" doc:"As trigger_async, in the form of a response."`
}

// VisualBuild describes the build that a trigger step starts.
type VisualBuild struct {
	Message *string           `json:"message" doc:"The message; the step's label when null."`
	Branch  *string           `json:"branch" doc:"The branch; the pipeline's default branch when null."`
	Commit  *string           `json:"commit" doc:"The commit; HEAD when null."`
	Env     map[string]string `json:"env" doc:"The environment of the build."`
}

// visualTypes are the types of visual steps.
var visualTypes = []string{"script", "waiter", "manual", "trigger"}

// FromVisual checks visual steps and converts them to a pipeline. It returns a validation error that names
// fields like steps[2].type.
func FromVisual(steps []VisualStep) (*Pipeline, error) {
	var problems core.Problems
	if len(steps) == 0 {
		problems.Add("steps", "must have at least one step")
	}
	p := &Pipeline{}
	jobs := 0
	for i, visual := range steps {
		check := visualCheck{&problems, fmt.Sprintf("steps[%d].", i)}
		step := check.step(visual)
		p.Steps = append(p.Steps, step)
		if jobs += step.jobs(); jobs > maxJobs {
			problems.Add("steps", "must make at most %d jobs", maxJobs)
			break
		}
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// A visualCheck records the problems of one visual step.
type visualCheck struct {
	problems *core.Problems
	prefix   string
}

func (c visualCheck) add(field, format string, args ...any) {
	if len(*c.problems) < maxProblems {
		c.problems.Add(c.prefix+field, format, args...)
	}
}

func (c visualCheck) step(v VisualStep) Step {
	s := Step{Branches: core.BranchFilter(v.BranchConfiguration)}
	switch v.Type {
	case "script":
		s.Kind = KindCommand
		s.Label = firstOf(v.Name, v.Label)
		s.Command = c.script(v)
	case "waiter":
		s.Kind = KindWait
		s.Wait = &Wait{}
	case "manual":
		s.Kind = KindBlock
		s.Label = firstOf(v.Label, v.Name)
		s.Manual = &Manual{BlockedState: BlockedPassed}
	case "trigger":
		s.Kind = KindTrigger
		s.Label = firstOf(v.Label, v.Name)
		s.Trigger = c.trigger(v)
	case "":
		c.add("type", "can't be blank")
	default:
		c.add("type", "must be one of %s, found %s%s", strings.Join(visualTypes, ", "), message.Quote(v.Type), message.Suggestion(v.Type, visualTypes))
	}
	return s
}

func (c visualCheck) script(v VisualStep) *Command {
	plugins := c.plugins(v.Plugins)
	if strings.TrimSpace(v.Command) == "" && len(plugins) == 0 {
		c.add("command", "can't be blank")
	}
	command := &Command{
		Script:           v.Command,
		Plugins:          plugins,
		Env:              c.env("env", v.Env),
		ArtifactPaths:    v.ArtifactPaths,
		Parallelism:      c.between("parallelism", v.Parallelism, 0, maxJobs),
		TimeoutInMinutes: c.between("timeout_in_minutes", v.TimeoutInMinutes, 1, maxInteger),
		Retry:            defaultRetry(),
	}
	for i, text := range v.AgentQueryRules {
		rule, ok := agentRule(text)
		if !ok {
			c.add(fmt.Sprintf("agent_query_rules[%d]", i), "must have the form key=value, found %s", message.Quote(text))
		}
		command.Agents = append(command.Agents, rule)
	}
	switch limit := c.between("concurrency", v.Concurrency, 1, maxInteger); {
	case limit != nil && v.ConcurrencyGroup == "":
		c.add("concurrency_group", "must be given with concurrency")
	case v.Concurrency == nil && v.ConcurrencyGroup != "":
		c.add("concurrency", "must be given with concurrency_group")
	case utf8.RuneCountInString(v.ConcurrencyGroup) > maxConcurrencyGroup:
		c.add("concurrency_group", "must be at most %d characters", maxConcurrencyGroup)
	case limit != nil:
		command.Concurrency = &Concurrency{Group: v.ConcurrencyGroup, Limit: *limit, Method: Ordered}
	}
	return command
}

func (c visualCheck) trigger(v VisualStep) *Trigger {
	slug := firstOf(v.TriggerProjectSlug, v.Pipeline)
	switch {
	case slug == "":
		c.add("trigger_project_slug", "can't be blank")
	case !core.ValidSlug(slug):
		c.add("trigger_project_slug", "must be the slug of a pipeline, found %s%s", message.Quote(slug), slugSuggestion(slug))
	}
	if v.Concurrency != nil {
		c.add("concurrency", "can't be set on a trigger step")
	}
	trigger := &Trigger{
		Pipeline:    slug,
		Async:       v.TriggerAsync || v.Async,
		Parallelism: c.between("parallelism", v.Parallelism, 0, maxJobs),
	}
	build := VisualBuild{}
	if v.Build != nil {
		build = *v.Build
	}
	trigger.Build = TriggerBuild{
		Message: orEmpty(build.Message),
		Commit:  firstOf(v.TriggerCommit, orEmpty(build.Commit)),
		Branch:  firstOf(v.TriggerBranch, orEmpty(build.Branch)),
		Env:     c.env("build.env", build.Env),
	}
	return trigger
}

// env converts variables to a list, sorted by name.
func (c visualCheck) env(field string, variables map[string]string) Env {
	var env Env
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if why := badVariable(name); why != "" {
			c.add(field, "has a variable %s: %s", message.Quote(name), why)
		}
		env = append(env, Variable{name, variables[name]})
	}
	return env
}

// between returns n, or nil after recording a problem if it is out of bounds.
func (c visualCheck) between(field string, n *int, low, high int) *int {
	if n != nil && (*n < low || *n > high) {
		c.add(field, "must be a whole number from %d to %d, found %d", low, high, *n)
		return nil
	}
	return n
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// orEmpty returns "" for nil.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
