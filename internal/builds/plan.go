package builds

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/core"
	"stackyard/internal/definition"
	"stackyard/internal/flow"
	"stackyard/internal/pipelines"
	"stackyard/internal/settings"
)

// A plan is what the steps of a definition become: what flow must know of them, and beside it, by
// their ids, the rest of what is kept of steps and jobs.
type plan struct {
	specs []flow.Spec
	steps map[string]*plannedStep
	jobs  map[string]*plannedJob
}

type plannedStep struct {
	label string
	work  Work
}

type plannedJob struct {
	index                        int // among the jobs of its step
	priority                     int
	queueID                      string
	timeout                      *int // minutes
	parallelIndex, parallelTotal *int
	matrix                       any
	own                          *plannedStep // what a job of a matrix has in place of its step's
	concurrency                  *definition.Concurrency
}

func (p *plannedJob) group() any {
	if p.concurrency == nil {
		return nil
	}
	return p.concurrency.Group
}

func (p *plannedJob) limit() any {
	if p.concurrency == nil {
		return nil
	}
	return p.concurrency.Limit
}

func (p *plannedJob) method() any {
	if p.concurrency == nil {
		return nil
	}
	return string(p.concurrency.Method)
}

// Work is what a step asks for, apart from when it runs. The part that goes with its kind is set.
type Work struct {
	Command       string              `json:"command,omitempty"`
	Plugins       json.RawMessage     `json:"plugins,omitempty"`
	Agents        []string            `json:"agents,omitempty"`
	Env           map[string]string   `json:"env,omitempty"`
	ArtifactPaths string              `json:"artifact_paths,omitempty"`
	Manual        *definition.Manual  `json:"manual,omitempty"`
	Trigger       *definition.Trigger `json:"trigger,omitempty"`
	// Attributes are what only agents and notifications read.
	Attributes map[string]any `json:"attributes,omitempty"`
}

// The reasons of jobs that never run because of what was written.
const (
	branchMismatch = "branch_mismatch"
	skipped        = "skipped" // where no reason was written
)

// A planner makes plans of the steps of one build.
type planner struct {
	build    *Build
	pipeline *pipelines.Pipeline
	settings settings.Settings
	defaults *definition.Pipeline // what steps fall back on
	context  *definition.Context  // of conditions
	// queues are the ids of the cluster's queues by key, the default one by "".
	queues  map[string]string
	plan    plan
	problem error
}

// draw makes a plan of steps.
func (p *planner) draw(steps []definition.Step) (plan, error) {
	p.plan = plan{steps: map[string]*plannedStep{}, jobs: map[string]*plannedJob{}}
	p.plan.specs = p.list(steps, "")
	return p.plan, p.problem
}

// list plans steps one by one; broken is why none of them runs, if there is a reason.
func (p *planner) list(steps []definition.Step, broken string) []flow.Spec {
	specs := make([]flow.Spec, 0, len(steps))
	for _, s := range steps {
		specs = append(specs, p.step(s, cmp.Or(broken, p.broken(s))))
	}
	return specs
}

// broken returns why no job of a step runs, or "".
func (p *planner) broken(s definition.Step) string {
	switch {
	case !s.Branches.Match(p.build.Branch):
		return branchMismatch
	case !p.holds(s):
		return conditionFailed
	case s.Kind == definition.KindGroup && s.Skip.On:
		return reason(s.Skip)
	}
	return ""
}

// reason returns why a job is skipped.
func reason(s definition.Skip) string {
	if !s.On {
		return ""
	}
	return cmp.Or(s.Reason, skipped)
}

// jobTypes are the types of the jobs that steps make.
var jobTypes = map[definition.Kind]flow.JobType{
	definition.KindCommand: flow.Script,
	definition.KindWait:    flow.Waiter,
	definition.KindBlock:   flow.Manual,
	definition.KindInput:   flow.Manual,
	definition.KindTrigger: flow.Trigger,
}

func (p *planner) step(s definition.Step, broken string) flow.Spec {
	step := &flow.Step{ID: core.NewID(), Key: s.Key, Kind: s.Kind, AllowDependencyFailure: s.AllowDependencyFailure}
	planned := &plannedStep{label: s.Label, work: Work{Attributes: s.Attributes}}
	p.plan.steps[step.ID] = planned
	spec := flow.Spec{Step: step, DependsOn: s.DependsOn}
	switch s.Kind {
	case definition.KindGroup:
		spec.Members = p.list(s.Group.Steps, broken)
		return spec
	case definition.KindWait:
		step.ContinueOnFailure = s.Wait.ContinueOnFailure
	case definition.KindBlock, definition.KindInput:
		step.BlockedState, planned.work.Manual = s.Manual.BlockedState, s.Manual
	case definition.KindTrigger:
		step.Async, planned.work.Trigger = s.Trigger.Async, s.Trigger
	case definition.KindCommand:
		c := s.Command
		step.Retry, step.Concurrency, step.CancelOnBuildFailing = c.Retry, c.Concurrency, c.CancelOnBuildFailing
		planned.work = p.commandWork(planned.work, c, c.Script, c.Env, c.Agents, c.Plugins)
	}
	for i, t := range s.Expand() {
		spec.Jobs = append(spec.Jobs, p.job(s, planned, i, t, broken))
	}
	return spec
}

// job plans one job of a step.
func (p *planner) job(s definition.Step, step *plannedStep, index int, t definition.JobTemplate, broken string) *flow.Job {
	j := &flow.Job{
		ID:           core.NewID(),
		Type:         jobTypes[s.Kind],
		SoftFail:     t.SoftFail,
		BrokenReason: cmp.Or(broken, t.BrokenReason, reason(t.Skip)),
	}
	planned := &plannedJob{index: index, parallelIndex: t.ParallelIndex, parallelTotal: t.ParallelTotal, matrix: t.Matrix}
	p.plan.jobs[j.ID] = planned
	c := s.Command
	if c == nil {
		return j
	}
	work := step.work
	if t.Matrix != nil {
		work = p.commandWork(work, c, t.Script, t.Env, t.Agents, t.Plugins)
		planned.own = &plannedStep{label: t.Label, work: work}
	}
	planned.queueID = p.queue(work.Agents)
	planned.timeout = p.timeout(c.TimeoutInMinutes)
	planned.concurrency = c.Concurrency
	if first := cmp.Or(c.Priority, p.defaults.Priority); first != nil {
		planned.priority = *first
	}
	return j
}

// commandWork returns what a command step, or one job of its matrix, asks for.
func (p *planner) commandWork(w Work, c *definition.Command, script string, env definition.Env, rules []string, list []definition.Plugin) Work {
	w.Command, w.Env, w.ArtifactPaths = script, env.Map(), c.ArtifactPaths
	w.Agents, w.Plugins = agents(p.defaults.Agents, rules), plugins(list)
	return w
}

// plugins returns plugins as agents read them.
func plugins(list []definition.Plugin) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // they came from YAML, in the shapes that JSON has
	}
	return text
}

// agents returns agent query rules, with the default ones for keys that a step has no rule for.
func agents(defaults, own []string) []string {
	rules := slices.Clone(own)
	for _, rule := range defaults {
		key, _, _ := strings.Cut(rule, "=")
		if !slices.ContainsFunc(own, func(r string) bool { return strings.HasPrefix(r, key+"=") }) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// queue returns the id of the queue that agent query rules name, of the default one when they name
// none, "" when there is none. An unknown queue is a problem with the definition.
func (p *planner) queue(rules []string) string {
	key := ""
	for _, rule := range rules {
		if k, value, _ := strings.Cut(rule, "="); k == "queue" && value != "*" {
			key = value
		}
	}
	id, ok := p.queues[key]
	if !ok && key != "" && p.problem == nil {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(p.queues)), func(k string) bool { return k == "" })
		p.problem = core.Errorf(core.Unprocessable, "The cluster has no queue with the key %q; its queues are: %s", key, strings.Join(known, ", "))
	}
	return id
}

// timeout returns how many minutes a job may run, nil for as long as it likes: what the step says, or
// the pipeline, or the organization, and no more than the latter two allow.
func (p *planner) timeout(step *int) *int {
	timeout := cmp.Or(step, p.pipeline.DefaultTimeout, positive(p.settings.DefaultTimeout))
	for _, most := range []*int{p.pipeline.MaximumTimeout, positive(p.settings.MaximumTimeout)} {
		if most != nil && (timeout == nil || *timeout > *most) {
			timeout = most
		}
	}
	return timeout
}

// positive returns nil for 0.
func positive(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
